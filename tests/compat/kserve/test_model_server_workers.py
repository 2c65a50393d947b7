"""`workers=N`: models in worker processes behind one table, one port and one metrics page."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from kserve_live import LOOPBACK, Double, Script, live
from test_model_repository import LoadingRepository
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import get, openmetrics, post
from penstock import SignatureError
from penstock.compat.kserve import Model, ModelServer, PredictorConfig
from waiting import PATIENCE, at_once, until


class ReportsProcess(Model):
    """Returns its process id and its predictor."""

    def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
        if not isinstance(payload, dict):
            from penstock.compat.kserve import InferOutput, InferResponse

            output = InferOutput("pid", [1], "INT64", data=[os.getpid()])
            return InferResponse(payload.id or "1", self.name, [output])
        if payload["instances"] == ["die"]:
            os.kill(os.getpid(), signal.SIGKILL)
        if payload["instances"] == ["sleep"]:
            time.sleep(0.05)
        return {"predictions": [os.getpid()], "host": self.predictor_host}


def ready(name: str = "m") -> ReportsProcess:
    model = ReportsProcess(name)
    model.load()
    return model


def pids(server: Any, count: int = 40) -> set[int]:
    """Returns the process ids that handle a number of concurrent requests."""
    responses = at_once([lambda: server.predict("m", "sleep") for _ in range(count)])
    return {response.result(PATIENCE)[1]["predictions"][0] for response in responses}


def test_requests_are_distributed_to_all_workers() -> None:
    with live(ready(), workers=2) as server:
        worker_pids = until(lambda: len(seen := pids(server)) == 2 and seen)
        assert os.getpid() not in worker_pids
        tensor = {"name": "x", "shape": [1], "datatype": "INT64", "data": [1]}
        status, body = server.post("/v2/models/m/infer", {"inputs": [tensor]})
        assert (status, body["outputs"][0]["data"][0] in worker_pids) == (200, True)
        with grpc.insecure_channel(server.target) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            request = service_pb2.ModelInferRequest(model_name="m")
            request.inputs.add(name="x", datatype="INT64", shape=[1]).contents.int64_contents.append(1)
            response = stub.ModelInfer(request)
        output = response.outputs[0]
        raw = response.raw_output_contents
        pid = np.frombuffer(raw[0], np.int64)[0] if raw else output.contents.int64_contents[0]
        assert pid in worker_pids


@pytest.mark.parametrize("workers", [1, 2])
def test_requests_outside_of_v2_are_accepted(workers: int) -> None:
    with live(ready(), workers=workers) as server:
        tensor = {"name": "x", "shape": [2], "datatype": "fp64", "data": [1, None]}
        assert server.post("/v2/models/m/infer", {"inputs": [tensor]})[0] == 200
        with grpc.insecure_channel(server.target) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            request = service_pb2.ModelInferRequest(model_name="m", model_version="7")
            request.inputs.add(name="x", datatype="int64", shape=[1]).contents.int64_contents.append(1)
            assert stub.ModelInfer(request).outputs[0].name == "pid"


def test_predictor_config_is_set_in_all_workers() -> None:
    """In KServe, workers lack the configuration and respond 501."""
    with live(ready(), workers=2, predictor_config=PredictorConfig("predictor:8080", "v2")) as server:
        responses = [server.predict("m", "sleep")[1]["host"] for _ in range(8)]
        assert set(responses) == {"predictor:8080"}


def test_workers_compute_async_requests_concurrently() -> None:
    class Counting(Model):
        async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
            active = self.__dict__["active"] = self.__dict__.get("active", 0) + 1
            await asyncio.sleep(0.05)
            self.__dict__["active"] -= 1
            return {"predictions": [active]}

    model = Counting("m")
    model.load()
    with live(model, workers=2) as server:

        def max_concurrency() -> int:
            responses = at_once([lambda: server.predict("m", 3) for _ in range(16)])
            return max(response.result(PATIENCE)[1]["predictions"][0] for response in responses)

        # Requests that arrive while a worker waits go to it together.
        until(lambda: max_concurrency() > 1)


def test_dead_workers_are_restarted() -> None:
    with live(ready(), workers=2) as server:
        before = until(lambda: len(seen := pids(server)) == 2 and seen)
        assert server.predict("m", "die")[0] >= 500
        after = until(lambda: len(seen := pids(server) - before) == 1 and seen)
        assert len(after) == 1
        assert server.predict("m", "sleep")[0] == 200


def test_all_workers_share_one_model_table() -> None:
    with live(registered_models=LoadingRepository(), workers=2) as server:
        assert server.load("a")[0] == 200
        assert [server.predict("a")[0] for _ in range(10)] == [200] * 10
        assert server.unload("a")[0] == 200
        assert [server.predict("a")[0] for _ in range(10)] == [404] * 10


def test_readiness_applies_to_all_workers() -> None:
    model = ready()
    with live(model, workers=2) as server:
        model.ready = False
        assert [server.predict("m")[0] for _ in range(6)] == [503] * 6
        model.ready = True
        assert [server.predict("m")[0] for _ in range(6)] == [200] * 6


def test_models_may_become_ready_after_worker_start() -> None:
    model = ReportsProcess("m")
    with live(model, workers=2) as server:
        assert server.predict("m")[0] == 503
        model.ready = True
        assert [server.predict("m")[0] for _ in range(6)] == [200] * 6


def test_metrics_include_all_workers() -> None:
    with live(ready(), workers=2) as server:
        assert len(until(lambda: len(seen := pids(server)) == 2 and seen)) == 2
        before = predict_count(server.url)
        for _ in range(10):
            server.predict("m")
        until(lambda: predict_count(server.url) == before + 10)


def predict_count(url: str) -> float:
    page = get(url, "/metrics").body.decode()
    counts = re.findall(r'^request_predict_seconds_count\{[^}]*model_name="m"[^}]*\} ([\d.]+)', page, re.MULTILINE)
    return sum(map(float, counts))


def test_unpicklable_attributes_are_named_in_the_error() -> None:
    model = ready()
    model.lock = threading.Lock()  # type: ignore[attr-defined]
    text = r"^model 'm' cannot be sent to its workers: its attribute 'lock', a _thread\.lock, cannot be pickled"
    with pytest.raises(SignatureError, match=text):
        ModelServer(**LOOPBACK, workers=2).start([model])


def test_models_control_their_pickled_state() -> None:
    class WithoutLock(Double):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

        def __getstate__(self) -> Any:
            return {name: value for name, value in self.__dict__.items() if name != "lock"}

    with live(WithoutLock(), workers=2) as server:
        assert server.predict("m", 3) == (200, {"predictions": [6]})


def test_models_defined_in_the_script_are_sent_to_workers() -> None:
    text = """
