"""Copy counts of docs/copies.md, measured with binary REST in process, which has the same path as over a socket."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import numpy as np
import pytest

from penstock import Batching, Tensor, _core, frozen, model
from penstock.testing import Client

LARGE, SMALL = 64 << 10, (64 << 10) - 4
"""Bytes of a response that is borrowed, and of one that is copied."""


def copied_by(run: Callable[[], Any]) -> dict[str, int]:
    """Bytes that a call copies, by step, without steps of no copies."""
    before = _core.copied_bytes()
    run()
    after = _core.copied_bytes()
    return {step: after[step] - before[step] for step in after if after[step] != before[step]}


def serve(handler: Callable[..., Any], datatype: Any, **options: Any) -> Client:
    tensors = {"inputs": [Tensor("x", datatype, [-1])], "outputs": [Tensor("y", datatype, [-1])]}
    return Client(model(name="m", **tensors, **options)(handler))


def floats(size: int) -> np.ndarray[Any, Any]:
    return np.ones(size // 4, np.float32)


RETAINED = floats(LARGE)
FROZEN = frozen(floats(2 * LARGE))


@pytest.mark.parametrize(
    ("size", "handler", "expected"),
    [
        pytest.param(LARGE, lambda x: x + 1, {}, id="fresh and large"),
        pytest.param(SMALL, lambda x: x + 1, {"hand-out": SMALL}, id="small"),
        pytest.param(LARGE, lambda x: x[:100] + 1, {"hand-out": 400, "encode": 400}, id="small enough to be joined"),
        pytest.param(LARGE, lambda x: (x + 1)[:], {"hand-out": LARGE}, id="a view"),
        pytest.param(LARGE, lambda _: RETAINED, {"hand-out": LARGE}, id="retained by the handler"),
        pytest.param(SMALL, lambda _: FROZEN, {}, id="frozen"),
        pytest.param(SMALL, lambda _: FROZEN[100:-100], {}, id="a part of a frozen one"),
        pytest.param(LARGE, lambda x: x, {}, id="the input itself"),
        pytest.param(LARGE, lambda x: x[:], {"hand-out": LARGE}, id="a view of the input"),
    ],
)
def test_copies_of_a_single_request(size: int, handler: Callable[..., Any], expected: dict[str, int]) -> None:
    with serve(handler, np.float32) as client:
        assert copied_by(lambda: client.infer("m", {"x": floats(size)})) == {"receive": size, **expected}


def test_batched_rows_are_gathered_once() -> None:
    entered, release = Event(), Event()

    def wait_for_release(x: Any) -> Any:
        entered.set()
        assert release.wait(30)
        return x[:, :1] + 0

    def send_batch(client: Client, pool: ThreadPoolExecutor) -> None:
        first = pool.submit(client.infer, "m", {"x": floats(400)[None]})
        assert entered.wait(30)
        waiting = [pool.submit(client.infer, "m", {"x": floats(400)[None]}) for _ in range(2)]
        while "penstock_queue_depth{" + 'model="m",version="1"} 2' not in client.get("/metrics").body.decode():
            assert not any(one.done() for one in waiting)
        release.set()
        for one in [first, *waiting]:
            one.result(30)

    with serve(wait_for_release, np.float32, batching=Batching(8, hold=False)) as client, ThreadPoolExecutor(3) as pool:
        assert copied_by(lambda: send_batch(client, pool)) == {
            "receive": 3 * 400,
            "gather": 2 * 400,
            "hand-out": 3 * 4,
            "encode": 3 * 4,
        }


def test_split_request_is_copied_and_joined() -> None:
    with serve(lambda x: x + 1, np.float32, batching=Batching(2, oversize="split")) as client:
        rows = np.ones((4, 8), np.float32)
        steps = copied_by(lambda: client.infer("m", {"x": rows}))
        assert steps == dict.fromkeys(["receive", "hand-in", "hand-out", "gather", "encode"], rows.nbytes)


def test_bf16_is_copied_for_both_conversions() -> None:
    with serve(lambda x: x + 1, "BF16") as client:
        steps = copied_by(lambda: client.infer("m", {"x": np.ones(100, np.float32)}))
        assert steps == dict.fromkeys(["receive", "hand-in", "hand-out", "encode"], 200)


def test_bytes_are_copied_into_objects() -> None:
    with serve(lambda x: x, bytes) as client:
        framed = 2 * 4 + len(b"ab") + len(b"c")
        steps = copied_by(lambda: client.infer("m", {"x": np.array([b"ab", b"c"], object)}))
        assert steps == dict.fromkeys(["receive", "hand-in", "hand-out", "encode"], framed)
