"""The benchmark of these integrations: its requests get correct responses, so its numbers are of equal work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benches.functions.__main__ import table_of_batches, table_of_calls
from benches.functions.measure import INTEGRATIONS, MOST_ADDED_US, Added, Batch, batch_questions, calls
from benches.functions.sides import Running, running

pytest.importorskip("yaml")
pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def servers() -> Iterator[Running]:
    with running() as servers:
        yield servers


def test_g05_calls_of_one_row_return_correct_values(servers: Running) -> None:
    ways = calls()
    assert {(name, place) for name in INTEGRATIONS for place in ("server", "process")} <= set(ways)
    for question in ways.values():
        servers.check(question)


def test_g05_batches_return_correct_values(servers: Running) -> None:
    for (_, place), question in batch_questions().items():
        if place != "fastapi":
            servers.check(question)


def test_g05_wrong_values_are_detected(servers: Running) -> None:
    question = next(iter(calls().values()))
    with pytest.raises(RuntimeError, match="answered"):
        servers.check(type(question)(question.server, question.path, question.body, [4.0]))


def test_g05_tables_mark_passed_and_failed_targets() -> None:
    table = table_of_calls([Added("modelbit", "server", 110 + MOST_ADDED_US, 110, 3, True)])
    assert "+30 us" in table
    assert table.rstrip().endswith("| yes |")
    assert "no |" in table_of_calls([Added("modelbit", "server", 111 + MOST_ADDED_US, 110, 3, True)])
    assert "| 12.5x | >= 10x | yes |" in table_of_batches([Batch("double", "server", 25, 2)])
