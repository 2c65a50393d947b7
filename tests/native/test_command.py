"""`penstock infer`: values in, JSON or files out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock._cli.main import main


def run_infer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[Any], str]:
    """Exit status, JSON of the output lines, and standard error."""
    status = main(["infer", *arguments])
    out, err = capsys.readouterr()
    return status, [json.loads(line) for line in out.splitlines()], err


def test_input_values_are_json_or_text(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert run_infer(capsys, url, "double", "x=[1, 2, 3]") == (0, [{"y": [[2, 4, 6]]}], "")
    assert run_infer(capsys, url, "upper", "text=h\u00e9llo you") == (0, [{"output": "H\u00c9LLO YOU"}], "")
    assert run_infer(capsys, url, "add", "a=2", "b=0.5", "--output", "output") == (0, [{"output": 2.5}], "")


def test_inputs_and_outputs_may_be_files(capsys: pytest.CaptureFixture[str], url: str, tmp_path: Path) -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", rows)
    argument = f"x=@{tmp_path / 'x.npy'}"
    for name in ("y.npy", "y.npz"):
        assert run_infer(capsys, url, "double", argument, "--save", str(tmp_path / name)) == (0, [], "")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), rows * 2)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["y"], rows * 2)
    (tmp_path / "x.json").write_text("[1, 2, 3]")
    assert run_infer(capsys, url, "double", f"x=@{tmp_path / 'x.json'}")[1] == [{"y": [[2, 4, 6]]}]
    status, lines, error = run_infer(capsys, url, "upper", "text=a", "--save", str(tmp_path / "t.npz"))
    assert (status, lines) == (1, [])
    assert "output 'output' is BYTES" in error


def test_request_body_is_read_from_a_file(capsys: pytest.CaptureFixture[str], url: str, tmp_path: Path) -> None:
    x = {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}
    (tmp_path / "body.json").write_text(json.dumps({"id": "7", "inputs": [x], "outputs": [{"name": "y"}]}))
    assert run_infer(capsys, url, "double", "--json", str(tmp_path / "body.json")) == (0, [{"y": [[2, 4, 6]]}], "")
    (tmp_path / "body.json").write_text('{"inputs": [{}]}')
    status, _, error = run_infer(capsys, url, "double", "--json", str(tmp_path / "body.json"))
    assert status == 1
    assert "is not a request of the protocol: KeyError('datatype')" in error


def test_streamed_chunks_are_printed_one_per_line(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert run_infer(capsys, url, "count", "n=3", "--stream") == (0, [{"y": 0}, {"y": 1}, {"y": 2}], "")


def test_errors_are_printed_on_one_line(capsys: pytest.CaptureFixture[str], url: str) -> None:
    status, lines, error = run_infer(capsys, url, "nope", "x=1")
    assert (status, lines) == (1, [])
    assert error.startswith("penstock: error: ")
    assert "nope" in error
    assert run_infer(capsys, "localhost", "double")[0] == 1
    assert run_infer(capsys, url, "double", "x")[2] == "penstock: error: an input 'x' is not NAME=VALUE\n"
    assert run_infer(capsys, url)[0] == 2