import os
from kserve_live import LOOPBACK, announce
from penstock.compat.kserve import Model, ModelServer, logging

FACTOR = 3

class Own(Model):
    def predict(self, payload, headers=None):
        logging.logger.info("computing")
        return {"predictions": [FACTOR * one for one in payload["instances"]]}

model = Own("own")
model.load()
server = ModelServer(**LOOPBACK, workers=2)
announce(server)
server.start([model])
"""
    with Script(text) as running:
        url = running.url
        response = post(url, "/v1/models/own:predict", b'{"instances": [1, 2]}')
        assert (response.status, response.json()) == (200, {"predictions": [3, 6]})
        running.signal(signal.SIGTERM)
        assert running.status() == 0


COUNTING = """
import os, sys
from prometheus_client import Counter
from kserve_live import LOOPBACK, announce
from penstock.compat.kserve import Model, ModelServer

THINGS = Counter("my_things", "Things counted by the script.", ["kind"])
print("imported as", __name__, sys.argv[1:], flush=True)

class Counting(Model):
    def predict(self, payload, headers=None):
        THINGS.labels("seen").inc()
        return {"predictions": [os.getpid()]}

if __name__ == "__main__":
    model = Counting("m")
    model.load()
    server = ModelServer(**LOOPBACK, workers=int(os.environ["WORKERS"]))
    announce(server)
    server.start([model])
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_script_prometheus_metrics_appear_in_metrics(tmp_path: Path, workers: str) -> None:
    with Script(COUNTING, "--own", file=tmp_path / "script.py", WORKERS=workers) as running:
        url = running.url
        for _ in range(6):
            assert post(url, "/v1/models/m:predict", b'{"instances": []}').status == 200

        def page() -> str:
            return get(url, "/metrics").body.decode()

        until(lambda: 'my_things_total{kind="seen"} 6.0' in page(), "the count of all workers")
        text = page()
        assert text.count("# TYPE my_things_total counter") == 1
        assert "penstock_" in text
        assert "request_predict_seconds_bucket" in text
        assert text.count("# TYPE process_open_fds gauge") == 1
        assert "# EOF" not in text
        text = openmetrics(url)
        assert text.count("# TYPE my_things counter") == text.count("# TYPE process_open_fds gauge") == 1
        assert text.endswith("# EOF\n")
        assert text.count("# EOF") == 1
        running.signal(signal.SIGTERM)
        assert running.status() == 0
    # A model that cannot be pickled: its workers import the script with its arguments.
    assert ("imported as __mp_main__ ['--own']" in running.text) is (workers == "2")


def test_scripts_that_serve_on_import_are_rejected(tmp_path: Path) -> None:
    text = COUNTING.replace('if __name__ == "__main__":', "if True:")
    with Script(text, file=tmp_path / "script.py", WORKERS="2") as running:
        assert running.status() == 1
    assert "starts a server when a worker imports it; put that under `if __name__ == '__main__':`" in running.text
