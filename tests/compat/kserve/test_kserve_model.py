"""`Model` without a server: arguments, attributes and calls."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kserve_serving import logged

from penstock.compat.kserve import context, dialect
from penstock.compat.kserve._model.base import readiness_listeners
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.model import (
    BaseKServeModel,
    InferenceModel,
    InferenceVerb,
    Model,
    PredictorConfig,
    PredictorProtocol,
    get_latency_ms,
    is_v2,
)
from penstock.compat.kserve.protocol.infer_type import InferRequest


@pytest.fixture(autouse=True)
def _restored_state() -> Iterator[None]:
    before = dialect.current(), context.get_predictor_config()
    yield
    dialect.use(before[0])
    context.set_predictor_config(before[1])


def call(model: Model, *arguments: Any, **named: Any) -> Any:
    return asyncio.run(model(*arguments, **named))


class Recording(Model):
    """Records the arguments of its stages."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.calls: list[tuple[str, Any, Any]] = []

    def preprocess(self, payload: Any, headers: Any = None) -> Any:
        self.calls.append(("preprocess", payload, headers))
        return {"instances": [*payload["instances"], "pre"]}

    async def predict(self, payload: Any, headers: Any = None) -> Any:
        self.calls.append(("predict", payload, headers))
        return {"predictions": payload["instances"]}

    async def explain(self, payload: Any, headers: Any = None) -> Any:
        self.calls.append(("explain", payload, headers))
        return {"explanations": payload["instances"]}

    def postprocess(self, result: Any, headers: Any = None) -> Any:
        self.calls.append(("postprocess", result, headers))
        return {**result, "post": True}


def test_s08_base_model_has_a_name_and_is_not_ready() -> None:
    model = BaseKServeModel("m")
    assert (model.name, model.ready, model.engine) == ("m", False, False)


def test_s09_healthy_is_boolean_and_awaitable() -> None:
    model = BaseKServeModel("m")

    async def check() -> bool:
        return await model.healthy()

    assert not model.healthy()
    assert asyncio.run(check()) is False
    model.ready = True
    assert model.healthy()
    assert asyncio.run(check()) is True
    assert str(model.healthy()) == "True"


def test_s10_stop_makes_the_model_not_ready() -> None:
    model = BaseKServeModel("m")
    model.start()
    assert model.ready
    model.stop()
    assert not model.ready


def test_d20_engine_start_and_stop_set_readiness() -> None:
    model = BaseKServeModel("m")
    asyncio.run(model.start_engine())
    assert model.ready
    model.stop_engine()
    assert not model.ready


def test_readiness_listeners_are_called() -> None:
    notified: list[tuple[str, bool]] = []

    def listen(model: BaseKServeModel, ready: bool) -> None:
        notified.append((model.name, ready))

    model = BaseKServeModel("m")
    readiness_listeners.append(listen)
    try:
        model.load()
        model.ready = False
    finally:
        readiness_listeners.remove(listen)
    model.load()
    assert notified == [("m", True), ("m", False)]


def test_d20_inference_models_must_be_callable() -> None:
    assert InferenceModel.__abstractmethods__ == {"__call__"}
    assert Model("m").get_input_types() == Model("m").get_output_types() == []


def test_s11_sync_and_async_stages_run_in_order() -> None:
    model, headers = Recording("m"), {"x": "1"}
    response, response_headers = call(model, {"instances": [1]}, headers)
    assert response == {"predictions": [1, "pre"], "post": True}
    assert response_headers == {}
    assert [name for name, *_ in model.calls] == ["preprocess", "predict", "postprocess"]
    assert all(passed is headers for *_, passed in model.calls)


def test_s11_explain_replaces_predict() -> None:
    model = Recording("m")
    response, _ = call(model, {"instances": [1]}, None, InferenceVerb.EXPLAIN)
    assert response["explanations"] == [1, "pre"]
    assert [name for name, *_ in model.calls] == ["preprocess", "explain", "postprocess"]


