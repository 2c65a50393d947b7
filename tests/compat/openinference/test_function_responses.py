"""Return values of handlers, and the responses to clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from functions import serving, write_function

ONE = "{'outputs': [{'name': 'y', 'datatype': 'FP32', 'shape': [1], 'data': [2]}]}"
RESPONSE = {
    "model_name": "m",
    "model_version": "1",
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [1], "data": [2.0]}],
}


def returning(expression: str) -> str:
    return f"import json, numpy as np\ndef handler(context, request):\n    return {expression}\n"


@pytest.mark.parametrize(
    "expression",
    [
        ONE,
        f"json.dumps({ONE})",
        f"json.dumps({ONE}).encode()",
        f"(200, {ONE})",
        f"context.Response(body={ONE})",
        f"context.Response(body=json.dumps({ONE}), content_type='application/json', headers={{'Content-Length': 1}})",
        "{'outputs': {'y': np.array([2], np.float32)}}",
        "{'outputs': [{'name': 'y', 'data_type': 'FP32', 'data': [2]}]}",
    ],
)
def test_d09_all_forms_of_return_values_are_accepted(tmp_path: Path, expression: str) -> None:
    with serving(write_function(tmp_path, returning(expression))) as served:
        assert served.infer_row(1) == (200, RESPONSE)


def test_d09_handlers_may_set_id_status_and_parameters(tmp_path: Path) -> None:
    expression = f"context.Response(body={{**{ONE}, 'id': 9, 'parameters': {{'a': 1}}}}, status_code=202)"
    with serving(write_function(tmp_path, returning(expression))) as served:
        assert served.infer_row(1, id="7") == (202, {**RESPONSE, "id": "9", "parameters": {"a": 1}})


@pytest.mark.parametrize(
    ("expression", "status", "error"),
    [
        ("[1]", 500, "the handler returned list, expected a dict with 'outputs'; a request has one response"),
        ("None", 500, "the handler returned NoneType, expected a dict with 'outputs'"),
        ("'no'", 500, "the handler returned a text that is not JSON"),
        ("{}", 500, "the handler returned an object without 'outputs'"),
        ("(1, 2, 3)", 500, "the handler returned a tuple that is not a pair of status and body"),
        ("(99, {})", 500, "the handler returned status 99, expected one of 200 to 599"),
        ("{'error': 'Method must be blur', 'status': 'error'}", 500, "Method must be blur"),
        ("(400, 'no such customer')", 400, "no such customer"),
        ("(422, {'detail': 'wrong'})", 422, "wrong"),
        ("context.Response(body='away', status_code=503)", 503, "away"),
        ("{'outputs': 3}", 500, "'outputs' is int, expected a list of tensors"),
        ("{'outputs': [{'name': 'y'}]}", 500, "outputs[0] is not an object with name, datatype, shape and data"),
        ("{'outputs': [{'name': 'y', 'datatype': 'FP31', 'data': [1]}]}", 500, "output 'y' has datatype 'FP31'"),
        (
            "{'outputs': [{'name': 'y', 'shape': [3], 'data': [1]}]}",
            500,
            "output 'y' has 1 elements, which do not fit",
        ),
        (
            "{'outputs': [{'name': 'y', 'datatype': 'INT8', 'data': [300]}]}",
            500,
            "output 'y' has a number outside",
        ),
        ("{'outputs': [{'name': 'y', 'datatype': 'INT8', 'data': [.5]}]}", 500, "output 'y' has fractions"),
        (
            "{'outputs': [{'name': 'y', 'datatype': 'BYTES', 'data': [1]}]}",
            500,
            "output 'y' is not a tensor: BYTES are",
        ),
        ("{'outputs': [{'name': 'y', 'data': [[1], [1, 2]]}]}", 500, "output 'y' is not a tensor"),
    ],
)
def test_d09_invalid_return_values_are_reported_as_json(
    tmp_path: Path, expression: str, status: int, error: str
) -> None:
    with serving(write_function(tmp_path, returning(expression))) as served:
        received, response = served.infer_row(1)
    assert received == status
    assert response["error"].startswith(error), response


TORCH = "type('T', (), {'detach': lambda s: s, 'cpu': lambda s: s, 'numpy': lambda s: np.array([1, 2], np.int64)})()"


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        ("{'data': np.array([[1, 2]], np.int32)}", {"datatype": "INT32", "shape": [1, 2], "data": [1, 2]}),
        ("{'data': np.float32(1.5), 'shape': [1]}", {"datatype": "FP32", "shape": [1], "data": [1.5]}),
        ("{'data': [np.float64(1.5), 2]}", {"datatype": "FP64", "shape": [2], "data": [1.5, 2.0]}),
        ("{'data': np.array([True])}", {"datatype": "BOOL", "shape": [1], "data": [True]}),
        ("{'data': np.array(['a', 'b'])}", {"datatype": "BYTES", "shape": [2], "data": ["a", "b"]}),
        (
            "{'data': np.arange(4), 'shape': (2, 2), 'datatype': 'FP16'}",
            {"datatype": "FP16", "shape": [2, 2], "data": [0.0, 1.0, 2.0, 3.0]},
        ),
        (f"{{'data': {TORCH}}}", {"datatype": "INT64", "shape": [2], "data": [1, 2]}),
        (
            "{'data': ['four'], 'datatype': 'BYTES', 'shape': [1, 4]}",
            {"datatype": "BYTES", "shape": [1, 1], "data": ["four"]},
        ),
    ],
)
def test_d10_arrays_of_any_kind_become_tensors(tmp_path: Path, tensor: str, expected: dict[str, object]) -> None:
    with serving(write_function(tmp_path, returning(f"{{'outputs': [{{'name': 'y', **{tensor}}}]}}"))) as served:
        status, response = served.infer_row(1)
    assert (status, response.get("outputs")) == (200, [{"name": "y", **expected}]), response


def test_d10_nan_is_sent_or_rejected_by_option(tmp_path: Path) -> None:
    write_function(tmp_path, returning("{'outputs': [{'name': 'y', 'data': [np.nan, 1.0]}]}"))
    with serving(tmp_path) as served:
        assert str(served.infer_row(1)[1]["outputs"][0]["data"]) == "[nan, 1.0]"
    with serving(tmp_path, nan="error") as served:
        assert served.infer_row(1) == (500, {"error": "output 'y' has NaN or infinities"})


@pytest.mark.parametrize(
    ("raised", "error"), [("ValueError('no such face')", "no such face"), ("KeyError()", "KeyError")]
)
def test_d14_exceptions_are_reported_as_json(
    tmp_path: Path, raised: str, error: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(write_function(tmp_path, f"def handler(request):\n    raise {raised}\n")) as served:
        status, response = served.infer_row(1)
        assert status == 500
        assert error in response["error"]
    assert "main.py" in capfd.readouterr().err


def test_d14_exceptions_over_grpc_have_status_internal(tmp_path: Path) -> None:
    import numpy as np
    import tritonclient.grpc as triton
    from tritonclient.utils import InferenceServerException

    tensor = triton.InferInput("x", [1], "FP32")
    tensor.set_data_from_numpy(np.ones(1, np.float32))
    write_function(tmp_path, "def handler(request):\n    raise ValueError('no such face')\n")
    with (
        serving(tmp_path) as served,
        triton.InferenceServerClient(served.server.grpc_url) as client,
        pytest.raises(InferenceServerException, match="no such face") as raised,
    ):
        client.infer("m", [tensor])
    assert raised.value.status() == "StatusCode.INTERNAL"
