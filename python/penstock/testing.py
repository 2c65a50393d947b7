"""`Client`: test client that runs a whole server in process, without sockets."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from penstock._config.resolve import Sources
from penstock._config.served import ServedSettings
from penstock._model.resolve import definitions_of, for_inspection
from penstock._model.settings import described, settings_of
from penstock._repository.manager import ModelManager
from penstock._runtime import at_exit, rest_encoding
from penstock._spec.suggestions import suggestion
from penstock.client import Result, Sequence
from penstock.client import _hints as hints
from penstock.client._base import inputs_of
from penstock.config import ServerConfig
from penstock.errors import HandlerError, StartupError, by_status

if TYPE_CHECKING:
    from types import TracebackType

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


class _Request(NamedTuple):
    """The options of an inference."""

    model: str
    version: str | int | None
    outputs: Iterable[str] | None
    parameters: Mapping[str, bool | int | float | str] | None
    request_id: str | None
    headers: Mapping[str, str] | None

    def check(self, declared: Collection[str], inputs: Mapping[str, Any]) -> None:
        """Refuses an option that is meant as an input.

        Raises:
            InvalidInput: its value has another type, or the model has an input of its name.
        """
        given = {name: value for name, value in self._asdict().items() if name != "model" and value is not None}
        for name, value in given.items():
            hints.check_type(name, value)
        hints.check_names(given, declared, inputs)


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
        given = Sources(arguments=dict(options), base=config or ServerConfig(), caller="Client")
        self._settings = ServedSettings.of(ServerConfig, given)
        self._config = self._settings.config
        self._definitions = definitions_of(models, required=not self._config.repository)
        self._models = described(settings_of(model, None) for model in models)
        self._manager = ModelManager(self._definitions, self._config)
        self._core: _core.InProcessServer | None = None
        self.last_response = None

    def infer(
        self,
        model: str,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        outputs: Iterable[str] | None = None,
        parameters: Mapping[str, bool | int | float | str] | None = None,
        request_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        version: str | int | None = None,
        binary: bool = True,
        **named: Any,
    ) -> Result:
        """Runs one inference, as `penstock.Client.infer` does.

        Args:
            model: The model's name.
            inputs: A value per input name: an array with the batch axis, if the model has one, or a value that
                numpy converts to such an array of the declared datatype. A dict or list for a single BYTES
                element is sent as a JSON document.
            outputs: The requested outputs; all by default.
            parameters: The request's parameters.
            request_id: The request's id.
            headers: HTTP headers to add.
            version: The model's version; the server chooses by default.
            binary: Whether tensors are sent as raw bytes; else as JSON.
            named: Inputs.

        Returns:
            An array per output name: `bytes` objects for BYTES, float32 for BF16.

        Raises:
            PenstockError: the server responded with an error; the class is that of the status.
        """
        request = _Request(model, version, outputs, parameters, request_id, headers)
        response = self._post(request, inputs_of(inputs, named), "infer", binary=binary)
        length = response.headers.get(_HEADER_LENGTH)
        return _result(response.body, None if length is None else int(length))

    def stream(
        self,
        model: str,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        outputs: Iterable[str] | None = None,
        parameters: Mapping[str, bool | int | float | str] | None = None,
        request_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        version: str | int | None = None,
        **named: Any,
    ) -> Iterator[Result]:
        """Runs one inference with a streamed response. The stream has ended when the first response is returned.

        Arguments are those of `infer`. Tensors are sent as JSON.

        Raises:
            PenstockError: the server responded with an error, also after responses of the stream.
        """
        request = _Request(model, version, outputs, parameters, request_id, headers)
        response = self._post(request, inputs_of(inputs, named), "infer_stream", binary=False)
        return _events(response.body)

    def sequence(self, model: str, sequence_id: int | str) -> Sequence:
        """Begins a sequence of requests to a stateful model; see `penstock.client.Sequence`."""
        return Sequence(self, model, sequence_id)

    def metadata(self, model: str, *, version: str | int | None = None) -> dict[str, Any]:
        """The metadata of a model.

        Raises:
            PenstockError: the server responded with an error.
        """
        response = self.get(_path(model, version))
        if response.status != 200:
            raise by_status(response.status)(response.error())
        document: dict[str, Any] = response.json()
        return document

    def _post(self, request: _Request, inputs: Mapping[str, Any], verb: str, *, binary: bool) -> Response:
        declared = {tensor.name: tensor for tensor in self._inputs(request.model, request.version)}
        request.check(declared, inputs)
        body, json_length = rest_encoding.encode(
            inputs,
            declared,
            binary=binary,
            outputs=request.outputs,
            parameters=request.parameters,
            request_id=request.request_id,
        )
        headers = dict(request.headers or {})
        headers["Content-Type"] = "application/json" if json_length is None else "application/octet-stream"
        if json_length is not None:
            headers["Inference-Header-Content-Length"] = str(json_length)
        response = self.post(f"{_path(request.model, request.version)}/{verb}", body, headers=headers)
        if not 200 <= response.status < 300:
            text, names = response.error(), [definition.name for definition in self._definitions]
            if response.status == 404 and request.model not in names:
                text += suggestion(request.model, names)
            elif response.status == 400 and declared:
                text += hints.unknown_inputs(inputs, declared)
            raise by_status(response.status)(text)
        return response

    def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> Response:
        """Sends a GET request for a path such as "/v2/models/double"."""
        return self._request("GET", path, b"", headers)

    def post(self, path: str, body: bytes | str = b"", *, headers: Mapping[str, str] | None = None) -> Response:
        """Sends a POST request."""
        return self._request("POST", path, body.encode() if isinstance(body, str) else body, headers)

    def __enter__(self) -> Self:
        from penstock import _core

        definitions = self._manager.initial_definitions()
        core = _core.InProcessServer(definitions, self._config, self._settings.describe(self._models))
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

    def _inputs(self, model: str, version: str | int | None) -> tuple[Any, ...]:
        matching: list[Definition] = [
            definition
            for definition in self._definitions
            if definition.name == model and (version is None or str(version) == definition.version)
        ]
        # For an unknown model the server responds with the error.
        return matching[-1].inputs if matching else ()


def _path(model: str, version: str | int | None) -> str:
    return f"/v2/models/{quote(model)}" + (f"/versions/{quote(str(version))}" if version is not None else "")


def _result(body: bytes, json_length: int | None) -> Result:
    head = json.loads(body if json_length is None else body[:json_length])
    names = ("model_name", "model_version", "id")
    model, version, request_id = (str(head.get(name) or "") for name in names)
    documents = [output["name"] for output in head["outputs"] if _is_document(output)]
    outputs = rest_encoding.decode(body, json_length)
    return Result((model, version, request_id, head.get("parameters", {}), outputs, documents))


def _is_document(output: Mapping[str, Any]) -> bool:
    return bool(output.get("parameters", {}).get("content_type") == "application/json")


def _events(body: bytes) -> Iterator[Result]:
    """The responses of server-sent events."""
    for event in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        data = b"\n".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
        if not data:
            continue
        document = json.loads(data)
        if "error" in document:
            raise HandlerError(str(document["error"]))
        yield _result(data, None)
