"""InferInput, InferOutput and RequestedOutput: rows S19 to S36, and R10."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from penstock.compat.kserve import InferInput, InferOutput
from penstock.compat.kserve.errors import InferenceError, InvalidInput
from penstock.compat.kserve.protocol._arrays import Shown
from penstock.compat.kserve.protocol.infer_type import RequestedOutput
from penstock.compat.kserve.utils.numpy_codec import to_np_dtype

VALUES: dict[str, list[Any]] = {
    "BOOL": [True, False],
    "INT8": [-1, 2],
    "INT16": [-1, 2],
    "INT32": [-1, 2],
    "INT64": [-(2**60), 2],
    "UINT8": [1, 255],
    "UINT16": [1, 2],
    "UINT32": [1, 2**32 - 1],
    "UINT64": [1, 2**64 - 1],
    "FP16": [1.5, 2.0],
    "FP32": [0.5, 2.0],
    "FP64": [1.1, 2.0],
    "BYTES": ["a", "é"],
}
BOTH = pytest.mark.parametrize("kind", [InferInput, InferOutput])
TYPES = pytest.mark.parametrize("datatype", VALUES)


def array(datatype: str) -> np.ndarray[Any, Any]:
    return np.array(VALUES[datatype], dtype=to_np_dtype(datatype))


def filled(kind: Any, datatype: str, *, binary: bool = True, parameters: Any = None) -> Any:
    tensor = kind("x", [2], datatype, parameters=parameters)
    tensor.set_data_from_numpy(array(datatype), binary_data=binary)
    return tensor


@BOTH
def test_s24_s33_constructor_values_are_retained(kind: Any) -> None:
    tensor = kind("x", [1, 2], "fp32", [[1, 2]], {"k": 1})
    assert (tensor.name, tensor.shape, tensor.datatype, tensor.data, tensor.parameters) == (
        *("x", [1, 2], "FP32", [[1, 2]]),
        {"k": 1},
    )
    named = kind(name="x", shape=[1, 2], datatype="FP32", data=[[1, 2]], parameters={"k": 1})
    assert tensor == named
    assert kind("x", [1], "FP32").data is None
    assert kind("x", [1], "FP32").parameters is None


@BOTH
def test_s20_s21_s29_s30_name_and_datatype_are_read_only(kind: Any) -> None:
    tensor = kind("x", [1], "Fp32", [1])
    assert tensor.datatype == "FP32"
    for name in ("name", "datatype"):
        with pytest.raises(AttributeError):
            setattr(tensor, name, "y")


@BOTH
def test_s19_s28_data_is_a_list_array_or_none(kind: Any) -> None:
    values = np.zeros(2, np.float32)
    assert kind("x", [2], "FP32", values).data is values
    tensor = filled(kind, "FP32")
    assert tensor.data is None
    assert tensor._raw_data == array("FP32").tobytes()
    tensor.data = [7, 8]
    assert tensor.as_numpy().tolist() == [7, 8]
    assert tensor._raw_data is None


@BOTH
def test_s22_s31_parameters_can_be_set(kind: Any) -> None:
    tensor = kind("x", [1], "FP32", [1])
    tensor.parameters = {"a": True}
    assert tensor.parameters == {"a": True}


@BOTH
def test_s23_s27_s32_s36_d7_shape_is_a_settable_list(kind: Any) -> None:
    tensor = kind("x", [2], "FP32", [1, 2])
    assert tensor.shape == [2]
    tensor.set_shape([2, 1])
    assert tensor.as_numpy().shape == (2, 1)
    tensor.shape = [1, 2]
    assert tensor.as_numpy().shape == (1, 2)
    raw = filled(kind, "FP32")
    raw.shape = [1, 2]
    assert raw.as_numpy().tolist() == [[0.5, 2]]


@BOTH
@TYPES
def test_s25_s34_as_numpy_of_lists(kind: Any, datatype: str) -> None:
    expected = array(datatype)
    for data, shape in [(VALUES[datatype], [2]), ([VALUES[datatype]], [1, 2]), (VALUES[datatype], [2, 1])]:
        result = kind("x", shape, datatype.lower(), data).as_numpy()
        assert result.dtype == expected.dtype
        assert np.array_equal(result, expected.reshape(shape))
        assert result.flags.writeable


@BOTH
@TYPES
def test_s25_s34_as_numpy_of_raw_bytes(kind: Any, datatype: str) -> None:
    raw = filled(kind, datatype)._raw_data
    tensor = kind("x", [2, 1], datatype)
    tensor._raw_data = raw
    result = tensor.as_numpy()
    expected = array(datatype)
    if datatype == "BYTES":
        expected = np.array([text.encode() for text in VALUES[datatype]], dtype=object)
    assert result.dtype == expected.dtype
    assert np.array_equal(result, expected.reshape(2, 1))
    assert result.flags.writeable == (datatype == "BYTES")


def test_s25_s34_as_numpy_rejects_unknown_datatypes() -> None:
    with pytest.raises(InvalidInput, match=r"^invalid datatype None in the input$"):
        InferInput("x", [1], "BF16", [1]).as_numpy()
    with pytest.raises(InvalidInput, match=r"^invalid datatype in the input$"):
        InferOutput("x", [1], "BF16", [1]).as_numpy()


@pytest.mark.parametrize(
    ("datatype", "data", "shape"),
    [("FP32", [1, 2], [3]), ("FP32", ["x"], [1]), ("UINT8", [-300], [1]), ("FP32", None, [2])],
)
def test_s25_invalid_elements_are_a_client_error(datatype: str, data: Any, shape: list[int]) -> None:
    with pytest.raises(InvalidInput, match=r"^input 'x': "):
        InferInput("x", shape, datatype, data).as_numpy()


def test_s34_invalid_output_elements_are_a_model_error() -> None:
    with pytest.raises(ValueError, match="cannot reshape") as caught:
        InferOutput("x", [3], "FP32", [1, 2]).as_numpy()
    assert not isinstance(caught.value, InvalidInput)


def test_s25_nulls_become_nan_and_floats_are_truncated() -> None:
    assert np.isnan(InferInput("x", [1], "FP32", [None]).as_numpy()).all()
    assert InferInput("x", [1], "INT32", [1.7]).as_numpy().tolist() == [1]


def test_s25_as_numpy_returns_an_independent_copy() -> None:
    tensor = InferInput._holding("x", "FP32", np.ones(2, np.float32), None, Shown.JSON)
    tensor.as_numpy()[:] = 5
    assert tensor.data == [1, 1]


@BOTH
@TYPES
@pytest.mark.parametrize("binary", [True, False])
def test_s26_s35_set_data_from_numpy(kind: Any, datatype: str, binary: bool) -> None:
    tensor = filled(kind, datatype, binary=binary, parameters={"binary_data_size": 99, "k": 1})
    flat = array(datatype)
    if binary:
        elements = [text.encode() for text in VALUES["BYTES"]]
        framed = b"".join(len(one).to_bytes(4, "little") + one for one in elements)
        assert tensor._raw_data == (framed if datatype == "BYTES" else flat.tobytes())
        assert tensor.data is None
        assert tensor.parameters == {"binary_data_size": len(tensor._raw_data), "k": 1}
    else:
        assert tensor._raw_data is None
        assert tensor.data == flat.tolist()
        assert [type(one) for one in tensor.data] == [type(one) for one in flat.tolist()]
        assert tensor.parameters == {"k": 1}


@BOTH
@pytest.mark.parametrize("binary", [True, False])
def test_s26_s35_arrays_are_copied(kind: Any, binary: bool) -> None:
    values = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    tensor = kind("x", [2, 3], "FP32")
    tensor.set_data_from_numpy(values, binary_data=binary)
    values[:] = -1
    assert tensor.as_numpy().ravel().tolist() == [0, 1, 2, 3, 4, 5]
    assert tensor._outgoing().flags.c_contiguous


@BOTH
def test_s26_s35_invalid_arrays_are_rejected(kind: Any) -> None:
    for values, shape, text in [
        ([1], [1], "input_tensor must be a numpy array"),
        (np.zeros(1), [1], "got unexpected datatype FP64 from numpy array, expected FP32"),
        (np.zeros(1, complex), [1], "got unexpected datatype None from numpy array, expected FP32"),
        (np.zeros((3, 2), np.float32), [2, 3], "got unexpected numpy array shape [3, 2], expected [2, 3]"),
        (np.zeros(3, np.float32), [2], "got unexpected numpy array shape [3,], expected [2]"),
    ]:
        with pytest.raises(InferenceError) as caught:
            kind("x", shape, "FP32").set_data_from_numpy(values)
        assert str(caught.value) == text


@BOTH
def test_s26_s35_non_utf8_bytes_are_rejected_as_json(kind: Any) -> None:
    values = np.array([b"\xff"], dtype=object)
    text = "Please use binary_data=True, if you want to pass a byte array."
    with pytest.raises(InferenceError, match=rf'^Failed to encode "b\'\\xff\'" using UTF-8. {text}$'):
        kind("x", [1], "BYTES").set_data_from_numpy(values, binary_data=False)
    raw = kind("x", [1], "BYTES")
    raw.set_data_from_numpy(values)
    assert raw.as_numpy().tolist() == [b"\xff"]


@BOTH
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([b"a", b"b"]), ["a", "b"]),
        (np.array([b"a", "b"], dtype=object), ["a", "b"]),
        (np.array([1, 2.5], dtype=object), ["1", "2.5"]),
        (np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"), ["2020-01-01", "2020-01-02"]),
    ],
)
def test_s26_s35_text_bytes_and_dates_are_stored_as_bytes(
    kind: Any, binary: bool, values: Any, expected: list[str]
) -> None:
    tensor = kind("x", [2], "BYTES")
    tensor.set_data_from_numpy(values, binary_data=binary)
    assert tensor.as_numpy().tolist() == ([text.encode() for text in expected] if binary else expected)


@BOTH
@TYPES
def test_raw_and_json_data_convert_both_ways(kind: Any, datatype: str) -> None:
    tensor = filled(kind, datatype)
    tensor.set_data_from_numpy(tensor.as_numpy(), binary_data=False)
    assert (tensor.data, tensor._raw_data, tensor.parameters) == (VALUES[datatype], None, {})
    tensor.set_data_from_numpy(tensor.as_numpy())
    assert tensor == filled(kind, datatype)


@BOTH
def test_tensors_compare_by_value(kind: Any) -> None:
    one = kind("x", [1], "FP32", [1])
    assert one == kind("x", [1], "FP32", [1])
    assert kind("x", [1], "FP32", np.ones(1)) == kind("x", [1], "FP32", np.ones(1))
    others = [("y", [1], "FP32", [1]), ("x", [2], "FP32", [1]), ("x", [1], "FP64", [1]), ("x", [1], "FP32", [2])]
    assert all(one != kind(*other) for other in others)
    assert one != kind("x", [1], "FP32", [1], {})
    assert filled(kind, "FP32") == filled(kind, "FP32")
    assert filled(kind, "FP32") != filled(kind, "FP32", binary=False)
    assert InferInput("x", [1], "FP32", [1]) != InferOutput("x", [1], "FP32", [1])


@BOTH
def test_tensor_to_dict_and_str(kind: Any) -> None:
    tensor = kind("x", [1], "FP32", [1], {"k": 1})
    assert tensor.to_dict() == {"name": "x", "shape": [1], "datatype": "FP32", "data": [1], "parameters": {"k": 1}}
    assert str(tensor) == '"name": "x","shape": [1],"datatype": "FP32","data": [1],"parameters": {\'k\': 1}'


@BOTH
def test_tensors_can_be_pickled(kind: Any) -> None:
    for tensor in (kind("x", [1], "FP32", [1], {"k": 1}), filled(kind, "BYTES"), filled(kind, "FP32", binary=False)):
        assert pickle.loads(pickle.dumps(tensor)) == tensor


@pytest.mark.parametrize("data", [[b"a", b"b"], ["a", "b"], [[b"a", b"b"]], [["a"], ["b"]]])
def test_as_string_accepts_all_forms(data: list[Any]) -> None:
    assert InferInput("x", [2], "BYTES", data).as_string() == ["a", "b"]


def test_as_string_decodes_raw_bytes_and_rejects_invalid_text() -> None:
    assert filled(InferInput, "BYTES").as_string() == ["a", "é"]
    with pytest.raises(InvalidInput, match=r"^invalid datatype FP32 in the input$"):
        InferInput("x", [1], "FP32", [1]).as_string()
    with pytest.raises(InvalidInput, match=r"^an element of input 'x' is not UTF-8: invalid start byte$"):
        InferInput("x", [1], "BYTES", [b"\xff"]).as_string()


def server_tensor(datatype: str, form: Shown) -> Any:
    values = array(datatype)
    if datatype == "BYTES":
        values = np.array([text.encode() for text in VALUES[datatype]], dtype=object)
    return InferInput._holding("x", datatype, values.reshape(1, 2), None, form)


@TYPES
def test_server_tensors_have_the_data_form_of_the_request(datatype: str) -> None:
    values = VALUES[datatype]
    assert server_tensor(datatype, Shown.JSON).data == values
    assert server_tensor(datatype, Shown.NESTED).data == [values]
    assert server_tensor(datatype, Shown.LIST).data == values
    as_bytes = [text.encode() for text in values] if datatype == "BYTES" else values
    assert server_tensor(datatype, Shown.TYPED).data == as_bytes
    raw = server_tensor(datatype, Shown.RAW)
    assert raw.data == []
    assert raw._raw_data == filled(InferInput, datatype)._raw_data
    assert raw.as_numpy().tolist() == [as_bytes]
    for form in Shown:
        tensor = server_tensor(datatype, form)
        assert tensor.shape == [1, 2]
        assert tensor.as_numpy().shape == (1, 2)
        assert tensor.as_numpy().dtype == array(datatype).dtype


def test_json_numbers_round_trip_unchanged() -> None:
    sent = [1.1, 0.1, 16777216, 1.17549435e-38, 3.4028235e38, 0.3333333433, 8388609.0, 9.8e-9]
    values = np.array([*sent, np.nan], dtype=np.float32)
    numbers = InferInput._holding("x", "FP32", values, None, Shown.JSON).data
    assert numbers[:2] == [1.1, 0.1]
    assert numbers[-1] is None
    assert np.array_equal(np.array(numbers[:-1], np.float32), values[:-1])
    assert [repr(one) for one in numbers[:-1]] == [repr(float(str(one))) for one in values[:-1]]
    values = np.array([1.1, 0.1], dtype=np.float32)
    assert InferInput._holding("x", "FP32", values, None, Shown.LIST).data == values.tolist() != [1.1, 0.1]


def test_non_utf8_bytes_stay_bytes() -> None:
    tensor = InferInput._holding("x", "BYTES", np.array([b"a", b"\xff"], dtype=object), None, Shown.LIST)
    assert tensor.data == [b"a", b"\xff"]


def test_tensor_data_list_is_mutable() -> None:
    tensor = InferInput._holding("x", "FP32", np.zeros((1, 2), np.float32))
    tensor.data[0] = 5
    assert tensor.as_numpy().tolist() == [[5, 0]]
    assert tensor.shape == [1, 2]


def test_output_arrays_are_sent_without_conversion_to_lists() -> None:
    values = np.ones((2, 1), np.float32)
    assert InferOutput("y", [2, 1], "FP32", values)._outgoing() is values
    assert InferOutput("y", [2, 1], "FP32", [1, 2])._outgoing().tolist() == [[1], [2]]
    text = InferOutput("y", [2], "BYTES", np.array(["a", 3], dtype=object))._outgoing()
    assert text.tolist() == [b"a", b"3"]
    with pytest.raises(InvalidInput, match=r"^'data' field is missing for output 'y'$"):
        InferOutput("y", [2], "FP32")._outgoing()
    with pytest.raises(InferenceError, match=r"^got unexpected datatype FP64 from numpy array, expected FP32$"):
        InferOutput("y", [1], "FP32", np.ones(1))._outgoing()


def test_r10_requested_output_attributes_and_equality() -> None:
    requested = RequestedOutput("y", {"binary_data": True})
    assert (requested.name, requested.parameters, requested.binary_data) == ("y", {"binary_data": True}, True)
    assert RequestedOutput("y", {"binary_data": False}).binary_data is False
    assert RequestedOutput("y").binary_data is None
    assert RequestedOutput("y") == RequestedOutput("y") != requested
    assert RequestedOutput("y") != RequestedOutput("z")
    assert str(requested) == "RequestedOutput(name=y, parameters={'binary_data': True})"
