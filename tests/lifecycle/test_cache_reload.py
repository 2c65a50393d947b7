"""A cache across reloads of its model, and a served cache as real clients see it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as tgrpc
import tritonclient.http as thttp
import tritonclient.utils.shared_memory as shm

from http_by_hand import get, metric_at
from penstock import Server
from repositories import Repository, RepositoryClient
from serving_process import Serving
from waiting import until

CODE = """
import numpy as np
from penstock import Cache, Tensor, model

@model(
    name="m", inputs=[Tensor("x", np.float32, [1, 1])], outputs=[Tensor("y", np.float32, [1, 1])], cache=Cache()
)
def times(x):
    return x * {factor}
"""
PORTS = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")


def test_reloaded_model_starts_with_an_empty_cache(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "models")
    repository.write("m", "1", CODE.format(factor=2))
    options: dict[str, Any] = {"http": "127.0.0.1:0", "grpc": None, "model_control": "explicit", "load_models": "m"}
    with Server(repository=repository.path, **options) as server:
        client = RepositoryClient(server.http_url)
        assert [client.factor("m") for _ in range(3)] == [2, 2, 2]
        repository.write("m", "1", CODE.format(factor=3))
        assert client.load("m")[0] == 200
        assert [client.factor("m") for _ in range(2)] == [3, 3]
        hits = get(server.http_url, "/v2/models/m/stats").json()["model_stats"][0]["inference_stats"]["cache_hit"]
        assert hits["count"] == 1
        # The old model's entries are freed; the series continues.
        assert metric_at(server.http_url, "penstock_cache_hits_total", model="m") == 3
        cached_bytes = lambda: metric_at(server.http_url, "penstock_cache_bytes", model="m")  # noqa: E731
        assert cached_bytes() > 0
        assert client.load("m")[0] == 200
        until(lambda: cached_bytes() == 0, "the old model to be gone")
        # A client may send back the configuration that it received.
        config = get(server.http_url, "/v2/models/m/config").json()
        assert config["response_cache"] == {"enable": True}
        assert client.load("m", config)[0] == 200
        status, refusal = client.load("m", {**config, "response_cache": {"enable": False}})
        assert (status, "config 'response_cache' cannot be overridden" in refusal["error"]) == (400, True)


def test_reloaded_code_starts_with_an_empty_cache(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(CODE.format(factor=2))
    with Serving("app.py", *PORTS, folder=tmp_path) as serving:
        client = RepositoryClient(serving.http)
        assert [client.factor("m") for _ in range(2)] == [2, 2]
        (tmp_path / "app.py").write_text(CODE.format(factor=30))
        serving.process.send_signal(signal.SIGHUP)
        until(lambda: client.factor("m") == 30, "the code of after")


def test_tritonclient_reports_cache_hits(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(CODE.format(factor=2))
    with Serving("app.py", *PORTS, "--shared-memory", "local", folder=tmp_path) as serving:
        ones = np.ones((1, 1), np.float32)
        http = thttp.InferenceServerClient(serving.http.removeprefix("http://"))
        grpc = tgrpc.InferenceServerClient(serving.grpc)
        for module, client in ((thttp, http), (tgrpc, grpc)):
            tensor = module.InferInput("x", [1, 1], "FP32")
            tensor.set_data_from_numpy(ones)
            for _ in range(3):
                assert client.infer("m", [tensor]).as_numpy("y").tolist() == [[2]]
        assert http.get_model_config("m")["response_cache"] == {"enable": True}
        stats = http.get_inference_statistics("m")["model_stats"][0]["inference_stats"]
        assert (stats["cache_hit"]["count"], stats["cache_miss"]["count"]) == (5, 1)
        (entry,) = grpc.get_inference_statistics("m").model_stats
        assert (entry.inference_stats.cache_hit.count, entry.inference_stats.success.count) == (5, 6)
        assert entry.inference_stats.cache_hit.ns > 0
        if sys.platform == "linux":
            shared(http, ones)
            stats = http.get_inference_statistics("m")["model_stats"][0]["inference_stats"]
            assert (stats["cache_hit"]["count"], stats["cache_miss"]["count"]) == (6, 1)


def shared(client: thttp.InferenceServerClient, array: np.ndarray[Any, Any]) -> None:
    """The equal request with all tensors in shared memory: a hit is written there."""
    region = shm.create_shared_memory_region("io", f"/penstock-cache-{os.getpid()}", 8)
    try:
        shm.set_shared_memory_region(region, [array])
        client.register_system_shared_memory("io", f"/penstock-cache-{os.getpid()}", 8)
        tensor, output = thttp.InferInput("x", [1, 1], "FP32"), thttp.InferRequestedOutput("y")
        tensor.set_shared_memory("io", 4)
        output.set_shared_memory("io", 4, 4)
        client.infer("m", [tensor], outputs=[output])
        assert shm.get_contents_as_numpy(region, np.float32, [2]).tolist() == [1, 2]
    finally:
        client.unregister_system_shared_memory()
        shm.destroy_shared_memory_region(region)
