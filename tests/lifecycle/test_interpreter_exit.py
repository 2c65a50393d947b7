"""A script that exits without stopping its server: the interpreter must neither hang nor crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SERVER = """
import threading, time
import numpy as np
from http_by_hand import infer
from penstock import Server, Tensor, model

entered = threading.Event()

@model(inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])])
def {name}(x):
    entered.set()
    {body}
    return x

server = Server({name}, http="127.0.0.1:0", grpc=None).start()
call = threading.Thread(target=lambda: infer(server.http_url, "{name}", {{"x": np.zeros(2, np.float32)}}), daemon=True)
call.start()
"""


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    """Runs a script in the folder of the test modules; it must exit by itself."""
    tests = Path(__file__).resolve().parents[1]
    return subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=30, cwd=tests
    )


@pytest.mark.parametrize(
    ("ending", "status"),
    [("", 0), ("raise SystemExit(7)", 7), ("del server", 0), ("1 / 0", 1)],
    ids=["falls-off-the-end", "sys-exit", "last-reference-dropped", "uncaught-exception"],
)
def test_script_with_an_idle_server_exits(ending: str, status: int) -> None:
    ended = run_script(SERVER.format(name="quick", body="pass") + f"call.join()\nprint('end', flush=True)\n{ending}\n")
    assert ended.stdout == "end\n"
    assert ended.returncode == status, ended.stderr


@pytest.mark.fault("never returns", "interpreter shutting down")
@pytest.mark.parametrize("body", ["time.sleep(3600)", "while True: time.sleep(0.001)", "while True: pass"])
def test_script_exits_though_a_handler_never_returns(body: str) -> None:
    ended = run_script(SERVER.format(name="endless", body=body) + "entered.wait()\nprint('end', flush=True)\n")
    assert ended.stdout == "end\n"
    assert ended.returncode == 0, ended.stderr


@pytest.mark.fault("never returns")
def test_stop_names_a_handler_that_does_not_return() -> None:
    script = SERVER.format(name="endless", body="while True: time.sleep(0.001)")
    ended = run_script(script + "entered.wait()\nprint(server.stop(0.1), flush=True)\n")
    assert ended.stdout == "['endless (version 1): 1 requests']\n"
    assert ended.returncode == 0, ended.stderr


def test_script_that_only_imports_penstock_exits() -> None:
    ended = run_script("import penstock\nfrom penstock import Server\nprint(penstock.__version__ != '')")
    assert (ended.returncode, ended.stdout) == (0, "True\n")
