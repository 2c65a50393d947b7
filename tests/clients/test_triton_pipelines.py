"""Triton's clients on the pipeline example, served with `penstock serve`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

from serving_process import Serving

APP = Path(__file__).resolve().parents[2] / "examples" / "pipeline" / "app.py"


@pytest.fixture(scope="module")
def server() -> Iterator[Serving]:
    with Serving(str(APP), "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0") as server:
        yield server


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_triton_client_infers_and_describes_pipelines(server: Serving, kind: str) -> None:
    triton: Any = getattr(tritonclient, kind)
    picture = np.zeros((3, 5, 3), np.uint8)
    with triton.InferenceServerClient(
        (server.http if kind == "http" else server.grpc).removeprefix("http://")
    ) as client:
        assert client.is_model_ready("describe")
        options = {} if kind == "http" else {"as_json": True}
        metadata = client.get_model_metadata("describe", **options)
        assert metadata["platform"] == "penstock_pipeline"
        assert [one["name"] for one in metadata["outputs"]] == ["words", "mean"]
        config = client.get_model_config("describe", **options)
        assert config.get("config", config)["name"] == "describe"
        tensor = triton.InferInput("picture", list(picture.shape), "UINT8").set_data_from_numpy(picture)
        result = client.infer("describe", [tensor], request_id="r")
        assert result.as_numpy("words").tolist() == [[b"dark, grey, calm"]]
        assert result.as_numpy("mean").tolist() == [[0, 0, 0]]
        statistics = client.get_inference_statistics("describe", **options)["model_stats"][0]
        assert int(statistics["inference_count"]) >= 1
        wrong = triton.InferInput("picture", [1], "UINT8").set_data_from_numpy(picture[0, 0, :1])
        with pytest.raises(tritonclient.utils.InferenceServerException, match="input 'picture' has shape"):
            client.infer("describe", [wrong])
