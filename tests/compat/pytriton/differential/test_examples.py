"""Output of examples/pytriton, with the real PyTriton and with the shim."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from observe import free_ports
from sides import penstock, real, why_not_real

from differential import REPOSITORY, Side, is_serving
from waiting import until

EXAMPLES = REPOSITORY / "examples" / "pytriton"
STARTS = 60.0
"""Seconds for the real server to start and load."""

PRINTS = {
    "add_sub": "sums [4.0, 7.0, 21.0]\ndifferences [2.0, 3.0, -5.0]\none {'difference': [2.0], 'sum': [4.0]}\n",
    "optional": (
        "with neither: [1.0, 2.0, 3.0]\nwith scale: [10.0, 20.0, 30.0]\nwith shift: [1.5, 2.5, 3.5]\n"
        "with scale and shift: [10.5, 20.5, 30.5]\n"
    ),
    "identity": "the same numbers: True\ntexts: ['one', 'zw\u00f6lf']\n",
    "multiple_models": (
        "squares [0.0, 1.0, 4.0, 9.0, 16.0, 25.0, 36.0, 49.0]\nmean 17.5 largest 49.0\nbatches: False\n"
    ),
    "parameters": "by a parameter 2.5\nby a header 2.0\nby nothing 10.0\n",
    "vertex": "health 200\nprediction [42.0]\n",
    "remote": "Twice 14.0\nThrice 21.0\n",
}


@pytest.fixture(params=["PyTriton", "Penstock"])
def side(request: pytest.FixtureRequest) -> Side:
    if request.param == "Penstock":
        return penstock()
    if reason := why_not_real():
        pytest.skip(reason)
    return real()


@pytest.mark.parametrize("name", PRINTS)
def test_example_prints_the_expected_output(name: str, side: Side) -> None:
    folder, (http, grpc, metrics, hosted) = EXAMPLES / name, free_ports(4)
    environment = {f"PYTRITON_TRITON_CONFIG_{kind}_PORT": str(port) for kind, port in (("HTTP", http), ("GRPC", grpc))}
    environment |= {
        "PYTRITON_TRITON_CONFIG_METRICS_PORT": str(metrics),
        **{f"PYTRITON_TRITON_CONFIG_{kind}_ADDRESS": "127.0.0.1" for kind in ("HTTP", "GRPC")},
        **{"AIP_HTTP_PORT": str(hosted), "AIP_HEALTH_ROUTE": "/health", "AIP_PREDICT_ROUTE": "/predict"},
    }
    url = f"http://127.0.0.1:{hosted if name == 'vertex' else http}"
    ready = f"{url}/health" if name == "vertex" else f"{url}/v2/health/ready"
    with ExitStack() as stack:
        server = stack.enter_context(side.running(folder / "server.py", exits=0, **environment))
        until(lambda: is_serving(ready, server), "the server to be ready", patience=STARTS)
        if name == "remote":
            for model, factor in (("Twice", "2"), ("Thrice", "3")):
                stack.enter_context(side.running(folder / "model.py", model, factor, url, exits=0))
        assert side.output_of(folder / "client.py", url, patience=STARTS, **environment) == PRINTS[name]


def test_all_examples_have_a_test() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == set(PRINTS)