def test_s11_sync_stages_may_return_an_awaitable() -> None:
    class Partial(Model):
        def __init__(self) -> None:
            super().__init__("m")
            setattr(self, "predict", functools.partial(self.compute, 2))  # noqa: B010 - scripts do this

        async def compute(self, factor: int, payload: Any, headers: Any = None) -> Any:
            return [factor * one for one in payload["instances"]]

    assert call(Partial(), {"instances": [1, 2]})[0] == [2, 4]


def test_s11_latency_line_has_request_id_and_all_stages() -> None:
    model = Recording("m")
    model.enable_latency_logging = True
    with logged("kserve.trace") as lines:
        call(model, {"instances": []}, {"x-request-id": "r1"})
        call(model, {"instances": []}, None, InferenceVerb.EXPLAIN)
    first, second = (dict(part.split(": ") for part in line.split(", ")) for line in lines)
    assert list(first) == ["requestId", "preprocess_ms", "explain_ms", "predict_ms", "postprocess_ms"]
    assert (first["requestId"], first["explain_ms"]) == ("r1", "0")
    assert float(first["predict_ms"]) > 0
    assert (second["requestId"], second["predict_ms"]) == ("N.A.", "0")
    assert float(second["explain_ms"]) > 0


def test_d2_verb_may_precede_headers() -> None:
    model = Recording("m")
    call(model, {"instances": []}, InferenceVerb.EXPLAIN, {"x": "1"})
    call(model, {"instances": []}, InferenceVerb.EXPLAIN)
    call(model, {"instances": []}, verb=InferenceVerb.EXPLAIN, headers={"x": "2"})
    calls = [(name, headers) for name, _, headers in model.calls if name in ("predict", "explain")]
    assert calls == [("explain", {"x": "1"}), ("explain", None), ("explain", {"x": "2"})]


def test_d3_dialect_0_13_returns_only_the_response() -> None:
    dialect.use("0.13")
    assert call(Recording("m"), {"instances": [1]}) == {"predictions": [1, "pre"], "post": True}


@pytest.mark.parametrize("named", [True, False])
def test_d4_return_response_headers_passes_a_third_argument(named: bool) -> None:
    class Headed(Model):
        def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
            response_headers["a"] = "1"
            return payload

        def postprocess(self, result: Any, headers: Any = None, response_headers: Any = None) -> Any:
            response_headers["b"] = response_headers["a"]
            return result

    model = Headed("m", return_response_headers=True) if named else Headed("m", True)
    assert model.required_response_headers is True
    assert call(model, {}) == ({}, {"a": "1", "b": "1"})


def test_d13_generate_returns_the_iterator_of_predict() -> None:
    class Words(Model):
        async def predict(self, payload: Any, headers: Any = None) -> Any:
            async def words() -> Any:
                for word in payload["text"].split():
                    yield word

            return words()

    async def read() -> list[str]:
        chunks, _ = await Words("m")({"text": "a b"}, verb=InferenceVerb.GENERATE)
        return [chunk async for chunk in chunks]

    assert asyncio.run(read()) == ["a", "b"]
    assert [verb.value for verb in InferenceVerb] == [1, 2, 3]


def test_unknown_verbs_are_not_implemented() -> None:
    with pytest.raises(NotImplementedError):
        call(Recording("m"), {"instances": []}, None, "predict")


def test_s12_predictor_config_is_positional_or_keyword() -> None:
    config = PredictorConfig("host:1", "v2", True, 5)
    for model in (Model("m", config), Model("m", predictor_config=config)):
        assert (model.protocol, model.predictor_host, model.timeout, model.use_ssl) == ("v2", "host:1", 5, True)
        assert model.required_response_headers is False
        assert model.explainer_host is None
        assert model.enable_latency_logging is False


