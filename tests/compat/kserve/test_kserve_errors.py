"""The exceptions and their handlers: row R3."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.compat.kserve import errors
from penstock.compat.kserve._request.json_response import JSONResponse

MODELS = [SimpleNamespace(name="a"), SimpleNamespace(name="b")]

TEXTS = [
    (errors.InferenceError("r"), RuntimeError, "r"),
    (errors.InferenceError("r", "S", "hidden"), RuntimeError, "[S] r"),
    (errors.InferenceError(None), RuntimeError, "None"),
    (errors.InvalidInput("r"), ValueError, "r"),
    (errors.ModelNotFound("m"), Exception, "Model with name m does not exist."),
    (errors.ModelNotFound(), Exception, "Model with name None does not exist."),
    (errors.ModelNotReady("m"), RuntimeError, "Model with name m is not ready."),
    (errors.ModelNotReady("m", "It loads."), RuntimeError, "Model with name m is not ready. It loads."),
    (errors.UnsupportedProtocol("v9"), Exception, "Unsupported protocol v9."),
    (errors.ServerNotReady(), RuntimeError, "Server is not ready."),
    (errors.ServerNotReady("Wait."), RuntimeError, "Server is not ready. Wait."),
    (errors.ServerNotLive("Gone."), RuntimeError, "Server is not live. Gone."),
    (errors.WorkersShouldBeLessThanMaxWorkersError(3), Exception, "Workers cannot be greater than 3"),
    (errors.ModelMissingError("/p"), Exception, "/p"),
    (errors.NoModelReady(MODELS[:1]), RuntimeError, "Model with name a is not ready."),
    (errors.NoModelReady(MODELS, "Why?"), RuntimeError, "Models with names a,b are not ready. Why?"),
]


@pytest.mark.parametrize(("error", "base", "text"), TEXTS, ids=lambda value: type(value).__name__)
def test_r3_exception_texts_and_bases(error: Exception, base: type, text: str) -> None:
    assert str(error) == text
    assert type(error).__bases__ == (base,)
    unpickled = pickle.loads(pickle.dumps(error))
    assert type(unpickled) is type(error)
    assert str(unpickled) == text


def test_r3_exception_attributes() -> None:
    error = errors.InferenceError("r", "S", "hidden")
    assert (error.reason, error.status, error.debug_details) == ("r", "S", "hidden")
    assert repr(errors.InvalidInput("r")) == "InvalidInput('r')"
    not_ready = errors.ModelNotReady("m", "d")
    assert (not_ready.model_name, not_ready.error_msg, not_ready.reason) == ("m", str(not_ready), str(not_ready))
    assert errors.NoModelReady(MODELS).models is MODELS
    assert errors.ModelMissingError("/p").path == "/p"


HANDLERS = [
    (errors.exception_handler, 500, "why"),
    (errors.generic_exception_handler, 500, "ValueError : why"),
    (errors.inference_error_handler, 500, "why"),
    (errors.invalid_input_handler, 400, "why"),
    (errors.model_not_found_handler, 404, "why"),
    (errors.model_not_ready_handler, 503, "why"),
    (errors.not_implemented_error_handler, 501, "why"),
    (errors.unsupported_protocol_error_handler, 501, "why"),
    (errors.server_not_ready_handler, 503, "why"),
    (errors.server_not_live_handler, 503, "why"),
]


@pytest.mark.parametrize(("handler", "status", "text"), HANDLERS, ids=lambda value: getattr(value, "__name__", None))
@pytest.mark.parametrize("framework", [False, True])
def test_r3_handlers_work_with_and_without_a_framework(
    handler: Any, status: int, text: str, framework: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if framework:
        kind = pytest.importorskip("starlette.responses").JSONResponse
    else:
        monkeypatch.delitem(sys.modules, "starlette.responses", raising=False)
        kind = JSONResponse
    response = asyncio.run(handler(None, ValueError("why")))
    assert type(response) is kind
    assert response.status_code == status
    assert json.loads(response.body) == {"error": text}
    assert response.headers["content-type"] == response.media_type == "application/json"
    assert response.headers["content-length"] == str(len(response.body))


def test_r3_all_exported_handlers_are_tested() -> None:
    assert {name for name in errors.__all__ if name.endswith("_handler")} == {one[0].__name__ for one in HANDLERS}


def test_r3_handlers_log_the_traceback() -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign, assignment]
    logger = logging.getLogger("kserve")
    logger.addHandler(handler)
    try:
        asyncio.run(errors.invalid_input_handler(None, ValueError("why")))
    finally:
        logger.removeHandler(handler)
    assert [(record.levelname, record.getMessage()) for record in records] == [("ERROR", "Exception:")]
    assert records[0].exc_info
    assert isinstance(records[0].exc_info[1], ValueError)
