"""DataFrame mode: one call for the rows of one or several requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
import pytest
from modelbit_http import HttpClient
from modelbit_repository import Files, write_repository

from penstock import Server
from penstock.compat import modelbit
from penstock.compat.modelbit._function.frames import to_frame
from penstock.compat.modelbit._spec.metadata import Column
from penstock.compat.modelbit.errors import RequestError

SOURCE = """
import time
import numpy as np
import pandas as pd

CALLS = []

def frame(df):
    CALLS.append(len(df))
    how = df["how"].iloc[0]
    if how == "calls":
        return [list(CALLS)] * len(df)
    if how == "seen":
        return [[list(df.columns), [str(one) for one in df.dtypes], df.index.tolist()]] * len(df)
    if how == "list":
        return [x * 2 for x in df["x"]]
    if how == "array":
        return (df["x"] * 2).to_numpy()
    if how == "matrix":
        return np.stack([df["x"], df["x"] * 2], axis=1)
    if how == "series":
        return df["x"] * 2
    if how == "frame":
        return pd.DataFrame({"twice": df["x"] * 2})
    if how == "short":
        return [1]
    if how == "number":
        return 3
    if how == "sleep":
        time.sleep(0.3)
        return df["x"].tolist()
    raise KeyError(how)
"""
COLUMNS = {
    "dataframeModeColumns": [
        {"name": "x", "dtype": "float64", "example": "1"},
        {"name": "n", "dtype": "int64", "example": "1"},
        {"name": "how", "dtype": "object", "example": "list"},
    ]
}
FRAME = Files(SOURCE, "frame", COLUMNS)
DEPLOYMENTS = {"frame": FRAME}


def rows(how: str, count: int = 3, **more: Any) -> list[Any]:
    return [[place * 10, {"n": place, "how": how, "x": place + 0.5, **more}] for place in range(count)]


def test_m14_rows_of_a_request_share_a_call(served: HttpClient) -> None:
    before = served.call("frame", rows("calls")).data
    after = served.call("frame", rows("calls", 5)).data
    assert [row[0] for row in after] == [0, 10, 20, 30, 40]
    assert after[0][1] == [*before[0][1], 5]


def test_m14_frame_has_declared_columns_types_and_index(served: HttpClient) -> None:
    columns, dtypes, index = served.call("frame", rows("seen", extra=1)).data[0][1]
    assert columns == ["x", "n", "how"]
    assert dtypes == ["float64", "int64", "object"]
    assert index == [0, 10, 20]
    dtypes = served.call("frame", [[1, {"x": None, "n": None, "how": "seen"}], [2, rows("a")[0][1]]]).data[0][1][1]
    assert dtypes == ["float64", "float64", "object"], "whole numbers have no value that is missing"


@pytest.mark.parametrize("how", ["list", "array", "series"])
def test_m14_lists_arrays_and_series_become_values(served: HttpClient, how: str) -> None:
    assert served.call("frame", rows(how)).data == [[0, 1.0], [10, 3.0], [20, 5.0]]


def test_m14_frames_and_matrices_become_rows(served: HttpClient) -> None:
    assert served.call("frame", rows("frame", 2)).data == [[0, {"twice": 1.0}], [10, {"twice": 3.0}]]
    assert served.call("frame", rows("matrix", 2)).data == [[0, [0.5, 1.0]], [10, [1.5, 3.0]]]


def test_m14_single_row_and_empty_batch(served: HttpClient) -> None:
    assert served.call("frame", rows("list")[1][1]).data == 3.0
    assert served.call("frame", []).data == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (rows("short"), "the function gave 1 values for a frame of 3 rows, expected as many"),
        (rows("number"), "the function gave int for a frame of 3 rows, expected a value for each row"),
        (rows("what"), "KeyError: 'what'"),
        ([[7, {"x": 1, "how": "list"}]], "row id 7: the column 'n' is missing; expected x, n, how"),
        ([[7, 3]], "row id 7: expected one object with the columns x, n, how, not 3"),
        (3, "expected one object with the columns x, n, how, not 3"),
        (rows("list", x="many"), "the column 'x' must be float64: could not convert string to float: 'many'"),
    ],
)
def test_m14_invalid_rows_and_results_are_rejected(served: HttpClient, data: Any, message: str) -> None:
    response = served.call("frame", data)
    assert response.status == 400
    assert response.error.startswith(message)


@pytest.mark.parametrize("isolation", ["process", "server"])
def test_m15_concurrent_requests_share_a_call(tmp_path_factory: pytest.TempPathFactory, isolation: str) -> None:
    folder = write_repository(tmp_path_factory.mktemp("joined"), {"frame": FRAME})
    with Server(
        *modelbit.load(folder, {"join": "32", "isolation": isolation}), http="127.0.0.1:0", grpc=None
    ) as server:
        client = HttpClient(server.http_url, folder)

        def infer(place: int) -> Any:
            return client.call("frame", [[f"{place}{letter}", {"x": place, "n": 1, "how": "sleep"}] for letter in "ab"])

        with ThreadPoolExecutor(12) as threads:
            responses = [*threads.map(infer, range(12))]
        for place, one in enumerate(responses):
            assert one.data == [[f"{place}a", float(place)], [f"{place}b", float(place)]]
        calls = client.call("frame", rows("calls")).data[0][1][:-1]
        assert sum(calls) == 24
        assert len(calls) <= 4, "the first calls may start before the other requests arrive"


@pytest.mark.parametrize("isolation", ["process", "server"])
def test_m15_failing_request_does_not_affect_others(tmp_path_factory: pytest.TempPathFactory, isolation: str) -> None:
    folder = write_repository(tmp_path_factory.mktemp("joined"), {"frame": FRAME})
    with Server(*modelbit.load(folder, {"join": 32, "isolation": isolation}), http="127.0.0.1:0", grpc=None) as server:
        client = HttpClient(server.http_url, folder)
        requests = [rows("sleep"), rows("sleep"), [[1, 2]], rows("sleep", x="b"), rows("sleep", 1)]
        with ThreadPoolExecutor(5) as threads:
            responses = [*threads.map(lambda data: client.call("frame", data), requests)]
        assert [one.status for one in responses] == [200, 200, 400, 400, 200]
        assert responses[1].data == [[0, 0.5], [10, 1.5], [20, 2.5]]


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("float64", [1, 2.5]),
        ("float64", [True, 2.5]),
        ("float64", ["1.5", 2]),
        ("float64", [None, 2.5]),
        ("float64", [2**70, 0.5]),
        ("int64", [1, -(2**63)]),
        ("int64", [1, None]),
        ("int64", [True, 2]),
        ("bool", [True, False]),
        ("bool", [1, 0]),
        ("bool", [True, None]),
    ],
)
def test_m14_fast_conversion_of_a_column_equals_the_slow_one(dtype: str, values: list[Any]) -> None:
    converted = to_frame({"x": values}, [Column("x", dtype)], range(len(values)))["x"]
    expected = dtype if None not in values else {"bool": "object"}.get(dtype, "float64")
    pd.testing.assert_series_equal(converted, pd.Series(values, dtype="object").astype(expected), check_names=False)


def test_m14_integer_over_64_bits_is_rejected() -> None:
    with pytest.raises(RequestError, match="the column 'x' must be int64"):
        to_frame({"x": [2**63]}, [Column("x", "int64")], [0])
