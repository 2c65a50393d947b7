"""The histograms: row R12."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.compat.kserve import metrics


class MetricRecorder:
    def __init__(self) -> None:
        self.observations: list[tuple[str, float, dict[str, Any]]] = []

    def observe(self, name: str, /, value: float, **labels: str | float) -> None:
        self.observations.append((name, value, labels))


def test_r12_histograms_have_kserve_names() -> None:
    recorder = MetricRecorder()
    with metrics.recording(recorder):
        for histogram in (
            metrics.PRE_HIST_TIME,
            metrics.PREDICT_HIST_TIME,
            metrics.EXPLAIN_HIST_TIME,
            metrics.POST_HIST_TIME,
        ):
            histogram.labels(**metrics.get_labels("m")).observe(0.5)
    names = [f"request_{stage}_seconds" for stage in ("preprocess", "predict", "explain", "postprocess")]
    assert recorder.observations == [(name, 0.5, {"model_name": "m"}) for name in names]


def test_r12_blocks_are_timed_even_if_they_raise() -> None:
    recorder = MetricRecorder()
    with metrics.recording(recorder):
        with metrics.PREDICT_HIST_TIME.labels("m").time():
            pass
        with pytest.raises(KeyError), metrics.PREDICT_HIST_TIME.labels(model_name="m").time():
            raise KeyError

        @metrics.PREDICT_HIST_TIME.labels("m").time()
        def timed(x: int) -> int:
            return x + 1

        assert timed(1) == 2
    assert [(name, labels) for name, _, labels in recorder.observations] == [
        ("request_predict_seconds", {"model_name": "m"})
    ] * 3
    assert all(value >= 0 for _, value, _ in recorder.observations)


def test_r12_each_task_has_its_own_recorder() -> None:
    recorders = [MetricRecorder(), MetricRecorder()]

    async def handle(recorder: MetricRecorder, rendezvous: asyncio.Barrier | Any) -> None:
        with metrics.recording(recorder):
            await rendezvous()
            metrics.PREDICT_HIST_TIME.labels("m").observe(1)

    async def handle_both() -> None:
        started = asyncio.Event()
        remaining = len(recorders)

        async def rendezvous() -> None:
            nonlocal remaining
            remaining -= 1
            if not remaining:
                started.set()
            await started.wait()

        await asyncio.gather(*(handle(recorder, rendezvous) for recorder in recorders))

    asyncio.run(handle_both())
    assert [len(recorder.observations) for recorder in recorders] == [1, 1]


def test_r12_values_outside_a_request_are_dropped() -> None:
    metrics.PREDICT_HIST_TIME.labels("m").observe(1)
    with metrics.recording(None), metrics.PREDICT_HIST_TIME.labels("m").time():
        pass


@pytest.mark.parametrize(("values", "named"), [((), {}), (("a", "b"), {}), ((), {"model": "m"}), (("a",), {"x": 1})])
def test_r12_unknown_labels_are_rejected(values: Any, named: Any) -> None:
    with pytest.raises(ValueError, match=r"^the labels of request_predict_seconds are model_name$"):
        metrics.PREDICT_HIST_TIME.labels(*values, **named)


def test_llm_stats_token_counts_default_to_zero() -> None:
    assert metrics.LLMStats() == metrics.LLMStats(num_prompt_tokens=0, num_generation_tokens=0)
