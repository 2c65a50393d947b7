"""Resources shared by models: a batch starts once all of its resources are free."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import numpy as np
import pytest

from http_by_hand import get, infer, metric_at
from penstock import (
    Batching,
    ConfigError,
    LoadError,
    Processes,
    Resources,
    Server,
    ServerConfig,
    SignatureError,
    Tensor,
    Threads,
    model,
)
from penstock.testing import Client
from waiting import Gate, at_once, until

ONE: dict[str, Any] = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}
X = np.ones(1, np.float32)


class ConcurrencyCounter:
    """Counter of concurrent calls, with their peak and total."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.active = self.peak = self.calls = 0

    def __enter__(self) -> None:
        with self.lock:
            self.active += 1
            self.calls += 1
            self.peak = max(self.peak, self.active)

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.active -= 1


def test_resource_amount_limits_concurrent_calls() -> None:
    counter = ConcurrencyCounter()

    def handle(x: Any) -> Any:
        with counter:
            threading.Event().wait(0.001)
            if counter.calls % 5 == 0:
                raise RuntimeError("releases its resource")
        return x

    async def handle_async(x: Any) -> Any:
        with counter:
            await asyncio.sleep(0.001)
        return x

    models = [
        model(handle, name="a", instances=Threads(4), resources={"gpu0": 1}, **ONE),
        model(handle, name="b", instances=Threads(4), resources=Resources({"gpu0": 1}, weight=2), **ONE),
        model(handle_async, name="c", resources={"gpu0": 1}, **ONE),
    ]
    with Client(*models, resources={"gpu0": 2, "other": 1}) as client:

        def infer_or_error(name: str) -> Any:
            try:
                return client.infer(name, {"x": X})["y"].tolist()
            except Exception as error:
                return str(error)

        futures = at_once([lambda name=name: infer_or_error(name) for name in "abc" * 15])
        responses = [future.result() for future in futures]
    assert counter.calls == 45
    assert counter.peak <= 2
    assert responses.count([1.0]) >= 30


def test_requests_batch_while_waiting_for_a_resource() -> None:
    gate, sizes = Gate(), list[int]()

    def hold(x: Any) -> Any:
        gate.enter()
        return x

    def batched(x: Any) -> Any:
        sizes.append(len(x))
        return x

    models = [
        model(hold, name="a", resources={"gpu0": 1}, **ONE),
        model(batched, name="b", resources={"gpu0": 1}, batching=Batching(max_size=8), **ONE),
    ]
    with Server(*models, http="127.0.0.1:0", grpc=None, resources="gpu0=1") as server:
        url = server.http_url
        futures = at_once([lambda: infer(url, "a", {"x": X})])
        gate.await_entered()
        futures += at_once([lambda: infer(url, "b", {"x": X[None]})] * 5)
        until(lambda: metric_at(url, "penstock_queue_depth", model="b") == 5)
        gate.open()
        assert [future.result().status for future in futures] == [200] * 6
        limiter = get(url, "/v2/models/b/config").json()["instance_group"][0]["rate_limiter"]
    assert sizes == [5]
    assert limiter == {"resources": [{"name": "gpu0", "global": True, "count": 1}], "priority": 1}


def crash(x: Any) -> Any:
    if x[0] > 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def test_dead_process_releases_its_resource() -> None:
    models = [
        model(crash, name="a", instances=Processes(1), resources={"gpu0": 1}, **ONE),
        model(lambda x: x, name="b", resources={"gpu0": 1}, **ONE),
    ]
    with Client(*models, resources={"gpu0": 1}) as client:
        assert client.infer("a", {"x": X})["y"].tolist() == [1]
        for _ in range(2):
            with pytest.raises(Exception, match="killed by SIGKILL"):
                client.infer("a", {"x": X * 2})
            assert client.infer("b", {"x": X})["y"].tolist() == [1]
            until(lambda: client.get("/v2/models/a/ready").status == 200)


def test_model_with_unavailable_resource_is_not_loaded() -> None:
    served = model(lambda x: x, name="m", resources={"gpu0": 2}, **ONE)
    for available, text in [
        ({}, "model 'm' needs resource 'gpu0', the server has none"),
        ({"gpu1": 4}, "model 'm' needs resource 'gpu0', the server has 'gpu1'"),
        ({"gpu0": 1}, "model 'm' needs 2 of resource 'gpu0', the server has 1"),
    ]:
        with pytest.raises(LoadError, match=text), Client(served, resources=available):
            pass


def test_resource_amounts_are_parsed_and_validated() -> None:
    assert ServerConfig(resources=(("a", 1),)).resources == (("a", 1),)
    for available in ({"gpu0": 2, "disk": 1}, "gpu0=2, disk = 1"):
        assert ServerConfig(resources=available).resources == (("gpu0", 2), ("disk", 1))  # type: ignore[arg-type]
    for wrong, text in [
        ("gpu0", "'gpu0' is not amounts by name, such as gpu0=2,disk=1"),
        ({"gpu0": 0}, "0 is not an amount of 'gpu0' of 1 or more"),
        ("a=1,a=2", "is not amounts by name"),
        (3, "3 is not amounts by name"),
    ]:
        with pytest.raises(ConfigError, match=f"resources: .*{text}"):
            ServerConfig(resources=wrong)  # type: ignore[arg-type]
    for make, text in [
        (lambda: Resources({}), "amounts must be numbers by name"),
        (lambda: Resources({"": 1}), "'' is not the name of a resource"),
        (lambda: Resources({"a": 0}), "the amount of 'a' must be an integer of 1 or more, not 0"),
        (lambda: Resources({"a": 1}, weight=0), "weight must be above 0 and at most a million, not 0"),
    ]:
        with pytest.raises(ValueError, match=text):
            make()
    with pytest.raises(SignatureError, match="model 'm': resources must be numbers by name"):
        model(lambda x: x, name="m", resources=3, **ONE)  # type: ignore[call-overload]
    with pytest.raises(SignatureError, match="model 'm': Resources: the amount of 'a'"):
        model(lambda x: x, name="m", resources={"a": -1}, **ONE)
