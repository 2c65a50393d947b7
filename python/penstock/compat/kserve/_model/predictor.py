"""Calls of a model's predictor and explainer."""

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
    from penstock.compat.kserve._model.base import PredictingModel
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


async def predict(model: PredictingModel, payload: Any, headers: Any, response_headers: Any) -> Any:
    """Returns the predictor's response; see `Model.predict`."""
    config = model.predictor_config
    if config is None:
        raise NotImplementedError("Could not find PredictorConfig.")
    if not config.predictor_host:
        raise NotImplementedError("Could not find predictor_host.")
    if config.protocol == PredictorProtocol.GRPC_V2.value:
        return await model._grpc_predict(payload, headers)
    return await model._http_predict(payload, headers, response_headers)


async def predict_by_rest(model: PredictingModel, payload: Any, headers: Any, response_headers: Any) -> Any:
    """Returns a predictor's response over REST; adds its headers to `response_headers`, without those of its body."""
    config = model.predictor_config
    assert config is not None
    received: dict[str, str] | None = None if response_headers is None else {}
    try:
        response = await model._http_client.infer(
            config.predictor_base_url,
            model_name=model.name,
            data=payload,
            headers=_forwarded_headers(headers, {"content-type": "application/json"}),
            response_headers=received,
        )
    except Exception as error:
        _attach_upstream(error, "predictor")
        raise
    if received is not None:
        _add_headers(received, response_headers)
    return response


async def predict_by_grpc(model: PredictingModel, payload: Any, headers: Any) -> Any:
    """Returns a predictor's response over gRPC."""
    if hasattr(payload, "raw_input_contents"):
        payload = InferRequest.from_grpc(payload)
    metadata = {"request_type": "grpc_v2", "response_type": "grpc_v2"}
    try:
        return await model._grpc_client.infer(
            infer_request=payload, headers=tuple(_forwarded_headers(headers, metadata).items())
        )
    except Exception as error:
        _attach_upstream(error, "predictor")
        raise


async def explain(model: PredictingModel, payload: Any, headers: Any) -> Any:
    """Returns the explainer's response, in the protocol v1; see `Model.explain`."""
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
            headers=_forwarded_headers(headers, {"content-type": media}),
        )
    except Exception as error:
        _attach_upstream(error, "explainer")
        raise


@functools.cache
def rest_client(protocol: str, timeout: float, retries: int) -> InferenceRESTClient:
    """Returns this process's REST client for these options; it trusts the environment's CA bundle."""
    verify = _ca_bundle() or True
    client = InferenceRESTClient(RESTConfig(protocol=protocol, timeout=timeout, retries=retries, verify=verify))
    _clients.append(client)
    return client


@functools.cache
def grpc_client(host: str, use_ssl: bool, timeout: float, retries: int) -> InferenceGRPCClient:
    """Returns this process's gRPC client for a predictor; it trusts the environment's CA bundle."""
    client = InferenceGRPCClient(
        host,
        use_ssl=use_ssl,
        root_certificates=_ca_bundle() if use_ssl else None,
        timeout=timeout,
        retries=retries,
    )
    _clients.append(client)
    return client


def client_of(config: PredictorConfig) -> Any:
    """Returns the client of a configuration."""
    if config.protocol == PredictorProtocol.GRPC_V2.value:
        return grpc_client(str(config.predictor_host), config.use_ssl, config.timeout, config.retries)
    return rest_client(config.protocol, config.timeout, config.retries)


async def close_clients() -> None:
    """Closes all predictor clients."""
    rest_client.cache_clear()
    grpc_client.cache_clear()
    while _clients:
        await _clients.pop().close()


def _ca_bundle() -> str | None:
    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or None


def _forwarded_headers(headers: Any, base: dict[str, str]) -> dict[str, str]:
    """Returns `base` plus the request headers that are forwarded to the next server."""
    return {**base, **{name: headers[name] for name in _FORWARDED if headers and name in headers}}


def _add_headers(received: dict[str, str], target: MutableMapping[str, str]) -> None:
    """Adds a response's headers, without those of its body, since another body is sent."""
    for name, value in received.items():
        lower = name.lower()
        if not lower.startswith(("content-", "inference-header-")):
            target[lower] = value


def _attach_upstream(error: Exception, peer: str) -> None:
    """Sets `error.upstream` to what clients may see of it: the peer's status and text, without its address."""
    received = _upstream(error, peer)
    if received is not None:
        error.upstream = received  # type: ignore[attr-defined] # `_request.errors` reads it


def _upstream(error: Exception, peer: str) -> tuple[int, str] | None:
    """Returns status and text of a peer's error response or of a failed connection; None for other errors."""
    if isinstance(error, HTTPStatusError):
        status = error.response.status_code
        return status, _text(error.response) or f"the {peer} answered {status} {_phrase(status)}".rstrip()
    if isinstance(error, RpcError):
        name = error.code().name
        if name == "UNAVAILABLE" and "cannot connect" in error.details():
            return 503, f"the {peer} cannot be reached"
        return _STATUS_OF_CODE.get(name, 500), str(error.details() or f"the {peer} answered {name}")
    if isinstance(error, ReadTimeout):
        return 504, f"the {peer} did not answer in time"
    if isinstance(error, (ConnectError, ConnectTimeout, ReadError)):
        return 503, f"the {peer} cannot be reached"
    return None


def _text(response: Any) -> str:
    """Returns the message of an error response."""
    try:
        message = response.json()
    except ValueError:
        return ""
    if isinstance(message, dict):
        message = message.get("error", message.get("detail", ""))
    return message if isinstance(message, str) else ""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
