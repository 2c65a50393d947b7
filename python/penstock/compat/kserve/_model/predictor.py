"""How a model asks its predictor and its explainer."""

from __future__ import annotations

import functools
import os
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from penstock.compat.kserve.constants.constants import PredictorProtocol
from penstock.compat.kserve.inference_client import (
    ConnectError,
    ConnectTimeout,
    HTTPStatusError,
    InferenceGRPCClient,
    InferenceRESTClient,
    ReadError,
    ReadTimeout,
    RESTConfig,
    RpcError,
)
from penstock.compat.kserve.protocol.infer_type import InferRequest

if TYPE_CHECKING:
    from penstock.compat.kserve.model import Model
    from penstock.compat.kserve.predictor_config import PredictorConfig

__all__ = ["client_of", "close_clients", "explain", "predict", "predict_by_grpc", "predict_by_rest"]

_FORWARDED = ("x-request-id", "x-b3-traceid", "authorization", "traceparent", "tracestate")
_STATUS_OF_CODE = {
    "CANCELLED": 499,
    "INVALID_ARGUMENT": 400,
    "DEADLINE_EXCEEDED": 504,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "PERMISSION_DENIED": 403,
    "RESOURCE_EXHAUSTED": 429,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "UNAUTHENTICATED": 401,
}
_clients: list[Any] = []


async def predict(model: Model, payload: Any, headers: Any, response_headers: Any) -> Any:
    """What the predictor answers; see `Model.predict`."""
    config = model.predictor_config
    if config is None:
        raise NotImplementedError("Could not find PredictorConfig.")
    if not config.predictor_host:
        raise NotImplementedError("Could not find predictor_host.")
    if config.protocol == PredictorProtocol.GRPC_V2.value:
        return await model._grpc_predict(payload, headers)
    return await model._http_predict(payload, headers, response_headers)


async def predict_by_rest(model: Model, payload: Any, headers: Any, response_headers: Any) -> Any:
    """What a predictor answers over REST. The headers of its answer are added to those given, but for its body's."""
    config = model.predictor_config
    assert config is not None
    told: dict[str, str] | None = None if response_headers is None else {}
    try:
        answered = await model._http_client.infer(
            config.predictor_base_url,
            model_name=model.name,
            data=payload,
            headers=_forwarded(headers, {"content-type": "application/json"}),
            response_headers=told,
        )
    except Exception as error:
        _say_whose(error, "predictor")
        raise
    if told is not None:
        _add(told, response_headers)
    return answered


async def predict_by_grpc(model: Model, payload: Any, headers: Any) -> Any:
    """What a predictor answers over gRPC."""
    if hasattr(payload, "raw_input_contents"):
        payload = InferRequest.from_grpc(payload)
    metadata = {"request_type": "grpc_v2", "response_type": "grpc_v2"}
    try:
        return await model._grpc_client.infer(
            infer_request=payload, headers=tuple(_forwarded(headers, metadata).items())
        )
    except Exception as error:
        _say_whose(error, "predictor")
        raise


async def explain(model: Model, payload: Any, headers: Any) -> Any:
    """What the explainer answers, in the protocol v1; see `Model.explain`."""
    if model.explainer_host is None:
        raise NotImplementedError("Could not find explainer_host.")
    config = model.predictor_config
    client = rest_client(PredictorProtocol.REST_V1.value, model.timeout, 0 if config is None else config.retries)
    media = (headers or {}).get("content-type", "application/json")
    try:
        return await client.explain(
            f"{'https' if model.use_ssl else 'http'}://{model.explainer_host}",
            model_name=model.name,
            data=payload,
            headers=_forwarded(headers, {"content-type": media}),
        )
    except Exception as error:
        _say_whose(error, "explainer")
        raise


@functools.cache
def rest_client(protocol: str, timeout: float, retries: int) -> InferenceRESTClient:
    """The client of this process for predictors that are asked so. It trusts whom the environment says."""
    verify = _authorities() or True
    made = InferenceRESTClient(RESTConfig(protocol=protocol, timeout=timeout, retries=retries, verify=verify))
    _clients.append(made)
    return made


@functools.cache
def grpc_client(host: str, use_ssl: bool, timeout: float, retries: int) -> InferenceGRPCClient:
    """The client of this process for a predictor. It trusts whom the environment says."""
    made = InferenceGRPCClient(
        host,
        use_ssl=use_ssl,
        root_certificates=_authorities() if use_ssl else None,
        timeout=timeout,
        retries=retries,
    )
    _clients.append(made)
    return made


def client_of(config: PredictorConfig) -> Any:
    """The client that a configuration asks for."""
    if config.protocol == PredictorProtocol.GRPC_V2.value:
        return grpc_client(str(config.predictor_host), config.use_ssl, config.timeout, config.retries)
    return rest_client(config.protocol, config.timeout, config.retries)


async def close_clients() -> None:
    """Closes all clients of predictors."""
    rest_client.cache_clear()
    grpc_client.cache_clear()
    while _clients:
        await _clients.pop().close()


def _authorities() -> str | None:
    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or None


def _forwarded(headers: Any, base: dict[str, str]) -> dict[str, str]:
    """Those of a request's headers that go on to the next server, and others."""
    return {**base, **{name: headers[name] for name in _FORWARDED if headers and name in headers}}


def _add(told: dict[str, str], kept: MutableMapping[str, str]) -> None:
    """Adds the headers of an answer. Those of its body are not those of the body that is sent on."""
    for name, value in told.items():
        lower = name.lower()
        if not lower.startswith(("content-", "inference-header-")):
            kept[lower] = value


def _say_whose(error: Exception, whose: str) -> None:
    """Notes in an error what callers are told of it: the other server's status and text, without its address."""
    told = _upstream(error, whose)
    if told is not None:
        error.upstream = told  # type: ignore[attr-defined] # `_failures` looks for it


def _upstream(error: Exception, whose: str) -> tuple[int, str] | None:
    """Status and text of another server's refusal, or of its absence."""
    if isinstance(error, HTTPStatusError):
        status = error.response.status_code
        return status, _text(error.response) or f"the {whose} answered {status} {_phrase(status)}".rstrip()
    if isinstance(error, RpcError):
        name = error.code().name
        if name == "UNAVAILABLE" and "cannot connect" in error.details():
            return 503, f"the {whose} cannot be reached"
        return _STATUS_OF_CODE.get(name, 500), str(error.details() or f"the {whose} answered {name}")
    if isinstance(error, ReadTimeout):
        return 504, f"the {whose} did not answer in time"
    if isinstance(error, (ConnectError, ConnectTimeout, ReadError)):
        return 503, f"the {whose} cannot be reached"
    return None


def _text(response: Any) -> str:
    """The message of an answer that refuses."""
    try:
        said = response.json()
    except ValueError:
        return ""
    if isinstance(said, dict):
        said = said.get("error", said.get("detail", ""))
    return said if isinstance(said, str) else ""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
