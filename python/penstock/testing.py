"""`Client`: a model under test behind the whole server, without a socket."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from penstock._model.resolve import definitions_of, let_go
from penstock._repository.manager import Keeper
from penstock._runtime import at_exit
from penstock._runtime import rest_encoding as encoding
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
    """An answer as it would go over HTTP."""

    status: int
    """The HTTP status."""
    headers: dict[str, str]
    """The headers, by name in lower case."""
    body: bytes
    """The body: JSON, then the binary tensors if there are any."""

    def json(self) -> Any:
        """The body's JSON, without the binary tensors behind it."""
        length = self.headers.get(_HEADER_LENGTH)
        return json.loads(self.body if length is None else self.body[: int(length)])

    def error(self) -> str:
        """The message of a refusal; the body itself where it is not the protocol's error object."""
        try:
            return str(self.json()["error"])
        except (ValueError, LookupError, TypeError):
            return self.body.decode(errors="replace")


class Client:
    """Runs requests through decoding, batching, the handler and encoding, in this process.

    A context manager: the models are loaded on entry and closed on exit. Environment and
    `penstock.toml` are not read, so that a test is the same everywhere.

    Args:
        models: What `Server` takes.
        config: Every setting at once; addresses are not used.
        options: Single settings, over `config`.

    Example:
        >>> with Client(double) as client:
        ...     outputs = client.infer("double", {"x": np.ones((2, 16), np.float32)})
    """

    last_response: Response | None
    """The answer to the last request, refusals too; None before the first."""

    def __init__(
        self, *models: Model[..., Any] | Any, config: ServerConfig | None = None, **options: Unpack[ServerOptions]
    ) -> None:
        self._config = load_config(dict(options), base=config or ServerConfig())
        self._definitions = definitions_of(models, required=not self._config.repository)
        self._keeper = Keeper.of(self._definitions, self._config)
        self._core: _core.InProcess | None = None
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
            inputs: A value per input name: an array with the batch axis, if the model has one, or what
                makes such an array in the declared datatype. A dict or list for a single BYTES element
                is sent as its JSON document.
            version: The model's version; the server chooses by default.
            parameters: The request's parameters.
            request_id: The request's id.
            outputs: The outputs to ask for; all by default.
            headers: HTTP headers to add.
            binary: Whether tensors travel as raw bytes; else as JSON.

        Returns:
            An array per output name: `bytes` objects for BYTES, float32 for BF16.

        Raises:
            PenstockError: the server refused; the class is the status's, the message the server's.
        """
        body, json_length = encoding.encode(
            inputs,
            {tensor.name: tensor for tensor in self._inputs(model, version)},
            binary=binary,
            outputs=outputs,
            parameters=parameters,
            request_id=request_id,
        )
        sent = dict(headers or {})
        sent["Content-Type"] = "application/json" if json_length is None else "application/octet-stream"
        if json_length is not None:
            sent["Inference-Header-Content-Length"] = str(json_length)
        path = f"/v2/models/{quote(model)}" + (f"/versions/{quote(version)}" if version is not None else "")
        response = self.post(f"{path}/infer", body, headers=sent)
        if not 200 <= response.status < 300:
            raise by_status(response.status)(response.error())
        length = response.headers.get(_HEADER_LENGTH)
        return encoding.decode(response.body, None if length is None else int(length))

    def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> Response:
        """Answers a GET of a path such as "/v2/models/double"."""
        return self._request("GET", path, b"", headers)

    def post(self, path: str, body: bytes | str = b"", *, headers: Mapping[str, str] | None = None) -> Response:
        """Answers a POST of a body."""
        return self._request("POST", path, body.encode() if isinstance(body, str) else body, headers)

    def __enter__(self) -> Self:
        from penstock import _core

        definitions = self._keeper.at_start()
        core = _core.InProcess(definitions, self._config)
        core.start()
        self._core = core
        self._definitions = [replace(one, factory=let_go, explainer=None) for one in definitions]
        at_exit.watch(core)
        self._keeper.run(core.models)
        at_exit.watch(self._keeper)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        core, self._core = self._core, None
        if core is not None:
            self._keeper.stop()
            core.stop()

    def _request(self, method: str, path: str, body: bytes, headers: Mapping[str, str] | None) -> Response:
        if self._core is None:
            raise StartupError("the client is not started; use it as `with Client(...) as client:`")
        status, answered, content = self._core.request(method, path, list((headers or {}).items()), body)
        response = Response(status, {name.lower(): value for name, value in answered}, content)
        self.last_response = response
        return response

    def _inputs(self, model: str, version: str | None) -> tuple[Any, ...]:
        found: list[Definition] = [
            one for one in self._definitions if one.name == model and version in (None, one.version)
        ]
        # An unknown model is the server's to refuse.
        return found[-1].inputs if found else ()
