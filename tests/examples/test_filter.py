"""The filter example: a signal in pieces comes back as it would whole, whatever else is under way."""

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


def send(client: Any, number: int, piece: np.ndarray, **marks: bool) -> np.ndarray:
    parameters = {"sequence_id": number, **{f"sequence_{mark}": flag for mark, flag in marks.items()}}
    answer: np.ndarray = client.infer("smooth", {"signal": piece}, parameters=parameters)["smooth"]
    return answer


def test_pieces_are_smoothed_as_the_whole(client: Any) -> None:
    signals = np.random.default_rng(1).standard_normal((2, 100)).astype(np.float32)
    cuts = [0, 1, 1, 40, 99, 100]
    pieces: list[list[np.ndarray]] = [[], []]
    for index, (begin, stop) in enumerate(pairwise(cuts)):
        for number, signal in enumerate(signals):
            marks = {"start": index == 0, "end": stop == 100}
            pieces[number].append(send(client, number + 1, signal[begin:stop], **marks))
    for number, signal in enumerate(signals):
        whole = send(client, 9, signal, start=True, end=True)
        np.testing.assert_allclose(np.concatenate(pieces[number]), whole, rtol=1e-6)


def test_smooth_is_smoother(example: Load, client: Any) -> None:
    pytest.importorskip("tritonclient.http", reason="client.py needs tritonclient")
    module = example("client")
    signal = module.wave()
    assert module.roughness(send(client, 1, signal, start=True, end=True)) < 0.3 * module.roughness(signal)
