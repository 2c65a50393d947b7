"""Encoder of gRPC responses, and varints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_infer_tensors import VALUES

from penstock.compat.kserve import InferOutput, InferResponse
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.protocol._grpc_bytes import response_bytes
from penstock.compat.kserve.protocol.grpc._varints import decoded, encoded, number
from penstock.compat.kserve.protocol.grpc.grpc_predict_v2_pb2 import InferParameter, ModelInferResponse
from penstock.compat.kserve.utils.numpy_codec import to_np_dtype


def outputs(datatype: str) -> list[list[InferOutput]]:
    values = VALUES[datatype]
    array = np.array(values, dtype=to_np_dtype(datatype))
    raw, plain = InferOutput("y", [2], datatype), InferOutput("y", [2], datatype, parameters={"k": True})
    raw.set_data_from_numpy(array)
    plain.set_data_from_numpy(array, binary_data=False)
    nested = InferOutput("z", [1, 2], datatype, [values])
    return [
        [InferOutput("y", [2], datatype, values)],
        [InferOutput("y", [2], datatype, array)],
        [plain],
        [raw],
        [nested],
        [raw, nested],
        [InferOutput("y", [0, 300], datatype, [])],
    ]


@pytest.mark.parametrize("datatype", VALUES)
@pytest.mark.parametrize("binary", [False, True])
def test_s48_encoded_bytes_equal_the_message(datatype: str, binary: bool) -> None:
    for some in outputs(datatype):
        response = InferResponse("1", "m", some, use_binary_outputs=binary)
        assert ModelInferResponse.FromString(response_bytes(response)) == response.to_grpc()


def test_s48_encoded_parameters_equal_the_message() -> None:
    parameters = {
        "a": "x",
        "b": False,
        "i": -3,
        "e": "",
        "n": InferParameter(),
        "m": InferParameter(int64_param=0),
        "": 1,
    }
    some = [InferOutput("y", [1], "UINT8", [1], parameters)]
    response = InferResponse("", "m" * 300, some, "3", parameters=parameters)
    message = ModelInferResponse.FromString(response_bytes(response))
    assert message == response.to_grpc()
    assert message.parameters["i"].int64_param == -3


@pytest.mark.parametrize(
    ("output", "parameters", "text"),
    [
        (InferOutput("y", [1], "FP32"), None, "output data is not a List"),
        (InferOutput("y", [1], "FP32", (1,)), None, "output data is not a List"),
        (InferOutput("y", [1], "BF16", [1]), None, "to_grpc: invalid output datatype"),
        (InferOutput("y", [1], "FP32", [1]), {"p": 1.5}, "to_grpc: invalid parameter value: 1.5"),
        (InferOutput("y", [1], "FP32", [1]), {"p": 2**63}, "to_grpc: invalid parameter value: 9223372036854775808"),
    ],
)
def test_s48_encoder_rejects_invalid_outputs(output: Any, parameters: Any, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        response_bytes(InferResponse("1", "m", [output], parameters=parameters))
    assert str(caught.value) == text


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_varints_round_trip(values: list[int]) -> None:
    data = encoded(np.array(values, dtype=np.uint64))
    assert data == b"".join(map(number, values))
    assert decoded(data).tolist() == values


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_negative_varints_use_64_bits(values: list[int]) -> None:
    data = encoded(np.array(values, dtype=np.int64))
    assert data == b"".join(number(value & 2**64 - 1) for value in values)
    assert decoded(data).astype(np.int64).tolist() == values


@pytest.mark.parametrize(
    ("data", "text"), [(b"\x01\x80", "truncated"), (b"\x80", "truncated"), (b"\xff" * 11 + b"\1", "ten")]
)
def test_invalid_varints_are_rejected(data: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        decoded(data)
