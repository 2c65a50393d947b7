"""Readiness of a predictor, for a transformer that is ready only while its predictor is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.compat.kserve.constants.constants import PredictorProtocol
from penstock.compat.kserve.logging import logger

if TYPE_CHECKING:
    from penstock.compat.kserve.inference_client import InferenceGRPCClient, InferenceRESTClient
    from penstock.compat.kserve.predictor_config import PredictorConfig

__all__ = ["model", "server"]


async def server(config: PredictorConfig) -> bool:
    """Returns whether the predictor's server is ready; in protocol v1 whether it is alive."""
    url = config.predictor_base_url
    try:
        if config.predictor_protocol == PredictorProtocol.GRPC_V2.value:
            async with _grpc(config) as client:
                return bool(await client.is_server_ready())
        async with _rest(config) as client:
            is_v1 = config.predictor_protocol == PredictorProtocol.REST_V1.value
            return bool(await (client.is_server_live(url) if is_v1 else client.is_server_ready(url)))
    except Exception as error:
        logger.debug("The readiness check of the predictor at %s failed: %s", url, error)
        return False


async def model(config: PredictorConfig, name: str) -> bool:
    """Returns whether the predictor's model of that name is ready."""
    url = config.predictor_base_url
    try:
        if config.predictor_protocol == PredictorProtocol.GRPC_V2.value:
            async with _grpc(config) as client:
                return bool(await client.is_model_ready(name))
        async with _rest(config) as client:
            return bool(await client.is_model_ready(url, name))
    except Exception as error:
        logger.debug("The readiness check of the predictor at %s for model %s failed: %s", url, name, error)
        return False


def _rest(config: PredictorConfig) -> InferenceRESTClient:
    from penstock.compat.kserve.inference_client import InferenceRESTClient, RESTConfig

    return InferenceRESTClient(
        RESTConfig(
            protocol=config.predictor_protocol,
            retries=config.predictor_request_retries,
            timeout=config.predictor_request_timeout_seconds,
        )
    )


def _grpc(config: PredictorConfig) -> InferenceGRPCClient:
    from penstock.compat.kserve.inference_client import InferenceGRPCClient

    return InferenceGRPCClient(
        url=str(config.predictor_host),
        use_ssl=config.predictor_use_ssl,
        timeout=config.predictor_request_timeout_seconds,
        retries=config.predictor_request_retries,
    )
