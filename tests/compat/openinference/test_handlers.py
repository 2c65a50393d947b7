"""Arguments of handlers and init functions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from functions import handler_code, serving, write_function

from penstock.errors import LoadError


@pytest.mark.parametrize(
    ("takes", "expression"),
    [
        ("request", "request.inputs[0].name"),
        ("context, request", "request.inputs[0].name"),
        ("request, context", "request.inputs[0].name"),
        ("run, project, event, context, request", "request.inputs[0].name"),
        ("context", "'x'"),
        ("", "'x'"),
        ("*, request", "request.inputs[0].name"),
        ("request, other='x'", "other"),
        ("**everything", "everything['request'].inputs[0].name"),
    ],
)
def test_d06_handlers_get_the_arguments_they_declare(tmp_path: Path, takes: str, expression: str) -> None:
    with serving(write_function(tmp_path, handler_code(expression, takes))) as served:
        assert served.text() == "x"


def test_d06_unknown_handler_parameters_are_rejected_at_start(tmp_path: Path) -> None:
    write_function(tmp_path, handler_code("1", "request, model"))
    with pytest.raises(LoadError, match="takes model, without a value; it can take request, context, event"):
        serving(tmp_path).__enter__()


INIT = """
import time
ready = None
def init(context, unit, times=1):
    global ready
    time.sleep(0.3)
    ready = context.unit = unit * times
"""


def test_d07_handler_sees_the_state_set_by_init(tmp_path: Path) -> None:
    code = handler_code("(ready, context.unit)", "context", INIT)
    write_function(tmp_path, code, source={"init_function": "init"})
    with serving(tmp_path, init_parameters={"unit": "a", "times": 2}) as served:
        # The model is ready only after init has run.
        assert served.get("/v2/models/m/ready")[0] == 200
        assert served.text() == "('aa', 'aa')"


@pytest.mark.parametrize("given", [{}, {"units": "a"}, {"unit": "a", "more": 1}, {"context": 1, "unit": "a"}])
def test_d07_wrong_init_parameters_are_rejected_at_start(tmp_path: Path, given: dict[str, object]) -> None:
    write_function(
        tmp_path, handler_code("1", before=INIT), source={"init_function": "init"}, settings={"init_parameters": given}
    )
    with pytest.raises(
        LoadError, match=r"init_function 'init' expects the parameters unit, times, init_parameters has"
    ):
        serving(tmp_path).__enter__()


def test_d07_failing_init_prevents_the_start(tmp_path: Path) -> None:
    code = handler_code("1", before="def init(context): raise OSError('no weights')")
    write_function(tmp_path, code, source={"init_function": "init"})
    with pytest.raises(LoadError, match="no weights"):
        serving(tmp_path).__enter__()


def test_d07_init_and_handler_may_be_async(tmp_path: Path) -> None:
    code = """
async def init(context):
    context.unit = "a"
async def handler(context):
    return {"outputs": [{"name": "y", "data": [context.unit]}]}
