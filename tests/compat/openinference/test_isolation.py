"""Functions in the server's process: shared and isolated state."""

from __future__ import annotations

import ast
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from functions import PYTHON, Served, handler_code, serving, write_function

from penstock import Server
from penstock.compat import openinference
from penstock.errors import LoadError, StartupError

OTHER = "PYTHON3_10" if PYTHON != "PYTHON3_10" else "PYTHON3_12"


@pytest.mark.parametrize("isolation", ["server", "process"])
def test_isolation_option_selects_the_process(tmp_path: Path, isolation: str) -> None:
    code = handler_code("(os.getpid(), context.worker_id, os.getcwd())", "context, request", "import os")
    with serving(write_function(tmp_path, code), isolation=isolation) as served:
        pid, worker, folder = ast.literal_eval(served.text())
    assert worker == pid
    assert (pid == os.getpid()) == (isolation == "server")
    assert (folder == os.getcwd()) == (isolation == "server")


def test_g01_functions_in_the_servers_process_have_isolated_modules(tmp_path: Path) -> None:
    models, path, modules = [], [*sys.path], set(sys.modules)
    for name in ("a", "b"):
        (tmp_path / name / "parts").mkdir(parents=True)
        (tmp_path / name / "helper.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "random.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "parts" / "__init__.py").write_text("")
        (tmp_path / name / "parts" / "late.py").write_text("from ..helper import NAME\n")
        before = "import helper, json\nimport random\nfrom parts import late"
        body = handler_code("helper.NAME + random.NAME + late.NAME + later()", "request", before)
        body += "\ndef later():\n    from parts.late import NAME\n    return NAME\n"
        folder = write_function(tmp_path / name, body, model_name=name)
        models += openinference.load(folder, {"isolation": "server"})
    with Server(*models, http="127.0.0.1:0", grpc=None) as server:
        tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}
        for name in ("a", "b"):
            assert Served(server).infer(tensor, model=name)[1]["outputs"][0]["data"] == [name * 4]
        assert sys.path == path
        assert "helper" not in sys.modules.keys() - modules
    assert not any(one.endswith(".helper") for one in sys.modules.keys() - modules)


def test_replicas_are_threads_with_separate_contexts(tmp_path: Path) -> None:
    code = handler_code(
        "meet(context)", "context", "import threading\nimport meeting\ndef init(context):\n    context.calls = []"
    )
    code += "\ndef meet(context):\n    meeting.wait()\n    context.calls.append(1)\n"
    code += "    return (threading.get_ident(), len(context.calls))\n"
    barrier = threading.Barrier(2, timeout=20)
    # Modules of the server are unchanged.
    meeting = sys.modules["meeting"] = type(sys)("meeting")
    vars(meeting)["wait"] = barrier.wait
    write_function(tmp_path, code, source={"init_function": "init"})
    try:
        with serving(tmp_path, isolation="server", replicas=2) as served, ThreadPoolExecutor(2) as pool:
            results = {one.result() for one in [pool.submit(served.text) for _ in range(2)]}
    finally:
        del sys.modules["meeting"]
    assert len(results) == 2
    assert all(one.endswith(", 1)") for one in results)


def test_async_handlers_and_errors_in_the_servers_process(tmp_path: Path) -> None:
    code = "import asyncio\nasync def handler(request):\n    await asyncio.sleep(0)\n"
    code += "    raise ValueError('bad ' + request.id)\n"
    with serving(write_function(tmp_path, code), isolation="server") as served:
        assert served.infer_row(1.0, id="r") == (500, {"error": "bad r"})
        assert served.infer_row(1, datatype="BOOL")[0] == 400


def test_failing_import_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="cannot import main: ZeroDivisionError"):
        serving(write_function(tmp_path, "1 / 0\n"), isolation="server").__enter__()


@pytest.mark.parametrize(
    ("spec", "options", "error"),
    [
        (
            {"requirements": ["one==1", "two"]},
            {},
            "function 'f' cannot run in the server's process: it requires the packages one==1, two. "
            "Set isolation=process, or environment=none if the server has them",
        ),
        ({}, {"envs": {"A": "1"}}, "the option envs sets A. Set isolation=process"),
        ({"python_version": OTHER}, {"python": "exact"}, "it requires Python 3.1[02] exactly. Set isolation=process"),
        ({}, {"isolation": "thread"}, "option isolation is 'thread', expected one of process, server"),
    ],
)
def test_functions_that_need_a_process_are_rejected(
    tmp_path: Path, spec: dict[str, object], options: dict[str, object], error: str
) -> None:
    write_function(tmp_path, handler_code("1"), **spec)
    with pytest.raises(StartupError, match=error):
        openinference.load(tmp_path, {"isolation": "server", **options})


def test_requirements_of_the_server_need_no_environment(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_function(tmp_path, handler_code("1"), requirements=["numpy"], python_version=OTHER)
    with serving(tmp_path, isolation="server", environment="none") as served:
        assert served.text() == "1"
    assert "it runs with the server's" in caplog.text
