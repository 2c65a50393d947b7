"""get_predict_input, get_predict_response and the other helpers: rows R2 and R7."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from penstock._spec.instances import processors
from penstock.compat.kserve import InferInput, InferRequest
from penstock.compat.kserve.constants.constants import PredictorProtocol
from penstock.compat.kserve.errors import InferenceError, InvalidInput
from penstock.compat.kserve.protocol._arrays import Shown
from penstock.compat.kserve.protocol.infer_type import RequestedOutput, to_grpc_parameters
from penstock.compat.kserve.utils import utils
from penstock.compat.kserve.utils.utils import get_predict_input, get_predict_response


def request(*inputs: InferInput, **more: Any) -> InferRequest:
    return InferRequest("m", list(inputs) or [InferInput("x", [2], "FP32", [1, 2])], **more)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"instances": [[1, 2], [3, 4]]}, np.array([[1, 2], [3, 4]])),
        ({"inputs": [1.5], "instances": [2]}, np.array([1.5])),
        ({"instances": []}, np.array([])),
        ({"instances": [["a"]]}, np.array([["a"]])),
    ],
)
def test_r2_instances_become_an_array(payload: Any, expected: Any) -> None:
    result = get_predict_input(payload)
    assert result.dtype == expected.dtype
    assert np.array_equal(result, expected)


def test_r2_text_instances_stay_a_list() -> None:
    assert get_predict_input({"instances": ["a", "b"]}) == ["a", "b"]
    with pytest.raises(KeyError, match="instances"):
        get_predict_input({"rows": []})


def test_r2_dict_instances_become_a_dataframe() -> None:
    pd = pytest.importorskip("pandas")
    result = get_predict_input({"instances": [{"a": [1], "b": [2]}, {"a": [3], "b": [4]}]})
    assert result.equals(pd.DataFrame({"a": [1, 3], "b": [2, 4]}, index=[0, 0]))
    result = get_predict_input({"instances": [[{"a": 1, "b": 2}, {"a": 3, "b": 4}]]}, columns=["b", "a"])
    assert result.equals(pd.DataFrame({"b": [2, 4], "a": [1, 3]}))
    result = get_predict_input({"instances": [{"a": 1}, {"a": 2}]})
    assert result["a"].tolist() == [1, 2]


def test_r2_the_first_input_becomes_an_array() -> None:
    second = InferInput("y", [1], "INT32", [3])
    result = get_predict_input(request(InferInput("x", [1, 2], "FP32", [1, 2]), second))
    assert (result.dtype, result.tolist()) == (np.float32, [[1, 2]])
    assert get_predict_input(request(InferInput("x", [2], "BYTES", ["a", "b"]))) == ["a", "b"]
    assert get_predict_input(request(InferInput("x", [1], "BYTES", [b"a"]))).tolist() == [b"a"]
    assert get_predict_input(request(InferInput("x", [0], "BYTES", []))).shape == (0,)


def test_r2_server_tensors_are_not_converted_to_lists() -> None:
    tensor = InferInput._holding("x", "FP32", np.ones(2, np.float32))
    assert get_predict_input(request(tensor)).tolist() == [1, 1]
    assert tensor._array is not None
    texts = np.array([b"a"], dtype=object)
    assert get_predict_input(request(InferInput._holding("x", "BYTES", texts, None, Shown.JSON))) == ["a"]
    assert get_predict_input(request(InferInput._holding("x", "BYTES", texts, None, Shown.RAW))).tolist() == [b"a"]


@pytest.mark.parametrize("parameters", [{"content_type": "pd"}, to_grpc_parameters({"content_type": "pd"})])
def test_r2_a_parameter_requests_a_dataframe(parameters: Any) -> None:
    pd = pytest.importorskip("pandas")
    result = get_predict_input(request(InferInput("x", [2], "INT64", [1, 2]), parameters=parameters))
    assert result.equals(pd.DataFrame({"x": [1, 2]}))


@pytest.mark.parametrize("payload", [3, [1], b"1"])
def test_r2_other_payloads_are_rejected(payload: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^unsupported payload type <class '"):
        get_predict_input(payload)
    with pytest.raises(InvalidInput, match=r"^unsupported payload type <class '"):
        get_predict_response(payload, [1], "m")


@pytest.mark.parametrize("result", [[1, 2], np.array([1, 2])])
def test_r2_dict_payload_returns_predictions(result: Any) -> None:
    assert get_predict_response({}, result, "m") == {"predictions": [1, 2]}
    assert get_predict_response({}, {"a": 1}, "m") == {"predictions": {"a": 1}}


@pytest.mark.parametrize(
    ("result", "datatype", "shape", "data"),
    [
        ([1, 2], "INT64", [2], [1, 2]),
        ([[1.5], [2]], "FP64", [2, 1], [1.5, 2]),
        (np.array([True]), "BOOL", [1], [True]),
        (["a", 1], "BYTES", [2], ["a", "1"]),
        (np.array(["a", "b"]), "BYTES", [2], ["a", "b"]),
        (np.array([b"a"]), "BYTES", [1], ["a"]),
        ([], "FP64", [0], []),
        (3, "INT64", [], [3]),
    ],
)
def test_r2_infer_request_returns_one_output(result: Any, datatype: str, shape: list[int], data: Any) -> None:
    response: Any = get_predict_response(request(request_id="7"), result, "n")
    (output,) = response.outputs
    assert (response.id, response.model_name) == ("7", "n")
    assert (output.name, output.datatype, output.shape, output.data) == ("output-0", datatype, shape, data)


def test_r2_response_encoding_follows_the_request() -> None:
    infer_request = request(parameters={"binary_data_output": True})
    response: Any = get_predict_response(infer_request, [1], "m")
    assert len(response.id) == 36
    assert response.outputs[0].parameters == {"binary_data_size": 8}
    assert isinstance(response.to_rest()[0], bytes)
    infer_request.request_outputs = [RequestedOutput("output-0", {"binary_data": False})]
    response = get_predict_response(infer_request, [1], "m")
    assert response.to_rest()[0]["outputs"][0]["data"] == [1]


def test_r2_non_utf8_bytes_are_accepted_as_results() -> None:
    response: Any = get_predict_response(request(), np.array([b"\xff"], dtype=object), "m")
    assert response.outputs[0]._outgoing().tolist() == [b"\xff"]
    with pytest.raises(InferenceError, match=r"^Failed to encode"):
        response.to_rest()


def test_r2_dataframes_are_accepted_as_results() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert get_predict_response({}, frame, "m") == {"predictions": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]}
    response: Any = get_predict_response(request(), frame, "m")
    assert [(one.name, one.datatype, one.shape, one.data) for one in response.outputs] == [
        ("a", "INT64", [2], [1, 2]),
        ("b", "BYTES", [2], ["x", "y"]),
    ]
    assert get_predict_response(request(), pd.DataFrame(), "m").outputs == []  # type: ignore[union-attr]


@pytest.mark.parametrize("result", [None, np.array([1j])])
def test_r2_invalid_results_are_rejected(result: Any) -> None:
    with pytest.raises(InferenceError, match=r"^output 'output-0' is .*, which the protocol does not support$"):
        get_predict_response(request(), result, "m")


def test_r2_missing_pandas_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for call in (
        lambda: request().as_dataframe(),
        lambda: get_predict_input({"instances": [{"a": 1}]}),
    ):
        with pytest.raises(ImportError, match=r"^this needs the package pandas, which is not installed$"):
            call()
    assert get_predict_input({"instances": [1]}).tolist() == [1]


EVENT = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "time": "now", "data": 1}


def test_r7_structured_events_need_all_six_attributes() -> None:
    assert utils.is_structured_cloudevent(EVENT)
    for name in EVENT:
        assert not utils.is_structured_cloudevent({key: value for key, value in EVENT.items() if key != name})


def test_r7_binary_events_have_headers_and_the_response_as_body() -> None:
    headers, body = utils.create_response_cloudevent("m", {"predictions": [1, 2.5]}, EVENT, True)
    assert body == b'{"predictions": [1, 2.5]}'
    assert headers.keys() == {"ce-specversion", "ce-id", "ce-source", "ce-type", "ce-time"}
    assert (headers["ce-type"], headers["ce-source"]) == ("io.kserve.inference.response", "io.kserve.inference.m")
    assert (len(headers["ce-id"]), headers["ce-specversion"]) == (36, "1.0")
    assert datetime.fromisoformat(headers["ce-time"]).tzinfo is not None
    assert utils.create_response_cloudevent("m", b"unchanged", {}, True)[1] == b"unchanged"


def test_r7_structured_events_are_sent_in_the_body() -> None:
    headers, body = utils.create_response_cloudevent("m", {"predictions": np.array([1])}, EVENT)
    assert headers == {"content-type": "application/cloudevents+json"}
    event = json.loads(body)
    assert event.keys() == {"specversion", "id", "source", "type", "time", "data"}
    assert event["data"] == {"predictions": [1]}
    assert json.loads(utils.create_response_cloudevent("m", b"abc", {})[1])["data_base64"] == "YWJj"


def test_r7_environment_sets_type_source_and_merging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CE_MERGE", "True")
    monkeypatch.setenv("CE_TYPE", "my.type")
    monkeypatch.setenv("CE_SOURCE", "my.source")
    attributes = {**EVENT, "subject": "q", "foo": "bar", "datacontenttype": "application/json"}
    del attributes["data"]
    before = dict(attributes)
    headers, _ = utils.create_response_cloudevent("m", {}, attributes, True)
    assert (headers["ce-type"], headers["ce-source"], headers["ce-foo"]) == ("my.type", "my.source", "bar")
    assert headers["ce-subject"] == "q"
    assert "ce-datacontenttype" not in headers
    assert headers["ce-id"] != "1"
    event = json.loads(utils.create_response_cloudevent("m", {}, attributes)[1])
    assert (event["foo"], event["datacontenttype"]) == ("bar", "application/json")
    assert attributes == before
    assert utils.create_response_cloudevent("m", {}, {}, True)[0]["ce-specversion"] == "1.0"


def test_strtobool_accepts_truth_words() -> None:
    assert all(utils.strtobool(word) for word in ("y", "YES", "t", "true", "on", "1"))
    assert not any(utils.strtobool(word) for word in ("n", "no", "F", "false", "off", "0"))
    with pytest.raises(ValueError, match=r"^invalid truth value 'perhaps'$"):
        utils.strtobool("Perhaps")


def test_protocols_match_by_name_and_value() -> None:
    assert all(map(utils.is_v1, ("v1", "V1", PredictorProtocol.REST_V1)))
    assert all(map(utils.is_v2, ("v2", "V2", PredictorProtocol.REST_V2)))
    assert not any(map(utils.is_v1, ("v2", "grpc-v2", PredictorProtocol.GRPC_V2)))
    assert not any(map(utils.is_v2, ("v1", "grpc-v2", PredictorProtocol.GRPC_V2)))


def test_grpc_metadata_converts_to_headers() -> None:
    def pairs(*of: tuple[str, str]) -> Any:
        return lambda: tuple(SimpleNamespace(key=key, value=value) for key, value in of)

    context = SimpleNamespace(invocation_metadata=pairs(("a", "1")), trailing_metadata=pairs(("b", "2")))
    assert utils.to_headers(context) == {"a": "1", "b": "2"}
    assert utils.to_headers(SimpleNamespace(invocation_metadata=pairs(("a", "1")))) == {"a": "1"}
    assert len({utils.generate_uuid() for _ in range(3)}) == 3


def test_cpu_count_is_the_process_limit() -> None:
    assert utils.cpu_count() == processors()


def test_namespace_comes_from_the_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utils, "_ACCOUNT", tmp_path / "account")
    assert (utils.is_running_in_k8s(), utils.get_default_target_namespace()) == (False, "default")
    (tmp_path / "account" / "serviceaccount").mkdir(parents=True)
    (tmp_path / "account" / "serviceaccount" / "namespace").write_text("mine")
    assert (utils.is_running_in_k8s(), utils.get_default_target_namespace()) == (True, "mine")
    own, none = (SimpleNamespace(metadata=SimpleNamespace(namespace=name)) for name in ("own", None))
    for get_namespace in (utils.get_isvc_namespace, utils.get_ig_namespace):
        assert [get_namespace(own), get_namespace(none), get_namespace({"metadata": {"namespace": "own"}})] == [
            "own",
            "mine",
            "own",
        ]


def test_utils_import_no_optional_packages() -> None:
    code = (
        "import sys; from penstock.compat.kserve.utils import utils;"
        "wanted = ('pandas', 'cloudevents', 'psutil', 'grpc', 'google', 'pydantic', 'fastapi');"
        "assert not [name for name in sys.modules if name.startswith(wanted)]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
