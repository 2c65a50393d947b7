"""`Client`: test client that runs a whole server in process, without sockets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from penstock._model.resolve import definitions_of, for_inspection
from penstock._repository.manager import ModelManager
from penstock._runtime import at_exit, rest_encoding
from penstock.config import ServerConfig, load_config
from penstock.errors import StartupError, by_status

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    from typing_extensions import Self, Unpack

    from penstock import _core
    from penstock._model.model import Model
    from penstock._spec.definition import Definition
    from penstock.config import ServerOptions

__all__ = ["Client", "Response"]

_HEADER_LENGTH = "inference-header-content-length"


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response."""

    status: int
    """The HTTP status."""
    headers: dict[str, str]
    """The headers, by name in lower case."""
    body: bytes
    """The body: JSON, then the binary tensors if there are any."""

    def json(self) -> Any:
        """The JSON of the body, without binary tensors after it."""
        length = self.headers.get(_HEADER_LENGTH)
        return json.loads(self.body if length is None else self.body[: int(length)])

    def error(self) -> str:
        """The message of an error response; the body itself if it is not the protocol's error object."""
        try:
            return str(self.json()["error"])
        except (ValueError, LookupError, TypeError):
            return self.body.decode(errors="replace")


class Client:
    """Runs requests through decoding, batching, the handler and encoding, in this process.

    A context manager: the models are loaded on entry and closed on exit. Environment and
    `penstock.toml` are not read, so that a test is the same on every machine.

    Args:
        models: Models, as `Server` takes them.
        config: All settings; addresses are not used.
        options: Single settings, which take precedence over `config`.

    Example:
        >>> with Client(double) as client:
        ...     outputs = client.infer("double", {"x": np.ones((2, 16), np.float32)})
    """

    last_response: Response | None
    """The response to the last request, errors included; None before the first."""

    def __init__(
        self, *models: Model[..., Any] | Any, config: ServerConfig | None = None, **options: Unpack[ServerOptions]
    ) -> None:
        self._config = load_config(dict(options), base=config or ServerConfig())
        self._definitions = definitions_of(models, required=not self._config.repository)
        self._manager = ModelManager(self._definitions, self._config)
        self._core: _core.InProcessServer | None = None
        self.last_response = None

    def infer(
        self,
        model: str,
        inputs: Mapping[str, Any],
        *,
        version: str | None = None,
        parameters: Mapping[str, bool | int | float | str] | None = None,
        request_id: str | None = None,
        outputs: Iterable[str] | None = None,
        headers: Mapping[str, str] | None = None,
        binary: bool = True,
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Runs one inference.

        Args:
            model: The model's name.
            inputs: A value per input name: an array with the batch axis, if the model has one, or a value that
                numpy converts to such an array of the declared datatype. A dict or list for a single BYTES
                element is sent as a JSON document.
            version: The model's version; the server chooses by default.
            parameters: The request's parameters.
            request_id: The request's id.
            outputs: The requested outputs; all by default.
            headers: HTTP headers to add.
            binary: Whether tensors are sent as raw bytes; else as JSON.

        Returns:
            An array per output name: `bytes` objects for BYTES, float32 for BF16.

        Raises:
            PenstockError: the server responded with an error; the class is that of the status.
        """
        body, json_length = rest_encoding.encode(
            inputs,
            {tensor.name: tensor for tensor in self._inputs(model, version)},
            binary=binary,
            outputs=outputs,
            parameters=parameters,
            request_id=request_id,
        )
        request_headers = dict(headers or {})
        request_headers["Content-Type"] = "application/json" if json_length is None else "application/octet-stream"
        if json_length is not None:
            request_headers["Inference-Header-Content-Length"] = str(json_length)
        path = f"/v2/models/{quote(model)}" + (f"/versions/{quote(version)}" if version is not None else "")
        response = self.post(f"{path}/infer", body, headers=request_headers)
        if not 200 <= response.status < 300:
            raise by_status(response.status)(response.error())
        length = response.headers.get(_HEADER_LENGTH)
        return rest_encoding.decode(response.body, None if length is None else int(length))

    def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> Response:
        """Sends a GET request for a path such as "/v2/models/double"."""
        return self._request("GET", path, b"", headers)

    def post(self, path: str, body: bytes | str = b"", *, headers: Mapping[str, str] | None = None) -> Response:
        """Sends a POST request."""
        return self._request("POST", path, body.encode() if isinstance(body, str) else body, headers)

    def __enter__(self) -> Self:
        from penstock import _core

        definitions = self._manager.initial_definitions()
        core = _core.InProcessServer(definitions, self._config)
        core.start()
        self._core = core
        self._definitions = for_inspection(definitions)
        at_exit.watch(core)
        self._manager.run(core.models)
        at_exit.watch(self._manager)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        core, self._core = self._core, None
        if core is not None:
            self._manager.stop()
            core.stop()

    def _request(self, method: str, path: str, body: bytes, headers: Mapping[str, str] | None) -> Response:
        if self._core is None:
            raise StartupError("the client is not started; use it as `with Client(...) as client:`")
        status, response_headers, content = self._core.request(method, path, list((headers or {}).items()), body)
        response = Response(status, {name.lower(): value for name, value in response_headers}, content)
        self.last_response = response
        return response

    def _inputs(self, model: str, version: str | None) -> tuple[Any, ...]:
        matching: list[Definition] = [
            definition
            for definition in self._definitions
            if definition.name == model and version in (None, definition.version)
        ]
        # For an unknown model the server responds with the error.
        return matching[-1].inputs if matching else ()
