"""Examples of examples/kserve under both versions of the real KServe and under the shim, with the same output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from observe import free_ports

from differential import REPOSITORY, Side, is_serving
from waiting import until

sys.path.append(str(REPOSITORY / "tests" / "compat" / "kserve" / "differential"))
from kserve_sides import HOMES, penstock, real, why_not_real

EXAMPLES = REPOSITORY / "examples" / "kserve"
START_TIMEOUT = 60.0
"""Seconds that a real server may take to start."""

OUTPUTS = {
    "custom_model": "v1 [0, 2]\nv2 two INT64 [0, 2]\n",
    "transformer": "they are ['bright', 'dark']\n",
    "explainer": ("score [3.0]\nmade of [[1.0, -2.0, 4.0]]\nrefused 400 rows of 3 numbers are expected, not [1, 2]\n"),
    "repository": (
        "models ['steep']\nsteep [3, 6]\nflat, not loaded 404\nload flat {'name': 'flat', 'load': True}\nflat [7, 7]\n"
        "unload flat {'name': 'flat', 'unload': True}\nflat, unloaded 404\nload what is not there 503\n"
    ),
    "openai": ("completion AS YOU LIKE IT 8\nchat GOOD DAY\npieces ['IN', 'PIECES'] [DONE]\n"),
}
SIDES = [f"{product} {dialect}" for product in ("KServe", "Penstock") for dialect in HOMES]


@pytest.fixture(params=SIDES)
def side(request: pytest.FixtureRequest) -> Side:
    product, dialect = request.param.split()
    if product == "Penstock":
        return penstock(dialect)
    if reason := why_not_real(dialect):
        pytest.skip(reason)
    return real(dialect)


@contextmanager
def running(side: Side, script: Path, *arguments: str) -> Iterator[str]:
    """Runs a script that serves and yields its URL; interrupts it at the end."""
    http, grpc = free_ports(2)
    ports = ("--http_port", str(http), "--grpc_port", str(grpc))
    with side.running(script, *ports, *arguments) as process:
        until(lambda: is_serving(f"http://127.0.0.1:{http}/", process), f"{script} to serve", patience=START_TIMEOUT)
        yield f"http://127.0.0.1:{http}"


@pytest.mark.parametrize("name", OUTPUTS)
def test_kserve_example_output_is_the_same_on_both_sides(name: str, side: Side, request: pytest.FixtureRequest) -> None:
    if name == "openai" and "KServe 0.21" in request.node.name:
        pytest.skip("KServe 0.21 has OpenAI's routes only with vLLM")
    folder = EXAMPLES / name
    with ExitStack() as stack:
        if name == "transformer":
            predictor = stack.enter_context(running(side, folder / "predictor.py"))
            host = ("--predictor_host", predictor.removeprefix("http://"))
            url = stack.enter_context(running(side, folder / "transformer.py", *host))
        else:
            url = stack.enter_context(running(side, folder / "server.py"))
        assert side.output_of(folder / "client.py", url, patience=START_TIMEOUT) == OUTPUTS[name]


def test_every_example_has_a_test() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == set(OUTPUTS)
