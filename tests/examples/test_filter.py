"""The filter example: a signal in chunks is smoothed like the whole, with other sequences active."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import pytest

testing = pytest.importorskip("penstock.testing")

Load = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def client(example: Load) -> Iterator[Any]:
    with testing.Client(example("app").smooth) as client:
        yield client


def send(client: Any, number: int, chunk: np.ndarray, **marks: bool) -> np.ndarray:
    parameters = {"sequence_id": number, **{f"sequence_{mark}": flag for mark, flag in marks.items()}}
    smooth: np.ndarray = client.infer("smooth", {"signal": chunk}, parameters=parameters)["smooth"]
    return smooth


def test_chunks_are_smoothed_like_the_whole_signal(client: Any) -> None:
    signals = np.random.default_rng(1).standard_normal((2, 100)).astype(np.float32)
    cuts = [0, 1, 1, 40, 99, 100]
    chunks: list[list[np.ndarray]] = [[], []]
    for index, (start, stop) in enumerate(pairwise(cuts)):
        for number, signal in enumerate(signals):
            marks = {"start": index == 0, "end": stop == 100}
            chunks[number].append(send(client, number + 1, signal[start:stop], **marks))
    for number, signal in enumerate(signals):
        whole = send(client, 9, signal, start=True, end=True)
        np.testing.assert_allclose(np.concatenate(chunks[number]), whole, rtol=1e-6)


def test_smoothing_lowers_the_roughness(example: Load, client: Any) -> None:
    pytest.importorskip("tritonclient.http", reason="client.py needs tritonclient")
    module = example("client")
    signal = module.wave()
    assert module.roughness(send(client, 1, signal, start=True, end=True)) < 0.3 * module.roughness(signal)