def test_s12_predictor_attributes_have_defaults_and_are_assignable() -> None:
    model = Model("m")
    assert model.predictor_config is None
    assert (model.protocol, model.predictor_host, model.timeout, model.use_ssl) == ("v1", None, 600, False)
    model.predictor_host, model.protocol, model.timeout, model.use_ssl = "h", PredictorProtocol.GRPC_V2, 3, True
    assert (model.protocol, model.predictor_host, model.timeout, model.use_ssl) == ("grpc-v2", "h", 3, True)
    assert model.predictor_config is not None
    assert model.predictor_config.predictor_base_url == "https://h"


def test_d1_server_predictor_config_is_the_default_for_models() -> None:
    context.set_predictor_config(PredictorConfig("server", "v2", predictor_request_retries=2))
    model = Model("m")
    assert (model.predictor_host, model.protocol) == ("server", "v2")
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(model.predictor_host))
    thread.start()
    thread.join()
    assert seen == ["server"]
    model.predictor_host = "own"
    assert model.predictor_config is not None
    assert (model.predictor_config.predictor_host, model.predictor_config.retries) == ("own", 2)
    assert Model("m", PredictorConfig("mine")).predictor_host == "mine"


def test_s14_load_sets_and_returns_ready() -> None:
    model = Model("m")
    assert model.load() is True
    assert model.ready is True


@pytest.mark.parametrize("stage", ["preprocess", "postprocess"])
def test_s15_s17_default_stages_are_the_identity(stage: str) -> None:
    value = object()
    assert asyncio.run(getattr(Model("m"), stage)(value, {})) is value


def test_s15_s17_overrides_may_call_the_base() -> None:
    class Calls(Model):
        async def preprocess(self, payload: Any, headers: Any = None) -> Any:
            return await super().preprocess({"instances": payload}, headers)

        def predict(self, payload: Any, headers: Any = None) -> Any:
            return payload["instances"]

        async def postprocess(self, result: Any, headers: Any = None, response_headers: Any = None) -> Any:
            return await super().postprocess([*result, 2], headers)

    assert call(Calls("m"), [1])[0] == [1, 2]


def test_s18_predictor_config_has_attributes_and_aliases() -> None:
    config = PredictorConfig("h")
    assert vars(config) == {
        "predictor_host": "h",
        "predictor_protocol": "v1",
        "predictor_use_ssl": False,
        "predictor_request_timeout_seconds": 600,
        "predictor_request_retries": 0,
        "predictor_health_check": False,
    }
    config = PredictorConfig("h", PredictorProtocol.REST_V2, True, 1, 2, True)
    assert (config.protocol, config.use_ssl, config.timeout, config.retries) == ("v2", True, 1, 2)
    assert config.predictor_health_check is True
    assert config.predictor_base_url == "https://h"


@pytest.mark.parametrize(("protocol", "name", "other"), [("v1", "instances", "inputs"), ("v2", "inputs", "instances")])
def test_validate_requires_a_list_for_the_predictor_protocol(protocol: str, name: str, other: str) -> None:
    model = Model("m", PredictorConfig("h", protocol))
    for payload in ({name: []}, {other: 1}, {}, [name], b"instances", InferRequest("m", [])):
        assert model.validate(payload) is payload
    with pytest.raises(InvalidInput, match=f'Expected "{name}" to be a list'):
        model.validate({name: 1})
    with pytest.raises(InvalidInput, match=f'Expected "{name}" to be a list'):
        call(model, {name: "text"})


def test_validate_may_be_overridden() -> None:
    class Strict(Recording):
        def validate(self, payload: Any) -> Any:
            return {"instances": [*super().validate(payload)["instances"], "validated"]}

    model = Strict("m")
    call(model, {"instances": []})
    assert model.calls[1][1] == {"instances": ["pre", "validated"]}


def test_latency_and_protocol_helpers() -> None:
    assert get_latency_ms(1.0, 1.5) == 500.0
    assert [is_v2(protocol) for protocol in (PredictorProtocol.REST_V1, PredictorProtocol.GRPC_V2, "v2", "v1")] == [
        *(False, True),
        *(True, False),
    ]
