"""safetensors bodies, as the safetensors package writes and reads them."""

from __future__ import annotations

import json
import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load, save

from .conftest import DATATYPES, Ask
from .test_npy import error, sample

KIND = "application/x-safetensors"


def loaded(answer: Any) -> dict[str, Any]:
    assert answer.status == 200, answer.body[:300]
    assert answer.headers["content-type"] == KIND
    return dict(load(answer.body))


@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype_comes_back(ask: Ask, datatype: str) -> None:
    array = sample(datatype)
    found = loaded(ask(f"ident_{datatype}", save({"x": array}), KIND))["y"]
    assert found.dtype == array.dtype
    assert (found == array).all()


def by_hand(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_brain_floats(ask: Ask) -> None:
    array = sample("FP32").astype(ml_dtypes.bfloat16)
    body = by_hand({"x": {"dtype": "BF16", "shape": [2, 2, 3], "data_offsets": [0, 24]}}, array.tobytes())
    answer = ask("ident_BF16", body, KIND)
    assert answer.status == 200, answer.body
    assert answer.body.endswith(array.tobytes())


def test_several_tensors_and_metadata(ask: Ask, tmp_path: Any) -> None:
    body = save({"n": np.array([[1], [2]]), "a": np.array([[1, 2], [3, 4]], np.float32)})
    answer = ask("mixed", body, KIND, query="output=sum&id=x%20y")
    assert loaded(answer)["sum"].tolist() == [[4], [9]]
    (tmp_path / "answer").write_bytes(answer.body)
    with safe_open(tmp_path / "answer", "numpy") as file:
        assert file.metadata() == {"model_name": "mixed", "model_version": "1", "id": "x y"}


def test_no_rows_and_a_scalar(ask: Ask) -> None:
    assert loaded(ask("ident_FP32", save({"x": np.zeros((0, 2, 3), np.float32)}), KIND))["y"].shape == (0, 2, 3)
    assert loaded(ask("scalar", save({"x": np.array(3, np.float32)}), KIND))["y"] == 6


def test_bytes_have_no_place(ask: Ask) -> None:
    body = save({"n": np.array([[1]]), "a": np.array([[1, 2]], np.float32)})
    assert error(ask("mixed", body, KIND)) == (
        "output 'same' has datatype BYTES, which safetensors cannot hold: accept another format"
    )


ZEROS = np.zeros((1, 2, 3), np.float32)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "the request's body is not valid safetensors data: "),
        (b'{"inputs":[]}', "the request's body is not valid safetensors data: "),
        (save({"x": ZEROS})[:-1], "the request's body is not valid safetensors data: "),
        (by_hand(b"[]", b""), "the request's body is not valid safetensors data: "),
        (save({"z": ZEROS}), "unexpected input 'z' for model 'ident_FP32', expected 'x'"),
        (save({}), "input 'x' is missing, model 'ident_FP32' expects 'x'"),
        (save({"x": ZEROS[0]}), "input 'x' has shape [2, 3], model 'ident_FP32' expects [-1, 2, 3]"),
        (save({"x": ZEROS.astype(np.float64)}), "input 'x' has datatype FP64, model 'ident_FP32' expects FP32"),
        (
            by_hand({"x": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}, b"x"),
            "input 'x' has dtype F8_E4M3, expected the dtype of a datatype",
        ),
    ],
)
def test_refusals(ask: Ask, body: bytes, text: str) -> None:
    assert error(ask("ident_FP32", body, KIND)).startswith(text)
