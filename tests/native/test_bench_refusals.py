"""Refusals of `penstock bench`: status 2 for the command line, 1 for the server."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import Client
from penstock._cli.main import main


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit status, and the last line of the errors."""
    status = main(["bench", *arguments])
    out, err = capsys.readouterr()
    assert out == ""
    return status, err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--concurrency", "0"], "argument --concurrency: '0' is not a concurrency: expected an integer from 1 to"),
        (["--concurrency=-1"], "argument --concurrency: '-1' is not a concurrency"),
        (["--concurrency", "1,x"], "argument --concurrency: 'x' is not a concurrency"),
        (["--concurrency", "8:4"], "argument --concurrency: '8:4' is not a range: its end is below its start"),
        (["--concurrency", "1:2:3:4"], "is not a range: expected START:END or START:END:STEP"),
        (["--concurrency", "1,2,1"], "argument --concurrency: '1,2,1' has a step twice"),
        (["--concurrency", "1:100000:1"], "'1:100000:1' has more than 1000 steps"),
        (["--rate", "0"], "argument --rate: '0' is not a rate: expected requests per second, above 0 and up to 1e9"),
        (["--rate", "nan"], "argument --rate: 'nan' is not a rate"),
        (["--rate", "1", "--concurrency", "1"], "argument --concurrency: not allowed with argument --rate"),
        (["--seconds", "0"], "argument --seconds: '0' is not a number of seconds above 0"),
        (["--seconds=-1"], "argument --seconds: '-1' is not a number of seconds from 0 to 1000000"),
        (["--warmup", "x"], "argument --warmup: 'x' is not a number of seconds from 0 to 1000000"),
        (["--requests=-5"], "argument --requests: '-5' is not a number of 1 or more"),
        (["--repeat", "0"], "argument --repeat: '0' is not a number of 1 or more"),
        (["--percentiles", "50,100"], "argument --percentiles: '100' is not a percentile: expected a number between 0"),
        (["--arrivals", "even"], "argument --arrivals: invalid choice: 'even'"),
        (["--input-format", "xml"], "argument --input-format: invalid choice: 'xml'"),
        (["--concurency", "1"], "unrecognized arguments: --concurency 1; did you mean --concurrency?"),
        (["x"], "penstock: error: an input 'x' is not NAME=VALUE"),
        (["--header", "a"], "penstock: error: --header 'a' is not NAME=VALUE"),
        (["--header", "te=a"], "penstock: error: header 'te' is the client's own"),
        (["--request", "missing.json"], "penstock: error: [Errno 2] No such file or directory: 'missing.json'"),
        (["--compare", "missing.json"], "penstock: error: missing.json cannot be read: "),
        (
            ["--json", "missing/result.json"],
            "penstock: error: --json: missing/result.json is not a file in an existing",
        ),
        (["--html", "."], "penstock: error: --html: . is not a file in an existing folder"),
        (["--threads", "257"], "argument --threads: '257' is not a number of threads from 1 to 256"),
    ],
)
def test_wrong_usage_is_refused(
    arguments: list[str], message: str, urls: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, error = refusal(capsys, urls["http"], "double", *arguments)
    assert message in error
    assert status == 2


def test_url_and_model_are_required(capsys: pytest.CaptureFixture[str]) -> None:
    status, error = refusal(capsys)
    assert status == 2
    assert error.startswith("penstock bench: error: the following arguments are required: URL, MODEL")
    assert error.endswith("; the URL may be in the variable PENSTOCK_URL")
    status, error = refusal(capsys, "localhost", "m")
    assert (status, "the URL 'localhost' has no scheme" in error) == (2, True)


def test_unknown_model_is_refused_with_the_nearest(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for inputs in ((), ("x=[1, 2, 3]",)):
        status, error = refusal(capsys, url, "duoble", *inputs)
        assert status == 1
        assert error.startswith("penstock: error: ")
        assert "'duoble'" in error
        assert error.endswith("did you mean 'double'?")


def test_missing_server_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        for scheme in ("http", "grpc"):
            status, error = refusal(capsys, f"{scheme}://127.0.0.1:{port}", "m", "x=1")
            assert status == 1
            assert error.startswith(f"penstock: error: cannot connect to {scheme}://127.0.0.1:{port}")


def test_refused_requests_are_not_measured(urls: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for more in ((), ("--input-format", "plain")):
        status, error = refusal(capsys, urls["http"], "fails", "kind=forbidden", *more)
        assert (status, error) == (1, "penstock: error: no: forbidden")
    status, error = refusal(capsys, urls["http"], "double", "z=[1]")
    assert status == 1
    assert "model 'double' has no input 'z'" in error
    status, error = refusal(capsys, urls["grpc"], "double", "x=[1, 2, 3]", "--input-format", "plain")
    assert (status, "uses gRPC, which has no HTTP requests" in error) == (1, True)


def test_files_that_are_not_of_the_command_are_refused(
    urls: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"inputs": [{}]}))
    status, error = refusal(capsys, urls["http"], "double", "--compare", str(other))
    assert (status, f"{other} is not a result of `penstock bench --json`" in error) == (2, True)
    status, error = refusal(capsys, urls["http"], "double", "--request", str(other))
    assert (status, f"{other} is not a request of the protocol: KeyError('datatype')" in error) == (2, True)
    lines = tmp_path / "lines.jsonl"
    lines.write_text("\n")
    status, error = refusal(capsys, urls["http"], "double", "--request", str(lines))
    assert (status, error) == (2, f"penstock: error: {lines} has no request")


def test_interrupt_keeps_the_part_that_was_measured(urls: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    command = [sys.executable, "-m", "penstock", "bench", urls["http"], "double", "--json", str(file)]
    # Longer than the test's time limit: it ends by the signal or not at all.
    with (
        Client(urls["http"]) as client,
        subprocess.Popen(
            [*command, "--warmup", "0", "--seconds", "1000", "--concurrency", "1,2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        [before] = client.statistics("double")["model_stats"]
        while client.statistics("double")["model_stats"][0]["inference_count"] < before["inference_count"] + 50:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err == "penstock: stopped by Ctrl-C: the results are of the part before\n"
    assert len(out.splitlines()) == 3
    result = json.loads(file.read_text())
    [step] = result["steps"]
    assert result["stopped"]
    assert step["rounds"][0]["succeeded"] == step["rounds"][0]["server"]["succeeded"] >= 1