"""
    with serving(write_function(tmp_path, code, source={"init_function": "init"})) as served:
        assert served.text() == "a"


def test_d08_request_has_all_fields_of_the_body(tmp_path: Path) -> None:
    code = handler_code("request.json()").replace("str(request.json())", "request.json()")
    with serving(write_function(tmp_path, code)) as served:
        tensor = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2.5], "parameters": {"a": 1}}
        status, response = served.infer(tensor, id="7", parameters={"b": "c"}, outputs=[{"name": "result"}])
    assert (status, response["id"]) == (200, "7")
    assert json.loads(response["outputs"][0]["data"][0]) == {
        "id": "7",
        "parameters": {"b": "c"},
        "inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1.0, 2.5], "parameters": {"a": 1}}],
        "outputs": [{"name": "result", "parameters": {}}],
    }


@pytest.mark.parametrize(("data", "expected"), [("flat", "[1, 2]"), ("nested", "[[1, 2]]")])
def test_d08_elements_are_flat_or_nested(tmp_path: Path, data: str, expected: str) -> None:
    code = handler_code("request.inputs[0].data")
    inputs = [{"name": "x", "datatype": "UINT8", "shape": [-1, -1]}]
    with serving(write_function(tmp_path, code, inputs=inputs), data=data) as served:
        response = served.infer({"name": "x", "datatype": "UINT8", "shape": [1, 2], "data": [1, 2]})[1]
    assert response["outputs"][0]["data"] == [expected]


def test_d08_uint8_elements_convert_to_bytes(tmp_path: Path) -> None:
    # Same as upstream's tutorials: one row of numbers, and a context without attributes.
    code = handler_code("(bytes(request.inputs[0].data), getattr(context, 'model', None))", "context, request")
    inputs = [{"name": "image", "datatype": "UINT8", "shape": [-1, -1]}]
    with serving(write_function(tmp_path, code, inputs=inputs)) as served:
        response = served.infer({"name": "image", "datatype": "UINT8", "shape": [1, 3], "data": [97, 98, 99]})[1]
    assert response["outputs"][0]["data"] == ["(b'abc', None)"]


def test_d19_context_logs_and_stores_attributes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = """
def init(context):
    context.user_data.count = 0
    context.logger.info("started")
def handler(context):
    context.user_data.count += 1
    context.logger.info_with("done 100%", count=context.user_data.count, name="a%s")
    context.logger.warn("%d times", context.user_data.count)
    context.logger.error_with("bad", status=3)
    result = (context.user_data.count, isinstance(context.worker_id, int), context.user_function.__name__)
    body = {"outputs": [{"name": "y", "data": [str(result)]}]}
    return context.Response(body=body, headers={}, content_type="application/json", status_code=200)
"""
    with serving(write_function(tmp_path, code, source={"init_function": "init"})) as served:
        assert served.text() == "(1, True, 'handler')"
        assert served.text() == "(2, True, 'handler')"
    err = capfd.readouterr().err
    for line in ("started", "done 100% count=2 name='a%s'", "2 times", "bad status=3"):
        assert line in err
    assert "WARNING penstock.m [m/1 " in err


def test_d20_event_has_the_requests_fields(tmp_path: Path) -> None:
    code = handler_code(
        "[event.path, event.method, event.id, event.content_type, event.trigger.kind, "
        "event.get_header('x-model-NAME'), event.get_header('X-Request-ID'), event.get_header('none', 3), "
        "event.headers['X-Model-Version'], event.body['inputs'][0]['data'], event.fields, event.timestamp.year > 2000]",
        "event",
    )
    with serving(write_function(tmp_path, code)) as served:
        response = served.infer_row(1, id="7")[1]
    assert response["outputs"][0]["data"][0] == str(
        [
            *("/v2/models/m/infer", "POST", "7", "application/json", "openinference", "m", "7", 3, "1"),
            *([1.0], {}, True),
        ]
    )


def test_d21_project_and_run_work_without_a_platform(tmp_path: Path) -> None:
    code = """
def init(context):
    context.run.log_metric("loaded", 1)
def handler(project, run):
    run.log_metric("mean.score", 0.5)
    run.log_metrics({"parts": [1, 2]})
    try:
        project.get_secret("a")
    except AttributeError as error:
        result = (project.name, run.key, run.metrics["parts"], str(error))
    return {"outputs": [{"name": "y", "data": [str(result)]}]}
"""
    import urllib.request

    with serving(write_function(tmp_path, code, source={"init_function": "init"})) as served:
        assert served.text() == str(
            (
                *("p", "store://p/run/openinference+serve:run/f:local", [1, 2]),
                "project.get_secret needs the DigitalHub platform, which is not available",
            )
        )
        with urllib.request.urlopen(f"{served.server.http_url}/metrics") as response:
            metrics = response.read().decode()
    for line in ('mean_score{model="m",version="1"} 0.5', 'parts{model="m",version="1"} 2', "loaded{"):
        assert line in metrics
