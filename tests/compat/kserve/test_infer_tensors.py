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
def test_s20_s21_s29_s30_name_and_datatype_stay(kind: Any) -> None:
    tensor = kind("x", [1], "Fp32", [1])
    assert tensor.datatype == "FP32"
    for name in ("name", "datatype"):
        with pytest.raises(AttributeError):
            setattr(tensor, name, "y")


@BOTH
def test_s19_s28_data_is_a_list_an_array_or_none(kind: Any) -> None:
    given = np.zeros(2, np.float32)
    assert kind("x", [2], "FP32", given).data is given
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
def test_s23_s27_s32_s36_d7_the_shape_is_a_list_and_can_be_set_in_both_ways(kind: Any) -> None:
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
        found = kind("x", shape, datatype.lower(), data).as_numpy()
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected.reshape(shape))
        assert found.flags.writeable


@BOTH
@TYPES
def test_s25_s34_as_numpy_of_raw_bytes(kind: Any, datatype: str) -> None:
    raw = filled(kind, datatype)._raw_data
    tensor = kind("x", [2, 1], datatype)
    tensor._raw_data = raw
    found = tensor.as_numpy()
    expected = array(datatype)
    if datatype == "BYTES":
        expected = np.array([text.encode() for text in VALUES[datatype]], dtype=object)
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected.reshape(2, 1))
    assert found.flags.writeable == (datatype == "BYTES")


def test_s25_s34_as_numpy_of_an_unknown_type() -> None:
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


def test_s34_elements_that_do_not_make_an_output_are_the_models() -> None:
    with pytest.raises(ValueError, match="cannot reshape") as caught:
        InferOutput("x", [3], "FP32", [1, 2]).as_numpy()
    assert not isinstance(caught.value, InvalidInput)


def test_s25_nulls_are_nan_and_floats_are_cut() -> None:
    assert np.isnan(InferInput("x", [1], "FP32", [None]).as_numpy()).all()
    assert InferInput("x", [1], "INT32", [1.7]).as_numpy().tolist() == [1]


def test_s25_as_numpy_gives_a_copy_that_changes_nothing() -> None:
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
    given = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    tensor = kind("x", [2, 3], "FP32")
    tensor.set_data_from_numpy(given, binary_data=binary)
    given[:] = -1
    assert tensor.as_numpy().ravel().tolist() == [0, 1, 2, 3, 4, 5]
    assert tensor._outgoing().flags.c_contiguous


@BOTH
def test_s26_s35_invalid_arrays(kind: Any) -> None:
    for given, shape, text in [
        ([1], [1], "input_tensor must be a numpy array"),
        (np.zeros(1), [1], "got unexpected datatype FP64 from numpy array, expected FP32"),
        (np.zeros(1, complex), [1], "got unexpected datatype None from numpy array, expected FP32"),
        (np.zeros((3, 2), np.float32), [2, 3], "got unexpected numpy array shape [3, 2], expected [2, 3]"),
        (np.zeros(3, np.float32), [2], "got unexpected numpy array shape [3,], expected [2]"),
    ]:
        with pytest.raises(InferenceError) as caught:
            kind("x", shape, "FP32").set_data_from_numpy(given)
        assert str(caught.value) == text


@BOTH
def test_s26_s35_bytes_that_are_not_utf8_are_no_json(kind: Any) -> None:
    given = np.array([b"\xff"], dtype=object)
    text = "Please use binary_data=True, if you want to pass a byte array."
    with pytest.raises(InferenceError, match=rf'^Failed to encode "b\'\\xff\'" using UTF-8. {text}$'):
        kind("x", [1], "BYTES").set_data_from_numpy(given, binary_data=False)
    raw = kind("x", [1], "BYTES")
    raw.set_data_from_numpy(given)
    assert raw.as_numpy().tolist() == [b"\xff"]


@BOTH
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([b"a", b"b"]), ["a", "b"]),
        (np.array([b"a", "b"], dtype=object), ["a", "b"]),
        (np.array([1, 2.5], dtype=object), ["1", "2.5"]),
        (np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"), ["2020-01-01", "2020-01-02"]),
    ],
)
def test_s26_s35_texts_bytes_and_times_are_bytes(kind: Any, binary: bool, given: Any, expected: list[str]) -> None:
    tensor = kind("x", [2], "BYTES")
    tensor.set_data_from_numpy(given, binary_data=binary)
    assert tensor.as_numpy().tolist() == ([text.encode() for text in expected] if binary else expected)


@BOTH
@TYPES
def test_from_raw_to_json_and_back(kind: Any, datatype: str) -> None:
    tensor = filled(kind, datatype)
    tensor.set_data_from_numpy(tensor.as_numpy(), binary_data=False)
    assert (tensor.data, tensor._raw_data, tensor.parameters) == (VALUES[datatype], None, {})
    tensor.set_data_from_numpy(tensor.as_numpy())
    assert tensor == filled(kind, datatype)


@BOTH
def test_tensors_are_the_same_if_all_is_the_same(kind: Any) -> None:
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
def test_the_repr_of_a_tensor(kind: Any) -> None:
    tensor = kind("x", [1], "FP32", [1], {"k": 1})
    assert tensor.to_dict() == {"name": "x", "shape": [1], "datatype": "FP32", "data": [1], "parameters": {"k": 1}}
    assert str(tensor) == '"name": "x","shape": [1],"datatype": "FP32","data": [1],"parameters": {\'k\': 1}'


