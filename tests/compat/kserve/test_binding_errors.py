"""Responses of models that raise, over REST and gRPC."""

from __future__ import annotations

from typing import Any

import pytest
from kserve_serving import CODES, logged, serving

from penstock import Overloaded
from penstock.compat.kserve.errors import (
    InferenceError,
    InvalidInput,
    ModelMissingError,
    ModelNotFound,
    ModelNotReady,
    ServerNotLive,
    ServerNotReady,
    UnsupportedProtocol,
    WorkersShouldBeLessThanMaxWorkersError,
)
from penstock.compat.kserve.model import Model


class HTTPException(Exception):
    """An exception like those of fastapi and starlette."""

    def __init__(self, status_code: int, detail: Any, headers: Any = None) -> None:
        super().__init__(status_code, detail)
        self.status_code, self.detail, self.headers = status_code, detail, headers


class TeapotError(Exception):
    """An exception with its own status."""

    status = 418


class Raises(Model):
    def __init__(self, error: Exception, *, waits: bool = False) -> None:
        super().__init__("m")
        self.error, self.waits = error, waits
        self.load()

    def predict(self, payload: Any, headers: Any = None) -> Any:
        raise self.error

    def explain(self, payload: Any, headers: Any = None) -> Any:
        raise self.error


class RaisesLater(Raises):
    async def predict(self, payload: Any, headers: Any = None) -> Any:
        raise self.error


TABLE: list[tuple[Exception, int, str, Any, str]] = [
    (InvalidInput("bad x"), 400, "bad x", CODES.INVALID_ARGUMENT, "bad x"),
    (InferenceError("no", status="S"), 500, "[S] no", CODES.INVALID_ARGUMENT, "no"),
    (ModelNotFound("z"), 404, "Model with name z does not exist.", CODES.NOT_FOUND, ""),
    (ModelNotReady("z", "Wait."), 503, "Model with name z is not ready. Wait.", CODES.UNAVAILABLE, ""),
    (ServerNotReady(), 503, "Server is not ready.", CODES.UNAVAILABLE, ""),
    (ServerNotLive(), 503, "Server is not live.", CODES.UNAVAILABLE, ""),
    (UnsupportedProtocol("v9"), 501, "Unsupported protocol v9.", CODES.INVALID_ARGUMENT, ""),
    (NotImplementedError("not yet"), 501, "not yet", CODES.UNIMPLEMENTED, ""),
    (ModelMissingError("/p"), 500, "ModelMissingError : /p", CODES.INTERNAL, "Internal server error"),
    (
        WorkersShouldBeLessThanMaxWorkersError(2),
        500,
        "WorkersShouldBeLessThanMaxWorkersError : Workers cannot be greater than 2",
        CODES.INTERNAL,
        "Internal server error",
    ),
    (KeyError("k"), 500, "KeyError : 'k'", CODES.INTERNAL, "Internal server error"),
    (Overloaded("full"), 429, "full", CODES.RESOURCE_EXHAUSTED, "full"),
]


@pytest.mark.parametrize(("error", "status", "text", "code", "details"), TABLE, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("kind", [Raises, RaisesLater], ids=["plain", "async"])
def test_model_exceptions_map_to_status_and_text(
    kind: type[Raises], error: Exception, status: int, text: str, code: Any, details: str
) -> None:
    with serving(kind(error)) as served:
        v1, v2, refused = served.predict({"instances": []}), served.infer(), served.grpc_error()
        explained = served.post("/v1/models/m:explain", {"instances": []})
    for response in (v1, v2, explained):
        assert (response.status_code, response.json()) == (status, {"error": text})
        assert response.headers["content-type"] == "application/json"
    assert refused == (code, details or text)


def test_http_exceptions_set_status_detail_and_headers() -> None:
    with serving(Raises(HTTPException(418, {"why": "tea"}, {"x-pot": "1"}))) as served:
        v1, v2 = served.predict({"instances": []}), served.infer()
        code, details = served.grpc_error()
    for response in (v1, v2):
        assert (response.status_code, response.json(), response.headers["x-pot"]) == (
            418,
            {"detail": {"why": "tea"}},
            "1",
        )
    assert (code, details) == (CODES.INVALID_ARGUMENT, '{"why":"tea"}')


def test_exceptions_may_define_a_status_attribute() -> None:
    with serving(Raises(TeapotError("short and stout"))) as served:
        response = served.predict({"instances": []})
    assert (response.status_code, response.json()) == (418, {"error": "short and stout"})


def test_error_responses_keep_the_connection_open() -> None:
    import requests

    with serving(Raises(KeyError("k"))) as served, requests.Session() as session:
        for _ in range(3):
            response = session.post(f"{served.http}/v1/models/m:predict", json={"instances": []}, timeout=20)
            assert response.status_code == 500
            assert response.headers.get("connection", "") != "close"


def test_only_unexpected_exceptions_are_logged_with_a_traceback() -> None:
    with logged("kserve") as lines:
        with serving(Raises(KeyError("k"))) as served:
            served.predict({"instances": []})
        assert "Exception:" in lines
        with serving(Raises(InvalidInput("bad"))) as served:
            served.predict({"instances": []})
    assert lines.count("Exception:") == 1
    assert "400: bad" in lines


@pytest.mark.parametrize("body", [b"{", b"", b"\xff", b'{"instances":[NaN]}', b"[1] 2"])
def test_invalid_json_is_a_client_error(body: bytes) -> None:
    with serving(Raises(KeyError("never"))) as served:
        response = served.predict(body, content_type="application/json")
    assert response.status_code == 400
    assert response.json()["error"].startswith("Unrecognized request format: ")


def test_non_list_instances_are_a_client_error() -> None:
    with serving(Raises(KeyError("never"))) as served:
        response = served.predict({"instances": 1})
    assert (response.status_code, response.json()) == (400, {"error": 'Expected "instances" to be a list'})


@pytest.mark.parametrize("kind", [Raises, RaisesLater], ids=["plain", "async"])
def test_unready_models_refuse_requests(kind: type[Raises]) -> None:
    model = kind(KeyError("never"))
    with serving(model) as served:
        model.ready = False
        v1, v2, refused = served.predict({"instances": []}), served.infer(), served.grpc_error()
    text = "Model with name m is not ready."
    assert [(one.status_code, one.json()) for one in (v1, v2)] == [(503, {"error": text})] * 2
    assert refused == (CODES.UNAVAILABLE, text)


def _plain_health(self: Any) -> bool:
    return self.is_healthy


async def _async_health(self: Any) -> bool:
    return self.is_healthy


@pytest.mark.parametrize("healthy", [_plain_health, _async_health], ids=["plain", "async"])
@pytest.mark.parametrize("kind", [Raises, RaisesLater], ids=["plain", "async"])
def test_d10_healthy_may_be_a_sync_or_async_method(kind: type[Raises], healthy: Any) -> None:
    model = type("Checked", (kind,), {"healthy": healthy})(InvalidInput("invalid"))
    model.is_healthy = False
    with serving(model) as served:
        assert served.predict({"instances": []}).status_code == 503
        model.is_healthy = True
        assert served.predict({"instances": []}).status_code == 400


def test_non_callable_models_are_named_in_the_error() -> None:
    from penstock.compat.kserve.model import BaseKServeModel

    class Other(BaseKServeModel):
        pass

    model = Other("m")
    model.load()
    with serving(model) as served:
        response = served.predict({"instances": []})
    assert (response.status_code, response.json()) == (
        500,
        {"error": "ValueError : Model of type Other does not support inference"},
    )
