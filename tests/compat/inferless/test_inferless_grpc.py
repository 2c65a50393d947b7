"""Apps over gRPC, which Inferless has not: tensors as V2 has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from inferless_apps import app_class, written

from penstock import Client, InvalidInput, Server
from penstock.compat import inferless


def test_tensors_over_grpc(tmp_path: Path) -> None:
    app = app_class("def infer(self, inputs): return {'y': inputs['x'].upper(), 'kind': type(inputs['x']).__name__}")
    models = inferless.load(written(tmp_path, app), {})
    with (
        Server(*models, http="127.0.0.1:0", grpc="127.0.0.1:0") as server,
        Client(f"grpc://{server.grpc_address}") as client,
    ):
        found = client.infer("shop", {"x": np.array([b"hi"], object)})
        assert (found["y"].tolist(), found["kind"].tolist()) == ([b"HI"], [b"str"])
        with pytest.raises(InvalidInput, match="unexpected input 'z', expected 'x'"):
            client.infer("shop", {"z": np.array([b"hi"], object)})
