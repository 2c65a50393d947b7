"""The histograms: row R12."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.compat.kserve import metrics


class MetricRecorder:
    def __init__(self) -> None:
        self.kept: list[tuple[str, float, dict[str, Any]]] = []

    def observe(self, name: str, /, value: float, **labels: str | float) -> None:
        self.kept.append((name, value, labels))


def test_r12_the_names_are_kserves() -> None:
    keeper = MetricRecorder()
    with metrics.recording(keeper):
        for histogram in (
            metrics.PRE_HIST_TIME,
            metrics.PREDICT_HIST_TIME,
            metrics.EXPLAIN_HIST_TIME,
            metrics.POST_HIST_TIME,
        ):
            histogram.labels(**metrics.get_labels("m")).observe(0.5)
    names = [f"request_{stage}_seconds" for stage in ("preprocess", "predict", "explain", "postprocess")]
    assert keeper.kept == [(name, 0.5, {"model_name": "m"}) for name in names]


def test_r12_a_block_is_timed_and_so_is_one_that_raises() -> None:
    keeper = MetricRecorder()
    with metrics.recording(keeper):
        with metrics.PREDICT_HIST_TIME.labels("m").time():
            pass
        with pytest.raises(KeyError), metrics.PREDICT_HIST_TIME.labels(model_name="m").time():
            raise KeyError

        @metrics.PREDICT_HIST_TIME.labels("m").time()
        def timed(x: int) -> int:
            return x + 1

        assert timed(1) == 2
    assert [(name, labels) for name, _, labels in keeper.kept] == [("request_predict_seconds", {"model_name": "m"})] * 3
    assert all(value >= 0 for _, value, _ in keeper.kept)


def test_r12_each_task_has_its_recorder() -> None:
    keepers = [MetricRecorder(), MetricRecorder()]

    async def answer(keeper: MetricRecorder, turn: asyncio.Barrier | Any) -> None:
        with metrics.recording(keeper):
            await turn()
            metrics.PREDICT_HIST_TIME.labels("m").observe(1)

    async def both() -> None:
        started = asyncio.Event()
        left = len(keepers)

        async def turn() -> None:
            nonlocal left
            left -= 1
            if not left:
                started.set()
            await started.wait()

        await asyncio.gather(*(answer(keeper, turn) for keeper in keepers))

    asyncio.run(both())
    assert [len(keeper.kept) for keeper in keepers] == [1, 1]


def test_r12_values_outside_a_request_are_dropped() -> None:
    metrics.PREDICT_HIST_TIME.labels("m").observe(1)
    with metrics.recording(None), metrics.PREDICT_HIST_TIME.labels("m").time():
        pass


@pytest.mark.parametrize(("values", "named"), [((), {}), (("a", "b"), {}), ((), {"model": "m"}), (("a",), {"x": 1})])
def test_r12_other_labels_are_refused(values: Any, named: Any) -> None:
    with pytest.raises(ValueError, match=r"^the labels of request_predict_seconds are model_name$"):
        metrics.PREDICT_HIST_TIME.labels(*values, **named)


def test_token_counts() -> None:
    assert metrics.LLMStats() == metrics.LLMStats(num_prompt_tokens=0, num_generation_tokens=0)
