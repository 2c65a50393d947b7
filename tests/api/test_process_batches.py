"""What handlers in processes may do with a batch: fail rows alone, see allowed sizes only, be short of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from http_by_hand import infer
from models import in_processes
from penstock import Model, Server, TooLarge
from penstock.testing import Client
from waiting import at_once


def column(*values: float) -> dict[str, Any]:
    return {"x": np.array(values, np.float32).reshape(-1, 1)}


@pytest.mark.parametrize("handler", [in_processes.raises_rows, in_processes.lists_rows])
def test_rows_fail_alone(handler: Model[..., Any]) -> None:
    with Server(handler, http="127.0.0.1:0", grpc=None) as server:
        url, name = server.http_url, handler.name
        answers = at_once([lambda value=value: infer(url, name, column(value)) for value in (1, -2, 3)])
        first, refused, last = (future.result() for future in answers)
    assert (refused.status, refused.error()) == (400, "no -2")
    assert [first.array("y").tolist(), last.array("y").tolist()] == [[[10]], [[30]]]


def test_allowed_sizes_are_all_that_a_process_sees() -> None:
    with Client(in_processes.padded) as client:
        for rows, size in ((1, 4), (4, 4), (5, 8)):
            y = client.infer("padded", column(*range(rows)))["y"]
            assert y.tolist() == [[100 * size + sum(range(rows))]] * rows


def test_a_batch_that_its_memory_does_not_hold_is_computed_in_smaller_ones() -> None:
    with Server(in_processes.short_of_memory, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        answers = at_once([lambda value=value: infer(url, "short", column(value)) for value in range(8)])
        got = [future.result().array("y").item() for future in answers]
    assert [value // 10 for value in got] == list(range(8))
    assert {value % 10 for value in got} <= {1, 2}


def test_a_request_that_its_memory_does_not_hold_alone_is_refused() -> None:
    with Client(in_processes.short_of_memory) as client, pytest.raises(TooLarge, match="8 rows"):
        client.infer("short", column(*range(8)))
