"""`Model` and what it derives from: what a script subclasses to serve its own code."""

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
"""What a model answers: a dict, a list, an `InferResponse`, text, bytes, or an async iterator of pieces."""
InferReturnType = Any
"""The same, or an awaitable of it."""


class Model(InferenceModel):
    """A model of a script's own: `preprocess`, then `predict` or `explain`, then `postprocess`.

    Each may be plain or async. Plain ones run on threads, so that one that blocks holds nobody up; async ones run on an
    event loop. Those that a script leaves as they are cost nothing.

    Args:
        name: Its name on the wire.
        predictor_config: The predictor that `predict` asks where it is not overridden (KServe 0.13); or
            `return_response_headers` (later versions).
        return_response_headers: Whether `predict` and `postprocess` take a third argument, a dict of headers that
            the answer gets.

    Attributes:
        protocol: The predictor's protocol.
        predictor_host: Its host.
        timeout: How long it may take, in seconds.
        use_ssl: Whether it is asked over TLS.
        explainer_host: The host that `explain` asks where it is not overridden.
        enable_latency_logging: Whether the log gets a line for each request with the time of each stage.

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
        """Its own configuration, else the server's; with what was assigned to the attributes below."""
        config = self._predictor_config or context.get_predictor_config()
        told = self._predictor
        if not told:
            return config
        base = config or PredictorConfig(None)
        return PredictorConfig(
            told.get("predictor_host", base.predictor_host),
            told.get("protocol", base.protocol),
            told.get("use_ssl", base.use_ssl),
            told.get("timeout", base.timeout),
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
        """The predictor's host; None where there is none."""
        config = self.predictor_config
        return None if config is None else config.predictor_host

    @predictor_host.setter
    def predictor_host(self, host: str | None) -> None:
        self._predictor["predictor_host"] = host

    @property
    def timeout(self) -> float:
        """How long the predictor may take, in seconds."""
        config = self.predictor_config
        return 600 if config is None else config.timeout

    @timeout.setter
    def timeout(self, timeout: float) -> None:
        self._predictor["timeout"] = timeout

    @property
    def use_ssl(self) -> bool:
        """Whether the predictor is asked over TLS."""
        config = self.predictor_config
        return False if config is None else config.use_ssl

    @use_ssl.setter
    def use_ssl(self, use_ssl: bool) -> None:
        self._predictor["use_ssl"] = use_ssl

    async def __call__(self, body: Any, headers: Any = None, verb: Any = InferenceVerb.PREDICT) -> Any:
        """Runs all stages for one request.

        Args:
            body: What the server made of a request, or a test would.
            headers: Its headers by name in lower case; or the verb, which KServe 0.13 takes second.
            verb: What is asked for; or the headers, if the verb came before them.

        Returns:
            The answer and its headers; in the dialect of 0.13 the answer alone.
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
        """To be overridden: looks at what `preprocess` gave, and gives it back.

        Raises:
            InvalidInput: the tensors or rows of a request in the predictor's protocol are no list.
        """
        from penstock.compat.kserve._model.stages import check_container

        check_container(self.protocol, payload)
        return payload

    async def preprocess(self, payload: Any, headers: Any = None) -> Any:
        """To be overridden: what `predict` gets of a request. Plain or async.

        Args:
            payload: The JSON value of a V1 request, an `InferRequest` of a V2 one, or bytes of another content type.
            headers: The request's, by name in lower case.
        """
        return payload

    async def postprocess(self, result: Any, headers: Any = None, response_headers: Any = None) -> Any:
        """To be overridden: what callers get of what `predict` gave. Plain or async.

        Args:
            result: The result.
            headers: The request's, by name in lower case.
            response_headers: Headers for the answer, to be filled; only with `return_response_headers`.
        """
        return result

    async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        """To be overridden: computes. Plain or async. Left as it is, it asks the predictor.

        Args:
            payload: What `preprocess` gave: a dict for the protocol v1, else an `InferRequest`.
            headers: The request's. Those that trace and authorise it go to the predictor as well.
            response_headers: Headers for the answer, to be filled; only with `return_response_headers`.

        Returns:
            A dict of the protocol v1, else an `InferResponse`.

        Raises:
            NotImplementedError: there is no predictor to ask.
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
        """To be overridden: explains. Plain or async. Left as it is, it asks the explainer, in the protocol v1.

        Raises:
            NotImplementedError: there is no explainer to ask.
        """
        from penstock.compat.kserve._model import predictor

        return await predictor.explain(self, payload, headers)


def is_v2(protocol: PredictorProtocol | str) -> bool:
    """Whether a protocol is one of tensors, not of rows."""
    return plain_protocol(protocol) != PredictorProtocol.REST_V1.value


def get_latency_ms(start: float, end: float) -> float:
    """The time between two times in seconds, in milliseconds."""
    return round((end - start) * 1000, 9)
