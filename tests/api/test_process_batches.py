"""Batches in processes: row errors, allowed sizes, and retries when memory is short."""

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
def test_rows_fail_separately(handler: Model[..., Any]) -> None:
    with Server(handler, http="127.0.0.1:0", grpc=None) as server:
        url, name = server.http_url, handler.name
        responses = at_once([lambda value=value: infer(url, name, column(value)) for value in (1, -2, 3)])
        first, rejected, last = (future.result() for future in responses)
    assert (rejected.status, rejected.error()) == (400, "no -2")
    assert [first.array("y").tolist(), last.array("y").tolist()] == [[[10]], [[30]]]


def test_process_receives_only_allowed_sizes() -> None:
    with Client(in_processes.padded) as client:
        for rows, size in ((1, 4), (4, 4), (5, 8)):
            y = client.infer("padded", column(*range(rows)))["y"]
            assert y.tolist() == [[100 * size + sum(range(rows))]] * rows


def test_too_large_batch_is_retried_in_smaller_ones() -> None:
    with Server(in_processes.short_of_memory, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        responses = at_once([lambda value=value: infer(url, "short", column(value)) for value in range(8)])
        values = [future.result().array("y").item() for future in responses]
    assert [value // 10 for value in values] == list(range(8))
    assert {value % 10 for value in values} <= {1, 2}


def test_too_large_single_request_is_rejected() -> None:
    with Client(in_processes.short_of_memory) as client, pytest.raises(TooLarge, match="8 rows"):
        client.infer("short", column(*range(8)))
