"""Penstock models of an app: the app itself and its metadata.

Worker processes import the app's model class from this module, by a name that encodes its settings.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import penstock
from penstock import Batching, Model, Processes, Request, Response
from penstock.compat.inferless._app.handlers import BatchHandler, ConcurrentHandler, SingleHandler, StreamingHandler
from penstock.compat.inferless._app.modules import AppModules
from penstock.compat.inferless._app.state import State, StateFile
from penstock.compat.inferless._examples import curl_command
from penstock.compat.inferless._settings import Settings
from penstock.compat.inferless._spec.schema import Schema, Tensor

__all__ = ["app_model", "metadata_model"]

_PREFIX = "app_"
_GRACE = 5.0
"""Seconds after the time limit until the process of a call that did not stop is killed."""


def app_model(
    settings: Settings, state: State, *, is_async: bool, modules: AppModules | None = None
) -> Model[..., Any]:
    """Returns the model of an app.

    Args:
        settings: The app's options.
        state: The state of its state file.
        is_async: Whether `infer` is a coroutine function.
        modules: Modules for an app in this process; None for worker processes. The model is then an attribute of this
            module, whose name encodes the other arguments.
    """
    if modules is not None:
        return _build_model(settings, state.schema, is_async=is_async, modules=modules)
    text = json.dumps({"settings": settings.to_text(), "is_async": is_async, "state": settings.state})
    name = _PREFIX + text.encode().hex()
    model = _build_model(settings, state.schema, is_async=is_async)
    setattr(sys.modules[__name__], name, model)
    return model


def __getattr__(name: str) -> Any:
    # Called in a worker process, where `app_model` was not called.
    if not name.startswith(_PREFIX):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    arguments = json.loads(bytes.fromhex(name.removeprefix(_PREFIX)))
    settings = Settings.from_text(arguments["settings"])
    schema = StateFile(Path(settings.state)).read().schema
    return _build_model(settings, schema, is_async=arguments["is_async"])


def metadata_model(settings: Settings, file: StateFile) -> Model[..., Any]:
    """Returns the model of an app's metadata, an unlisted one. It responds while the app computes.

    Args:
        settings: The app's options.
        file: The app's state file, which has its current schema.
    """
    name = settings.name

    def metadata(request: Request) -> Response:
        schema = file.read().schema
        members = {
            "name": name,
            "versions": ["1"],
            "platform": "inferless",
            "inputs": [_tensor_metadata(one) for one in schema.inputs],
            "outputs": [_tensor_metadata(one) for one in schema.outputs],
        }
        return Response(json.dumps(members), content_type="application/json")

    return Model(
        metadata,
        name=f":inferless-{name}",
        description=f"Metadata of {name}.",
        routes=[f"GET /v2/models/{name}", f"GET /v2/models/{name}/versions/1"],
    )


def _tensor_metadata(tensor: Tensor) -> dict[str, Any]:
    members: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
    return members if tensor.required else {**members, "optional": True}


def _routes(name: str) -> list[str]:
    """Returns the routes of an app's own model."""
    paths = [f"/v2/models/{name}", f"/v2/models/{name}/versions/1"]
    verbs = ("infer", "generate", "generate_stream")
    return [
        *(f"POST {path}/{verb}" for path in paths for verb in verbs),
        *(f"POST /v2/repository/models/{name}/{verb}" for verb in ("load", "unload")),
    ]


def _processes(settings: Settings) -> Processes:
    limit = settings.timeout + _GRACE if settings.timeout else None
    return Processes(
        settings.workers,
        hang_after=limit,
        abandoned_after=limit,
        gpus=[one for one in settings.gpus.split(",") if one],
        env=settings.env,
    )


def _build_model(
    settings: Settings, schema: Schema, *, is_async: bool, modules: AppModules | None = None
) -> Model[..., Any]:
    concurrency = settings.container_concurrency if is_async else settings.threads
    handler: type
    batching = None
    if schema.streaming:
        handler = StreamingHandler
    elif schema.batch_size:
        handler, batching = BatchHandler, Batching(schema.batch_size, max_delay=schema.batch_window / 1000)
    elif concurrency > 1:
        handler, batching = ConcurrentHandler, Batching(concurrency)
    else:
        handler = SingleHandler
    curl = staticmethod(lambda url: curl_command(settings.name, schema, url, key=bool(settings.api_key)))
    # A subclass per app, because instances are built without arguments.
    members = {"settings": settings, "modules": modules, "curl": curl, "__doc__": ""}
    return Model(
        type("InferlessApp", (handler,), members),
        name=settings.name,
        description=_description(settings, schema),
        routes=_routes(settings.name),
        inputs=_signature(schema.inputs),
        outputs=_signature(schema.outputs),
        instances=_processes(settings) if modules is None else 1,
        max_queue=settings.max_queue,
        batching=batching,
    )


def _signature(tensors: Sequence[Tensor]) -> list[penstock.Tensor] | None:
    """Returns tensors for gRPC metadata and the page at /docs; None for undeclared ones."""
    return [penstock.Tensor(one.name, one.datatype, one.shape, optional=not one.required) for one in tensors] or None


def _description(settings: Settings, schema: Schema) -> str:
    """Returns the model's description in the OpenAPI document: its inputs and an example request."""
    lines = [
        f"- `{one.name}`: {one.datatype} of shape {list(one.shape)}{'' if one.required else ', optional'}"
        for one in schema.inputs
    ]
    curl = curl_command(settings.name, schema, key=bool(settings.api_key))
    return "\n".join([f"The Inferless app {settings.name}.", "", *lines, "", "```sh", curl, "```"])
