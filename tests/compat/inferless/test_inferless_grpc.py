"""Apps over gRPC and binary tensors, which Inferless does not support."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from inferless_apps import ANY, app_class, write_app

from penstock import Client, InvalidInput, Server
from penstock.compat import inferless

ECHO = app_class("def infer(self, inputs): return {'y': inputs['x'].upper(), 'kind': type(inputs['x']).__name__}")
COUNT = app_class(
    "def infer(self, inputs, handler):\n    for n in range(int(inputs['x'])): handler.send_streamed_output({'n': n})"
)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("isolation", ["process", "server"])
def test_v2_tensors_over_both_protocols(tmp_path: Path, protocol: str, isolation: str) -> None:
    models = inferless.load(write_app(tmp_path, ECHO), {"isolation": isolation})
    with Server(*models, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        url = f"grpc://{server.grpc_address}" if protocol == "grpc" else server.http_url
        with Client(url) as client:
            outputs = client.infer("shop", {"x": np.array([b"hi"], object)})
            assert (outputs["y"].tolist(), outputs["kind"].tolist()) == ([b"HI"], [b"str"])
            with pytest.raises(InvalidInput, match="unexpected input 'z', expected 'x'"):
                client.infer("shop", {"z": np.array([b"hi"], object)})


def test_chunks_are_streamed_over_grpc(tmp_path: Path) -> None:
    models = inferless.load(write_app(tmp_path, COUNT, ANY + "IS_STREAMING_OUTPUT = True\n"), {})
    with (
        Server(*models, http="127.0.0.1:0", grpc="127.0.0.1:0") as server,
        Client(f"grpc://{server.grpc_address}") as client,
    ):
        chunks = list(client.stream("shop", {"x": np.array([b"3"], object)}))
        assert [one["n"].tolist() for one in chunks] == [[0], [1], [2]]
        # ModelInfer returns one response.
        assert client.infer("shop", {"x": np.array([b"1"], object)})["n"].tolist() == [0]


def test_i21_metadata_over_grpc_has_the_schema(tmp_path: Path) -> None:
    schema = """INPUT_SCHEMA = {
        "x": {"datatype": "STRING", "shape": [1], "required": False},
        "sizes": {"datatype": "BF16", "shape": [2, -1], "required": True},
    }
    """
    models = inferless.load(write_app(tmp_path, ECHO, schema), {"isolation": "server"})
    with (
        Server(*models, http="127.0.0.1:0", grpc="127.0.0.1:0") as server,
        Client(f"grpc://{server.grpc_address}") as client,
    ):
        assert client.metadata("shop")["inputs"] == [
            {"name": "x", "datatype": "BYTES", "shape": [1]},
            {"name": "sizes", "datatype": "BF16", "shape": [2, -1]},
        ]
