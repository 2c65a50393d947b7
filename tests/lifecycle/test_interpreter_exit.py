"""A script that ends without stopping its server: the interpreter must neither hang nor crash."""

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


def ends(script: str) -> subprocess.CompletedProcess[str]:
    """Runs a script beside the tests' modules; it must end by itself."""
    tests = Path(__file__).resolve().parents[1]
    return subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=30, cwd=tests
    )


@pytest.mark.parametrize(
    ("ending", "status"),
    [("", 0), ("raise SystemExit(7)", 7), ("del server", 0), ("1 / 0", 1)],
    ids=["falls-off-the-end", "sys-exit", "last-reference-dropped", "uncaught-exception"],
)
def test_an_idle_server(ending: str, status: int) -> None:
    ended = ends(SERVER.format(name="quick", body="pass") + f"call.join()\nprint('end', flush=True)\n{ending}\n")
    assert ended.stdout == "end\n"
    assert ended.returncode == status, ended.stderr


@pytest.mark.fault("never returns", "interpreter shutting down")
@pytest.mark.parametrize("body", ["time.sleep(3600)", "while True: time.sleep(0.001)", "while True: pass"])
def test_a_handler_that_does_not_return(body: str) -> None:
    ended = ends(SERVER.format(name="endless", body=body) + "entered.wait()\nprint('end', flush=True)\n")
    assert ended.stdout == "end\n"
    assert ended.returncode == 0, ended.stderr


@pytest.mark.fault("never returns")
def test_stop_with_a_handler_that_does_not_return_names_it() -> None:
    script = SERVER.format(name="endless", body="while True: time.sleep(0.001)")
    ended = ends(script + "entered.wait()\nprint(server.stop(0.1), flush=True)\n")
    assert ended.stdout == "['endless (version 1): 1 requests']\n"
    assert ended.returncode == 0, ended.stderr


def test_a_served_script_can_be_imported_and_left() -> None:
    ended = ends("import penstock\nfrom penstock import Server\nprint(penstock.__version__ != '')")
    assert (ended.returncode, ended.stdout) == (0, "True\n")