@BOTH
def test_tensors_go_to_other_processes(kind: Any) -> None:
    for tensor in (kind("x", [1], "FP32", [1], {"k": 1}), filled(kind, "BYTES"), filled(kind, "FP32", binary=False)):
        assert pickle.loads(pickle.dumps(tensor)) == tensor


@pytest.mark.parametrize("data", [[b"a", b"b"], ["a", "b"], [[b"a", b"b"]], [["a"], ["b"]]])
def test_as_string_accepts_all_forms(data: list[Any]) -> None:
    assert InferInput("x", [2], "BYTES", data).as_string() == ["a", "b"]


def test_as_string_of_raw_bytes_and_of_invalid_text() -> None:
    assert filled(InferInput, "BYTES").as_string() == ["a", "é"]
    with pytest.raises(InvalidInput, match=r"^invalid datatype FP32 in the input$"):
        InferInput("x", [1], "FP32", [1]).as_string()
    with pytest.raises(InvalidInput, match=r"^an element of input 'x' is not UTF-8: invalid start byte$"):
        InferInput("x", [1], "BYTES", [b"\xff"]).as_string()


def held(datatype: str, shown: Shown) -> Any:
    given = array(datatype)
    if datatype == "BYTES":
        given = np.array([text.encode() for text in VALUES[datatype]], dtype=object)
    return InferInput._holding("x", datatype, given.reshape(1, 2), None, shown)


@TYPES
def test_server_tensors_have_the_requests_form(datatype: str) -> None:
    values = VALUES[datatype]
    assert held(datatype, Shown.JSON).data == values
    assert held(datatype, Shown.NESTED).data == [values]
    assert held(datatype, Shown.LIST).data == values
    as_bytes = [text.encode() for text in values] if datatype == "BYTES" else values
    assert held(datatype, Shown.TYPED).data == as_bytes
    raw = held(datatype, Shown.RAW)
    assert raw.data == []
    assert raw._raw_data == filled(InferInput, datatype)._raw_data
    assert raw.as_numpy().tolist() == [as_bytes]
    for shown in Shown:
        tensor = held(datatype, shown)
        assert tensor.shape == [1, 2]
        assert tensor.as_numpy().shape == (1, 2)
        assert tensor.as_numpy().dtype == array(datatype).dtype


def test_json_numbers_are_unchanged() -> None:
    sent = [1.1, 0.1, 16777216, 1.17549435e-38, 3.4028235e38, 0.3333333433, 8388609.0, 9.8e-9]
    given = np.array([*sent, np.nan], dtype=np.float32)
    shown = InferInput._holding("x", "FP32", given, None, Shown.JSON).data
    assert shown[:2] == [1.1, 0.1]
    assert shown[-1] is None
    assert np.array_equal(np.array(shown[:-1], np.float32), given[:-1])
    assert [repr(one) for one in shown[:-1]] == [repr(float(str(one))) for one in given[:-1]]
    given = np.array([1.1, 0.1], dtype=np.float32)
    assert InferInput._holding("x", "FP32", given, None, Shown.LIST).data == given.tolist() != [1.1, 0.1]


def test_bytes_that_are_not_utf8_stay_bytes() -> None:
    tensor = InferInput._holding("x", "BYTES", np.array([b"a", b"\xff"], dtype=object), None, Shown.LIST)
    assert tensor.data == [b"a", b"\xff"]


def test_a_tensors_list_may_be_changed() -> None:
    tensor = InferInput._holding("x", "FP32", np.zeros((1, 2), np.float32))
    tensor.data[0] = 5
    assert tensor.as_numpy().tolist() == [[5, 0]]
    assert tensor.shape == [1, 2]


def test_an_output_goes_out_without_a_list() -> None:
    given = np.ones((2, 1), np.float32)
    assert InferOutput("y", [2, 1], "FP32", given)._outgoing() is given
    assert InferOutput("y", [2, 1], "FP32", [1, 2])._outgoing().tolist() == [[1], [2]]
    text = InferOutput("y", [2], "BYTES", np.array(["a", 3], dtype=object))._outgoing()
    assert text.tolist() == [b"a", b"3"]
    with pytest.raises(InvalidInput, match=r"^'data' field is missing for output 'y'$"):
        InferOutput("y", [2], "FP32")._outgoing()
    with pytest.raises(InferenceError, match=r"^got unexpected datatype FP64 from numpy array, expected FP32$"):
        InferOutput("y", [1], "FP32", np.ones(1))._outgoing()


def test_r10_a_requested_output() -> None:
    asked = RequestedOutput("y", {"binary_data": True})
    assert (asked.name, asked.parameters, asked.binary_data) == ("y", {"binary_data": True}, True)
    assert RequestedOutput("y", {"binary_data": False}).binary_data is False
    assert RequestedOutput("y").binary_data is None
    assert RequestedOutput("y") == RequestedOutput("y") != asked
    assert RequestedOutput("y") != RequestedOutput("z")
    assert str(asked) == "RequestedOutput(name=y, parameters={'binary_data': True})"
