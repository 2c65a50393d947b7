"""`PredictorConfig`: where a transformer's or explainer's predictor is, and how it is asked."""

from __future__ import annotations

from typing import Any

from penstock.compat.kserve.constants.constants import PredictorProtocol

__all__ = ["PredictorConfig"]


class PredictorConfig:
    """How `Model.predict` reaches a predictor.

    Args:
        predictor_host: Its host, with a port if that is not the scheme's own.
        predictor_protocol: "v1", "v2" or "grpc-v2".
        predictor_use_ssl: Whether it is asked over TLS.
        predictor_request_timeout_seconds: How long one request may take.
        predictor_request_retries: How many more attempts there may be.
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
    """A protocol's name, of the name or the enumeration's member."""
    return protocol.value if isinstance(protocol, PredictorProtocol) else str(protocol)
