"""`PredictorConfig`: address and options of a transformer's or explainer's predictor."""

from __future__ import annotations

from typing import Any

from penstock.compat.kserve.constants.constants import PredictorProtocol

__all__ = ["PredictorConfig"]


class PredictorConfig:
    """Address and options of the predictor that `Model.predict` calls.

    Args:
        predictor_host: The host, with a port unless it is the scheme's default.
        predictor_protocol: "v1", "v2" or "grpc-v2".
        predictor_use_ssl: Whether to call it over TLS.
        predictor_request_timeout_seconds: Timeout of one request.
        predictor_request_retries: Additional attempts.
        predictor_health_check: Whether this server is ready only while the predictor is.

    Example:
        >>> PredictorConfig("mnist-predictor.default", "v2").predictor_base_url
        'http://mnist-predictor.default'
    """

    def __init__(  # noqa: PLR0917 - KServe's order
        self,
        predictor_host: str | None,
        predictor_protocol: str | PredictorProtocol = PredictorProtocol.REST_V1.value,
        predictor_use_ssl: bool = False,
        predictor_request_timeout_seconds: float = 600,
        predictor_request_retries: int = 0,
        predictor_health_check: bool = False,
    ) -> None:
        self.predictor_host = predictor_host
        self.predictor_protocol: str = plain_protocol(predictor_protocol)
        self.predictor_use_ssl = predictor_use_ssl
        self.predictor_request_timeout_seconds = predictor_request_timeout_seconds
        self.predictor_request_retries = predictor_request_retries
        self.predictor_health_check = predictor_health_check

    @property
    def predictor_base_url(self) -> str:
        """The URL that the predictor's paths are added to."""
        return f"{'https' if self.predictor_use_ssl else 'http'}://{self.predictor_host}"

    @property
    def protocol(self) -> str:
        """`predictor_protocol`."""
        return self.predictor_protocol

    @property
    def timeout(self) -> float:
        """`predictor_request_timeout_seconds`."""
        return self.predictor_request_timeout_seconds

    @property
    def retries(self) -> int:
        """`predictor_request_retries`."""
        return self.predictor_request_retries

    @property
    def use_ssl(self) -> bool:
        """`predictor_use_ssl`."""
        return self.predictor_use_ssl


def plain_protocol(protocol: Any) -> str:
    """Returns the name of a protocol, given by name or as a member of the enumeration."""
    return protocol.value if isinstance(protocol, PredictorProtocol) else str(protocol)
