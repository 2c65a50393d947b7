"""Outputs of `infer`: I-09 to I-11."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inferless_apps import app_class, served, write_app

from penstock import HandlerError
from penstock.compat.inferless._response import to_array, to_tensors
from penstock.compat.inferless._spec.schema import Schema, Tensor

KINDS: dict[str, tuple[str, str, list[int], list[Any]]] = {
    "str": ("'aü'", "BYTES", [1], ["aü"]),
    "bool": ("True", "BOOL", [1], [True]),
    "int": ("3", "INT64", [1], [3]),
    "big": ("2**63", "UINT64", [1], [2**63]),
    "float": ("0.5", "FP64", [1], [0.5]),
    "np scalar": ("np.float32(0.5)", "FP32", [1], [0.5]),
    "np bool": ("np.bool_(True)", "BOOL", [1], [True]),
    "np str": ("np.str_('a')", "BYTES", [1], ["a"]),
    "bytes": ("'aü'.encode()", "BYTES", [1], ["aü"]),
    "list": ("[1, 2]", "INT64", [2], [1, 2]),
    "mixed": ("[1, 0.5]", "FP64", [2], [1.0, 0.5]),
    "bools": ("[True, False]", "BOOL", [2], [True, False]),
    "texts": ("['a', 'b']", "BYTES", [2], ["a", "b"]),
    "grid": ("[[1, 2, 3], [4, 5, 6]]", "INT64", [2, 3], [1, 2, 3, 4, 5, 6]),
    "texts in lists": ("[['a', 'b'], ['c', 'd']]", "BYTES", [2, 2], ["a", "b", "c", "d"]),
    "array": ("np.arange(4, dtype=np.int16)", "INT16", [4], [0, 1, 2, 3]),
    "half": ("np.ones((1, 2), np.float16)", "FP16", [1, 2], [1.0, 1.0]),
    "texts in an array": ("np.array(['a', 'b'])", "BYTES", [2], ["a", "b"]),
    "arrays in a list": ("[np.ones(2), np.ones(2)]", "FP64", [2, 2], [1.0] * 4),
    "np scalars": ("[np.float32(1), np.float32(2)]", "FP32", [2], [1.0, 2.0]),
    "no dimension": ("np.array(3)", "INT64", [1], [3]),
    "foreign": ("Foreign()", "FP32", [2], [0.5, 1.5]),
}
FOREIGN = "class Foreign:\n    dtype = 'torch.float32'\n    def tolist(self): return [0.5, 1.5]\n"


def test_i09_values_have_their_datatype_shape_and_order(tmp_path: Path) -> None:
    body = "def infer(self, inputs): return {" + ", ".join(f"{name!r}: {one[0]}" for name, one in KINDS.items()) + "}"
    app = f"import numpy as np\n{FOREIGN}\n{app_class(body)}"
    with served(write_app(tmp_path, app)) as api:
        outputs = api.outputs()
    assert list(outputs) == list(KINDS)
    assert outputs == {name: one[1:] for name, one in KINDS.items()}


WRONG = {
    "{'a': 1}": "output 'k' is a dict, expected str, int, float, bool, or lists of these; return json.dumps(k)",
    "(1, 2)": "output 'k' is a tuple, expected",
    "None": "output 'k' is None, expected",
    "[]": "output 'k' is an empty list, of which no type can be inferred",
    "[{'a': 1}]": "output 'k' has a dict, expected str, int, float, bool, or lists of these; return json.dumps(k)",
    "[[1], [1, 2]]": "output 'k' has lists of different lengths, which no tensor can hold; return json.dumps(k)",
    "['a', 1]": "output 'k' mixes str and int; return json.dumps(k)",
    "b'\\xff'": "output 'k' has bytes that are not UTF-8; return base64.b64encode(k).decode()",
    "2**64": "output 'k': 18446744073709551616 does not fit INT64 or UINT64",
    "object()": "output 'k' is a object, expected",
}


@pytest.mark.parametrize("value", WRONG)
def test_i10_values_without_a_tensor_form_are_rejected(value: str) -> None:
    with pytest.raises(HandlerError) as raised:
        to_array("k", eval(value))
    assert str(raised.value).startswith(WRONG[value])


@pytest.mark.parametrize("value", ["{'a': 1}", "(1, 2)", "None", "[]"])
def test_i10_invalid_outputs_have_status_500(tmp_path: Path, value: str) -> None:
    with served(write_app(tmp_path, app_class(f"def infer(self, inputs): return {{'k': {value}}}"))) as api:
        status, message = api.error_of()
    assert status == 500
    assert message.startswith(WRONG[value])


def test_i10_result_must_be_a_dict(tmp_path: Path) -> None:
    with served(write_app(tmp_path, app_class("def infer(self, inputs): return 3"))) as api:
        assert api.error_of() == (500, "infer returned a int, expected a dict of outputs by name")


def test_i10_empty_list_of_a_declared_datatype_is_accepted() -> None:
    schema = Schema((), (Tensor("k", "BYTES", (-1,)),))
    assert to_tensors({"k": []}, schema)["k"].shape == (0,)
    with pytest.raises(HandlerError, match="required output 'k' not found in what infer returned"):
        to_tensors({}, schema)


def test_i11_response_has_name_version_and_id(tmp_path: Path) -> None:
    with served(write_app(tmp_path, app_class("def infer(self, inputs): return {'y': 1}"))) as api:
        response = api.infer(id="a7").json()
        assert response == {
            "model_name": "shop",
            "model_version": "1",
            "id": "a7",
            "outputs": [{"name": "y", "datatype": "INT64", "shape": [1], "data": [1]}],
        }
        assert "id" not in api.infer().json()


def test_i11_only_requested_outputs_are_sent(tmp_path: Path) -> None:
    with served(write_app(tmp_path, app_class("def infer(self, inputs): return {'y': 1, 'z': 2}"))) as api:
        assert list(api.outputs(outputs=[{"name": "z"}])) == ["z"]
        assert api.error_of(outputs=[{"name": "q"}]) == (400, "there is no output 'q', expected 'y', 'z'")


def test_g02_exception_of_the_app_is_json_with_its_message(tmp_path: Path) -> None:
    with served(write_app(tmp_path, app_class("def infer(self, inputs): raise ValueError('too dark')"))) as api:
        assert api.error_of() == (500, "infer failed: ValueError: too dark")


def test_arrays_are_sent_unchanged() -> None:
    assert to_array("k", np.ones((2, 3), np.float32)).shape == (2, 3)
    with pytest.raises(HandlerError, match="output 'k' is an array of complex128, which no tensor can hold"):
        to_array("k", np.ones(2, complex))
