"""Inputs of `infer`: I-03 to I-08."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inferless_apps import AppClient, app_class, served, tensor, write_app

from penstock import InvalidInput
from penstock.compat.inferless._app.input_reader import InputReader
from penstock.compat.inferless._request import InputTensor
from penstock.compat.inferless._spec.schema import Schema, SchemaError, Tensor, read_inputs

ECHO = app_class(
    """
    def infer(self, inputs):
        import json
        def kind(value):
            return [kind(one) for one in value] if type(value) is list else type(value).__name__
        return {"inputs": json.dumps({name: [kind(one), one] for name, one in inputs.items()})}
    """
)

RANGES = {
    "BOOL": [True, False],
    **{f"UINT{bits}": [0, 2**bits - 1] for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1] for bits in (8, 16, 32, 64)},
    **{"FP16": [-65504.0, 0.5], "FP32": [-1.5, 2.0**100], "FP64": [-1.5, 1e300], "BF16": [-1.5, 2.0]},
    **{"BYTES": ["", "aü€"], "STRING": ["", "aü€"]},
}


def declared(**inputs: tuple[str, list[int]]) -> str:
    return "INPUT_SCHEMA = " + repr(
        {name: {"datatype": one[0], "shape": one[1], "required": True} for name, one in inputs.items()}
    )


def received_inputs(api: AppClient, *tensors: dict[str, Any]) -> dict[str, Any]:
    inputs: dict[str, Any] = json.loads(api.data(*tensors)[0])
    return inputs


def test_i03_minimum_and_maximum_of_each_datatype(tmp_path: Path) -> None:
    home = write_app(tmp_path, ECHO, declared(**{name.lower(): (name, [-1]) for name in RANGES}))
    with served(home) as api:
        sent = [tensor(name.lower(), name, values) for name, values in RANGES.items()]
        inputs = received_inputs(api, *sent)
    kinds = {"BOOL": "bool", "BYTES": "str", "STRING": "str"}
    for name, values in RANGES.items():
        kind = kinds.get(name, "float" if "F" in name else "int")
        assert inputs[name.lower()] == [[kind, kind], values], name


@pytest.mark.parametrize("declared_type", ["STRING", "BYTES", "string"])
def test_i03_string_and_bytes_are_equivalent(declared_type: str) -> None:
    inputs = read_inputs({"x": {"datatype": declared_type, "shape": [1]}})
    assert inputs[0].datatype == "BYTES"
    for sent in ("STRING", "BYTES", None):
        assert InputReader(Schema(inputs)).read([InputTensor("x", ["a"], sent, (1,))]) == {"x": "a"}


def test_i04_declared_shapes_give_scalars_and_lists(tmp_path: Path) -> None:
    schema = declared(one=("INT64", [1]), two=("INT32", [2]), many=("STRING", [-1]), grid=("FP32", [2, -1]))
    with served(write_app(tmp_path, ECHO, schema)) as api:
        inputs = received_inputs(
            api,
            tensor("one", "INT64", 5),
            tensor("two", "INT32", [1, 2]),
            tensor("many", "BYTES", ["a", "b", "c"]),
            tensor("grid", "FP32", [1, 2, 3, 4, 5, 6], [2, 3]),
        )
    assert inputs == {
        "one": ["int", 5],
        "two": [["int", "int"], [1, 2]],
        "many": [["str"] * 3, ["a", "b", "c"]],
        "grid": [[["float"] * 3] * 2, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]],
    }


def test_i04_option_numpy_inputs_gives_arrays(tmp_path: Path) -> None:
    app = app_class("def infer(self, inputs): return {n: type(v).__name__ for n, v in inputs.items()}")
    schema = declared(one=("INT8", [1]), many=("FP32", [-1]), text=("STRING", [1]))
    with served(write_app(tmp_path, app, schema), numpy_inputs=True) as api:
        outputs = api.outputs(tensor("one", "INT8", 1), tensor("many", "FP32", [1, 2]), tensor("text", "BYTES", "a"))
    assert {name: one[2][0] for name, one in outputs.items()} == {"one": "int8", "many": "ndarray", "text": "str"}


def test_i05_missing_and_unknown_inputs_are_rejected(tmp_path: Path) -> None:
    schema = (
        'INPUT_SCHEMA = {"must": {"datatype": "STRING", "shape": [1]}, "may": {"datatype": "INT8", "required": False}}'
    )
    with served(write_app(tmp_path, ECHO, schema)) as api:
        must = tensor("must", "BYTES", "a")
        assert received_inputs(api, must) == {"must": ["str", "a"]}
        assert received_inputs(api, must, tensor("may", "INT8", 3))["may"] == ["int", 3]
        assert api.error_of() == (400, "input 'must' is missing, expected BYTES of shape [1]")
        unknown = api.error_of(must, tensor("other", "INT8", 3))
        assert unknown == (400, "unexpected input 'other', expected 'must', 'may'")


GRID = InputReader(Schema((Tensor("x", "INT64", (2, 2)),)))


@pytest.mark.parametrize("data", [[1, 2, 3, 4], [[1, 2], [3, 4]]])
def test_i06_flat_and_nested_data_are_equivalent(tmp_path: Path, data: list[Any]) -> None:
    assert GRID.read([InputTensor("x", data, "INT64", (2, 2))]) == {"x": [[1, 2], [3, 4]]}
    with served(write_app(tmp_path, ECHO, declared(x=("INT64", [2, 2])))) as api:
        assert received_inputs(api, tensor("x", "INT64", data, [2, 2]))["x"][1] == [[1, 2], [3, 4]]
        response = api.post("infer", {"parameters": {"x": [[1, 2], [3, 4]]}})
        assert response.status == 200


def test_i06_text_columns_are_lists_of_rows(tmp_path: Path) -> None:
    reader = InputReader(Schema((Tensor("x", "BYTES", (-1, 1)),)))
    assert reader.read([InputTensor("x", [["a"], ["b"]], "BYTES", (2, 1))]) == {"x": [["a"], ["b"]]}


def test_i06_wrong_number_of_elements_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"input 'x' has 3 elements in 'data', shape \[2, 2\] expects 4"):
        GRID.read([InputTensor("x", [1, 2, 3], "INT64", (2, 2))])
    with served(write_app(tmp_path, ECHO, declared(x=("INT64", [2, 2])))) as api:
        assert api.error_of(tensor("x", "INT64", [1, 2, 3], [2, 2]))[0] == 400


def test_wrong_shapes_are_rejected(tmp_path: Path) -> None:
    with served(write_app(tmp_path, ECHO, declared(x=("INT64", [1]), y=("INT64", [2])))) as api:
        one, two = tensor("x", "INT64", 1), tensor("y", "INT64", [1, 2])
        assert api.error_of(tensor("x", "INT64", [1, 2, 3]), two) == (
            400,
            "input 'x' has shape [3], expected 1 element",
        )
        assert api.error_of(one, tensor("y", "INT64", [1, 2, 3])) == (
            400,
            "input 'y' has shape [3], expected shape [2]",
        )
        assert received_inputs(api, tensor("x", "INT64", [1], [1, 1]), tensor("y", "INT64", [1, 2], [1, 2]))["y"][
            1
        ] == [1, 2]


SEED = '{"shape": {"datatype": "INT8", "shape": [2], "required": True, "example": [512, 1]}}'


def test_i07_out_of_range_vendor_sample_causes_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = InputReader(Schema(read_inputs(json.loads(SEED.replace("True", "true")))))
    for _ in range(3):
        assert reader.read([InputTensor("shape", [512, 1], "INT8", (2,))]) == {"shape": [512, 1]}
    (message,) = [one.getMessage() for one in caplog.records if "512" in one.getMessage()]
    assert message.startswith("input 'shape' has 512, INT8 takes integers from -128 to 127")
    with served(write_app(tmp_path, ECHO, f"INPUT_SCHEMA = {SEED}")) as api:
        assert api.post("infer", {"inputs": [tensor("shape", "INT8", [512, 1])]}).status == 200


def test_i07_strict_rejects_out_of_range_values(tmp_path: Path) -> None:
    with served(write_app(tmp_path, ECHO, f"INPUT_SCHEMA = {SEED}"), strict=True) as api:
        response = api.post("infer", {"inputs": [tensor("shape", "INT8", [512, 1])]})
        message = "input 'shape' has 512, INT8 takes integers from -128 to 127"
        assert (response.status, response.error()) == (400, message)


FAMILY = {"INT64": "int", "INT32": "int", "UINT8": "int", "FP64": "float", "FP32": "float", "FP16": "float"}
SENT: dict[str, Any] = {**dict.fromkeys(FAMILY, 1), "BOOL": True, "BYTES": "a"}


@pytest.mark.parametrize("expected", ["INT32", "FP32", "BOOL", "BYTES"])
@pytest.mark.parametrize("sent", SENT)
def test_i08_only_datatypes_of_one_family_are_converted(expected: str, sent: str) -> None:
    reader = InputReader(Schema((Tensor("x", expected, (1,)),)))
    same = FAMILY.get(sent, sent) == FAMILY.get(expected, expected) or (
        expected == "BOOL" and FAMILY.get(sent) == "int"
    )
    if same:
        value = reader.read([InputTensor("x", [SENT[sent]], sent, (1,))])["x"]
        assert type(value) is {"INT32": int, "FP32": float, "BOOL": bool, "BYTES": str}[expected]
    else:
        with pytest.raises(InvalidInput, match=f"input 'x' has datatype {sent}, expected {expected}"):
            reader.read([InputTensor("x", [SENT[sent]], sent, (1,))])


@pytest.mark.parametrize(
    ("expected", "value", "problem"),
    [
        ("INT32", 1.5, "has 1.5, INT32 takes an integer"),
        ("INT32", "1", "has '1', INT32 takes an integer"),
        ("INT32", True, "has True, INT32 takes an integer"),
        ("FP32", "1", "has '1', FP32 takes a number"),
        ("FP32", True, "has True, FP32 takes a number"),
        ("BOOL", 2, "has 2, BOOL takes true or false"),
        ("BYTES", 2, "has 2, BYTES takes a string"),
        ("BYTES", {"a": 1}, "has an object, BYTES takes a string"),
        ("BYTES", b"\xff", "has a string that is not UTF-8, BYTES takes a string"),
    ],
)
def test_i08_values_of_another_type_are_rejected(expected: str, value: Any, problem: str) -> None:
    with pytest.raises(InvalidInput, match=f"input 'x' {problem}"):
        InputReader(Schema((Tensor("x", expected, (1,)),))).read([InputTensor("x", [value])])


def test_i08_integral_floats_are_accepted_as_integers() -> None:
    value = InputReader(Schema((Tensor("x", "INT32", (1,)),))).read([InputTensor("x", [3.0])])["x"]
    assert (type(value), value) == (int, 3)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ([], "INPUT_SCHEMA must be a dict of inputs by name, not a list"),
        ({"x": 1}, r"INPUT_SCHEMA\['x'\] must be a dict with 'datatype' and 'shape', not a int"),
        ({"x": {"shape": [1]}}, r"INPUT_SCHEMA\['x'\] has no 'datatype'"),
        ({"x": {"datatype": "INT7", "shape": [1]}}, "has the unknown datatype 'INT7', expected one of BOOL"),
        ({"x": {"datatype": "INT8"}}, r"'shape' must be a list such as \[1\] or \[-1\], not None"),
        ({"x": {"datatype": "INT8", "shape": []}}, "'shape' must be a list"),
        ({"x": {"datatype": "INT8", "shape": [-2]}}, "'shape' must be a list"),
        ({"x": {"datatype": "INT8", "shape": [1], "required": 1}}, "'required' must be True or False, not 1"),
    ],
)
def test_invalid_schemas_are_rejected(schema: Any, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        read_inputs(schema)


def test_numpy_scalars_keep_their_datatype() -> None:
    reader = InputReader(Schema((Tensor("x", "UINT8", (-1,)),)), as_numpy=True)
    assert reader.read([InputTensor("x", [1, 255])])["x"].dtype == np.uint8


PLAIN = {"i": ("INT8", 1), "f": ("FP32", 0.5), "t": ("BYTES", "a"), "b": ("BOOL", True)}


def body_tensor(name: str, **members: Any) -> dict[str, Any]:
    datatype, value = PLAIN[name]
    return {"name": name, "datatype": datatype, "shape": [1], "data": [value], **members}


def plain_reader(**options: bool) -> InputReader:
    declared = {name: {"datatype": of, "shape": [1], "required": name != "b"} for name, (of, _) in PLAIN.items()}
    return InputReader(Schema(read_inputs(declared)), **options)


def test_i04_fast_path_equals_the_slow_path() -> None:
    reader = plain_reader()
    for names in ("ift", "tfi", "iftb"):
        listed = [body_tensor(name) for name in names]
        fast = reader.read_plain(listed)
        assert fast == reader.read(InputTensor(one["name"], one["data"], one["datatype"], (1,)) for one in listed)
        assert list(fast) == list(names)
    assert plain_reader(as_numpy=True).read_plain([body_tensor(name) for name in "ift"]) is None


@pytest.mark.parametrize(
    "listed",
    [
        [body_tensor("i"), body_tensor("f")],  # one is missing
        [*map(body_tensor, "iftt")],
        [*map(body_tensor, "ift"), {**body_tensor("b"), "name": "other"}],
        [*map(body_tensor, "ft"), body_tensor("i", data=[True])],
        [*map(body_tensor, "ft"), body_tensor("i", data=[1.0])],
        [*map(body_tensor, "ft"), body_tensor("i", data=[512])],
        [*map(body_tensor, "ft"), body_tensor("i", datatype="INT64")],
        [*map(body_tensor, "it"), body_tensor("f", data=[1])],
        [*map(body_tensor, "if"), body_tensor("t", data=[1])],
        [*map(body_tensor, "if"), body_tensor("t", data="a")],
        [*map(body_tensor, "if"), body_tensor("t", data={"a": 1})],
        [*map(body_tensor, "if"), body_tensor("t", shape=[1, 1])],
        [*map(body_tensor, "if"), body_tensor("t", shape=[True])],
        [*map(body_tensor, "if"), body_tensor("t", shape=None)],
        [*map(body_tensor, "if"), body_tensor("t", data=["a", "b"], shape=[2])],
        [*map(body_tensor, "ift"), 3],
        [*map(body_tensor, "if"), {**body_tensor("t"), "name": ["t"]}],
    ],
)
def test_i04_other_values_use_the_slow_path(listed: list[Any]) -> None:
    assert plain_reader().read_plain(listed) is None
