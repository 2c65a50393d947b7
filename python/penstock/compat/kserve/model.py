"""`Model` and its base classes, which scripts subclass."""

from __future__ import annotations

from typing import Any

from penstock.compat.kserve import context, dialect
from penstock.compat.kserve._model.base import BaseKServeModel, InferenceModel, InferenceVerb
from penstock.compat.kserve.constants.constants import PredictorProtocol
from penstock.compat.kserve.predictor_config import PredictorConfig, plain_protocol

__all__ = [
    "BaseKServeModel",
    "InferReturnType",
    "InferReturnValueTypes",
    "InferenceModel",
    "InferenceVerb",
    "Model",
    "PredictorConfig",
    "PredictorProtocol",
    "get_latency_ms",
    "is_v2",
]

InferReturnValueTypes = Any
"""A model's result: a dict, a list, an `InferResponse`, text, bytes, or an async iterator of chunks."""
InferReturnType = Any
"""A result, or an awaitable of one."""


class Model(InferenceModel):
    """A script's model: `preprocess`, then `predict` or `explain`, then `postprocess`.

    Each stage may be plain or async. Plain stages run on threads, so that a blocking stage delays no other request.
    Async stages run on an event loop. Stages that a script does not override cost nothing.

    Args:
        name: The name on the wire.
        predictor_config: The predictor that the default `predict` calls (KServe 0.13); or `return_response_headers`
            (later versions).
        return_response_headers: Whether `predict` and `postprocess` take a third argument, a dict for response
            headers.

    Attributes:
        protocol: The predictor's protocol.
        predictor_host: The predictor's host.
        timeout: The predictor's timeout in seconds.
        use_ssl: Whether the predictor is called over TLS.
        explainer_host: The host that the default `explain` calls.
        enable_latency_logging: Whether to log the stage durations of each request.

    Example:
        >>> class Double(Model):
        ...     def predict(self, payload, headers=None):
        ...         return {"predictions": [2 * x for x in payload["instances"]]}
        >>> ModelServer().start([Double("double")])
    """

    def __init__(
        self,
        name: str,
        predictor_config: PredictorConfig | bool | None = None,
        return_response_headers: bool = False,
    ) -> None:
        super().__init__(name)
        if isinstance(predictor_config, bool):
            return_response_headers = predictor_config
        self._predictor: dict[str, Any] = {}
        self._predictor_config = None if isinstance(predictor_config, bool) else predictor_config
        self.explainer_host: str | None = None
        self.enable_latency_logging = False
        self.required_response_headers = bool(return_response_headers)

    @property
    def predictor_config(self) -> PredictorConfig | None:
        """The model's configuration, else the server's; with values assigned to the attributes below."""
        config = self._predictor_config or context.get_predictor_config()
        overrides = self._predictor
        if not overrides:
            return config
        base = config or PredictorConfig(None)
        return PredictorConfig(
            overrides.get("predictor_host", base.predictor_host),
            overrides.get("protocol", base.protocol),
            overrides.get("use_ssl", base.use_ssl),
            overrides.get("timeout", base.timeout),
            base.retries,
            base.predictor_health_check,
        )

    @predictor_config.setter
    def predictor_config(self, config: PredictorConfig | None) -> None:
        self._predictor_config = config

    @property
    def protocol(self) -> str:
        """The predictor's protocol: "v1", "v2" or "grpc-v2"."""
        config = self.predictor_config
        return PredictorProtocol.REST_V1.value if config is None else config.protocol

    @protocol.setter
    def protocol(self, protocol: str | PredictorProtocol) -> None:
        self._predictor["protocol"] = plain_protocol(protocol)

    @property
    def predictor_host(self) -> str | None:
        """The predictor's host, or None."""
        config = self.predictor_config
        return None if config is None else config.predictor_host

    @predictor_host.setter
    def predictor_host(self, host: str | None) -> None:
        self._predictor["predictor_host"] = host

    @property
    def timeout(self) -> float:
        """The predictor's timeout in seconds."""
        config = self.predictor_config
        return 600 if config is None else config.timeout

    @timeout.setter
    def timeout(self, timeout: float) -> None:
        self._predictor["timeout"] = timeout

    @property
    def use_ssl(self) -> bool:
        """True if the predictor is called over TLS."""
        config = self.predictor_config
        return False if config is None else config.use_ssl

    @use_ssl.setter
    def use_ssl(self, use_ssl: bool) -> None:
        self._predictor["use_ssl"] = use_ssl

    async def __call__(self, body: Any, headers: Any = None, verb: Any = InferenceVerb.PREDICT) -> Any:
        """Runs all stages for one request.

        Args:
            body: The request, as the server or a test creates it.
            headers: Request headers by name in lower case; or the verb, the second argument in KServe 0.13.
            verb: The operation; or the headers, if `headers` is the verb.

        Returns:
            The result and its headers; in the dialect of 0.13 the result alone.
        """
        if isinstance(headers, InferenceVerb):
            headers, verb = None if isinstance(verb, InferenceVerb) else verb, headers
        elif not isinstance(verb, InferenceVerb):
            raise NotImplementedError
        from penstock.compat.kserve._metrics.request_metrics import RequestMetrics
        from penstock.compat.kserve._metrics.stage_times import StageTimes
        from penstock.compat.kserve._model.stages import Stages

        stages, times = Stages(self, Model), StageTimes()
        metrics = RequestMetrics(self)
        record = metrics.new_times()
        try:
            response, response_headers = await stages.run_async(
                body, headers, times, explain=verb is InferenceVerb.EXPLAIN
            )
            record.add_line(times, headers)
        finally:
            record.add(times)
            metrics.record(record)
        return response if dialect.is_old() else (response, response_headers)

    def validate(self, payload: Any) -> Any:
        """Checks and returns the payload of `preprocess`. To be overridden.

        Raises:
            InvalidInput: the tensors or rows of a request in the predictor's protocol are not a list.
        """
        from penstock.compat.kserve._model.stages import check_container

        check_container(self.protocol, payload)
        return payload

    async def preprocess(self, payload: Any, headers: Any = None) -> Any:
        """Converts a request to the payload of `predict`. To be overridden, plain or async.

        Args:
            payload: The JSON value of a V1 request, an `InferRequest` of a V2 one, or bytes of another content type.
            headers: Request headers by name in lower case.
        """
        return payload

    async def postprocess(self, result: Any, headers: Any = None, response_headers: Any = None) -> Any:
        """Converts the result of `predict` to that for clients. To be overridden, plain or async.

        Args:
            result: The result.
            headers: Request headers by name in lower case.
            response_headers: Response headers, to be filled; only with `return_response_headers`.
        """
        return result

    async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        """Computes the result. To be overridden, plain or async; by default it calls the predictor.

        Args:
            payload: The result of `preprocess`: a dict for the protocol v1, else an `InferRequest`.
            headers: Request headers. Those for tracing and authorization are sent to the predictor too.
            response_headers: Response headers, to be filled; only with `return_response_headers`.

        Returns:
            A dict of the protocol v1, else an `InferResponse`.

        Raises:
            NotImplementedError: no predictor is configured.
        """
        from penstock.compat.kserve._model import predictor

        return await predictor.predict(self, payload, headers, response_headers)

    @property
    def _http_client(self) -> Any:
        from penstock.compat.kserve._model import predictor

        return predictor.client_of(self._needed_config())

    @property
    def _grpc_client(self) -> Any:
        from penstock.compat.kserve._model import predictor

        return predictor.client_of(self._needed_config())

    async def _http_predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        from penstock.compat.kserve._model import predictor

        return await predictor.predict_by_rest(self, payload, headers, response_headers)

    async def _grpc_predict(self, payload: Any, headers: Any = None) -> Any:
        from penstock.compat.kserve._model import predictor

        return await predictor.predict_by_grpc(self, payload, headers)

    def _needed_config(self) -> PredictorConfig:
        config = self.predictor_config
        if config is None:
            raise RuntimeError("PredictorConfig is required to create a client but is None.")
        return config

    async def explain(self, payload: Any, headers: Any = None) -> Any:
        """Explains. To be overridden, plain or async; by default it calls the explainer, in the protocol v1.

        Raises:
            NotImplementedError: no explainer is configured.
        """
        from penstock.compat.kserve._model import predictor

        return await predictor.explain(self, payload, headers)


def is_v2(protocol: PredictorProtocol | str) -> bool:
    """Returns whether a protocol is one of tensors instead of rows."""
    return plain_protocol(protocol) != PredictorProtocol.REST_V1.value


def get_latency_ms(start: float, end: float) -> float:
    """Returns the duration between two times in seconds, in milliseconds."""
    return round((end - start) * 1000, 9)
