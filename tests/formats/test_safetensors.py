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

from .conftest import DATATYPES, Infer
from .test_npy import error, sample

MEDIA_TYPE = "application/x-safetensors"


def load_response(response: Any) -> dict[str, Any]:
    assert response.status == 200, response.body[:300]
    assert response.headers["content-type"] == MEDIA_TYPE
    return dict(load(response.body))


@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype_round_trips(infer: Infer, datatype: str) -> None:
    array = sample(datatype)
    array_out = load_response(infer(f"ident_{datatype}", save({"x": array}), MEDIA_TYPE))["y"]
    assert array_out.dtype == array.dtype
    assert (array_out == array).all()


def raw_safetensors(header: Any, data: bytes) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_bfloat16_round_trips(infer: Infer) -> None:
    array = sample("FP32").astype(ml_dtypes.bfloat16)
    body = raw_safetensors({"x": {"dtype": "BF16", "shape": [2, 2, 3], "data_offsets": [0, 24]}}, array.tobytes())
    response = infer("ident_BF16", body, MEDIA_TYPE)
    assert response.status == 200, response.body
    assert response.body.endswith(array.tobytes())


def test_several_tensors_and_metadata(infer: Infer, tmp_path: Any) -> None:
    body = save({"n": np.array([[1], [2]]), "a": np.array([[1, 2], [3, 4]], np.float32)})
    response = infer("mixed", body, MEDIA_TYPE, query="output=sum&id=x%20y")
    assert load_response(response)["sum"].tolist() == [[4], [9]]
    (tmp_path / "answer").write_bytes(response.body)
    with safe_open(tmp_path / "answer", "numpy") as file:
        assert file.metadata() == {"model_name": "mixed", "model_version": "1", "id": "x y"}


def test_empty_and_scalar_tensors_round_trip(infer: Infer) -> None:
    assert load_response(infer("ident_FP32", save({"x": np.zeros((0, 2, 3), np.float32)}), MEDIA_TYPE))["y"].shape == (
        0,
        2,
        3,
    )
    assert load_response(infer("scalar", save({"x": np.array(3, np.float32)}), MEDIA_TYPE))["y"] == 6


def test_bytes_output_is_rejected(infer: Infer) -> None:
    body = save({"n": np.array([[1]]), "a": np.array([[1, 2]], np.float32)})
    assert error(infer("mixed", body, MEDIA_TYPE)) == (
        "output 'same' has datatype BYTES, which safetensors cannot hold: accept another format"
    )


ZEROS = np.zeros((1, 2, 3), np.float32)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "the request's body is not valid safetensors data: "),
        (b'{"inputs":[]}', "the request's body is not valid safetensors data: "),
        (save({"x": ZEROS})[:-1], "the request's body is not valid safetensors data: "),
        (raw_safetensors(b"[]", b""), "the request's body is not valid safetensors data: "),
        (save({"z": ZEROS}), "unexpected input 'z' for model 'ident_FP32', expected 'x'"),
        (save({}), "input 'x' is missing, model 'ident_FP32' expects 'x'"),
        (save({"x": ZEROS[0]}), "input 'x' has shape [2, 3], model 'ident_FP32' expects [-1, 2, 3]"),
        (save({"x": ZEROS.astype(np.float64)}), "input 'x' has datatype FP64, model 'ident_FP32' expects FP32"),
        (
            raw_safetensors({"x": {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]}}, b"x"),
            "input 'x' has dtype F8_E4M3, expected the dtype of a datatype",
        ),
    ],
)
def test_invalid_bodies_are_rejected(infer: Infer, body: bytes, text: str) -> None:
    assert error(infer("ident_FP32", body, MEDIA_TYPE)).startswith(text)
