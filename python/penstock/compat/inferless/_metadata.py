"""What tells of an app without asking it: its metadata, answered in the server's own process."""

from __future__ import annotations

import json
from typing import Any

from penstock import Model, Request, Response
from penstock.compat.inferless._app.state import StateFile
from penstock.compat.inferless._settings import Settings
from penstock.compat.inferless._spec.schema import Tensor

__all__ = ["metadata_model"]


def metadata_model(settings: Settings, file: StateFile) -> Model[..., Any]:
    """A model that is in no list, and answers what an app's inputs are while that computes.

    Args:
        settings: How the app is served.
        file: What its processes say of it.
    """
    name = settings.name

    def tell(request: Request) -> Response:
        schema = file.read().schema
        told = {
            "name": name,
            "versions": ["1"],
            "platform": "inferless",
            "inputs": [_told(one) for one in schema.inputs],
            "outputs": [_told(one) for one in schema.outputs],
        }
        return Response(json.dumps(told), content_type="application/json")

    return Model(
        tell,
        name=f":inferless-{name}",
        description=f"Metadata of {name}.",
        routes=[f"GET /v2/models/{name}", f"GET /v2/models/{name}/versions/1"],
    )


def _told(tensor: Tensor) -> dict[str, Any]:
    told: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
    return told if tensor.required else {**told, "optional": True}
