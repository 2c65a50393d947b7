"""Threads and loops on which a model's stages run, and mutual delays."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from kserve_serving import request_of, serving

from penstock import Processes
from penstock.compat.kserve._request.bind import BindOptions, bind
from penstock.compat.kserve.model import Model
from waiting import Gate, at_once, until


class Blocking(Model):
    def __init__(self, gate: Gate) -> None:
        super().__init__("m")
        self.gate = gate
        self.load()

    def predict(self, payload: Any, headers: Any = None) -> Any:
        self.gate.enter()
        return {"predictions": payload["instances"]}


class BlockingWithAsyncStage(Blocking):
    async def preprocess(self, payload: Any, headers: Any = None) -> Any:
        await asyncio.sleep(0)
        return payload


@pytest.mark.parametrize("kind", [Blocking, BlockingWithAsyncStage])
def test_s11_blocking_sync_stages_run_in_parallel(kind: type[Blocking]) -> None:
    gate = Gate()
    with serving(kind(gate), options=BindOptions(instances=4)) as served:
        calls = at_once((lambda: served.predict({"instances": [1]}).json()) for _ in range(4))
        gate.await_entered(4)
        gate.open()
        assert [call.result() for call in calls] == [{"predictions": [1]}] * 4


def test_s11_concurrency_is_bounded_by_instances() -> None:
    gate = Gate()
    with serving(Blocking(gate), options=BindOptions(instances=1)) as served:
        calls = at_once((lambda: served.predict({"instances": [1]}).status_code) for _ in range(2))
        gate.await_entered()
        assert not gate.entered.acquire(timeout=0.1)
        gate.open()
        assert [call.result() for call in calls] == [200, 200]


def test_s11_async_stages_share_one_loop() -> None:
    class Meets(Model):
        def __init__(self) -> None:
            super().__init__("m")
            self.loops: set[int] = set()
            self.waiting = 0
            self.load()

        async def predict(self, payload: Any, headers: Any = None) -> Any:
            self.loops.add(id(asyncio.get_running_loop()))
            self.waiting += 1
            while self.waiting < 8:
                await asyncio.sleep(0.001)
            return []

    model = Meets()
    with serving(model) as served:
        calls = at_once((lambda: served.predict({"instances": []}).status_code) for _ in range(8))
        assert [call.result() for call in calls] == [200] * 8
    assert len(model.loops) == 1


def test_s11_async_explain_of_a_sync_model_runs_on_one_loop() -> None:
    class Explains(Model):
        def __init__(self) -> None:
            super().__init__("m")
            self.loops: set[int] = set()
            self.load()

        def predict(self, payload: Any, headers: Any = None) -> Any:
            return []

        async def explain(self, payload: Any, headers: Any = None) -> Any:
            self.loops.add(id(asyncio.get_running_loop()))
            return {"explanations": []}

    model = Explains()
    with serving(model) as served:
        for _ in range(3):
            assert served.post("/v1/models/m:explain", {"instances": []}).json() == {"explanations": []}
    assert len(model.loops) == 1


def test_stage_histograms_appear_in_metrics() -> None:
    class Double(Model):
        def preprocess(self, payload: Any, headers: Any = None) -> Any:
            return payload

        def predict(self, payload: Any, headers: Any = None) -> Any:
            if not payload["instances"]:
                raise ValueError("nothing")
            return payload["instances"]

        def explain(self, payload: Any, headers: Any = None) -> Any:
            return []

    model = Double("m")
    model.load()
    with serving(model) as served:
        for body in ([1], [2], []):
            served.predict({"instances": body})
        served.post("/v1/models/m:explain", {"instances": []})

        def counts() -> dict[str, float]:
            import requests

            lines = requests.get(f"{served.http}/metrics", timeout=20).text.splitlines()
            return {
                line.partition("_seconds_count")[0]: float(line.split()[-1])
                for line in lines
                if line.startswith("request_") and "_seconds_count{" in line and 'model_name="m"' in line
            }

        until(lambda: len(counts()) == 4)
        assert counts() == {
            "request_preprocess": 4,
            "request_predict": 3,
            "request_explain": 1,
            "request_postprocess": 4,
        }


class InProcess(Model):
    """A model that reports its thread and process."""

    def __init__(self) -> None:
        super().__init__("m")
        self.load()

    def predict(self, payload: Any, headers: Any = None) -> Any:
        import os

        return {"predictions": [os.getpid(), threading.current_thread() is threading.main_thread()]}


class LaterInProcess(InProcess):
    async def predict(self, payload: Any, headers: Any = None) -> Any:
        await asyncio.sleep(0)
        return super().predict(payload, headers)


@pytest.mark.parametrize("kind", [InProcess, LaterInProcess])
def test_models_may_run_in_child_processes(kind: type[InProcess]) -> None:
    import os

    with serving(kind(), options=BindOptions(instances=Processes(1))) as served:
        response = served.predict({"instances": []})
        assert response.status_code == 200, response.text
        assert response.json()["predictions"][0] != os.getpid()


def test_bound_models_use_the_requested_name() -> None:
    model = InProcess()
    assert bind(model).name == "m"
    with serving(model, options=BindOptions(name="alias")) as served:
        assert served.predict({"instances": []}, model="alias").status_code == 200
        assert served.predict({"instances": []}).status_code == 404
        body = {**request_of(), "inputs": []}
        assert served.infer(body, model="alias").status_code in (400, 500)
