"""`penstock infer`: values in, JSON or files out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock._cli.main import main


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[Any], str]:
    """Exit status, the lines' JSON, and what was complained of."""
    status = main(["infer", *arguments])
    out, err = capsys.readouterr()
    return status, [json.loads(line) for line in out.splitlines()], err


def test_values_are_json_or_text(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert said(capsys, url, "double", "x=[1, 2, 3]") == (0, [{"y": [[2, 4, 6]]}], "")
    assert said(capsys, url, "upper", "text=h\u00e9llo you") == (0, [{"output": "H\u00c9LLO YOU"}], "")
    assert said(capsys, url, "add", "a=2", "b=0.5", "--output", "output") == (0, [{"output": 2.5}], "")


def test_values_and_answers_are_files(capsys: pytest.CaptureFixture[str], url: str, tmp_path: Path) -> None:
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "x.npy", rows)
    given = f"x=@{tmp_path / 'x.npy'}"
    for name in ("y.npy", "y.npz"):
        assert said(capsys, url, "double", given, "--save", str(tmp_path / name)) == (0, [], "")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), rows * 2)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npz")["y"], rows * 2)
    (tmp_path / "x.json").write_text("[1, 2, 3]")
    assert said(capsys, url, "double", f"x=@{tmp_path / 'x.json'}")[1] == [{"y": [[2, 4, 6]]}]
    status, lines, complaint = said(capsys, url, "upper", "text=a", "--save", str(tmp_path / "t.npz"))
    assert (status, lines) == (1, [])
    assert "output 'output' is BYTES" in complaint


def test_a_request_body_is_read(capsys: pytest.CaptureFixture[str], url: str, tmp_path: Path) -> None:
    x = {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]}
    (tmp_path / "body.json").write_text(json.dumps({"id": "7", "inputs": [x], "outputs": [{"name": "y"}]}))
    assert said(capsys, url, "double", "--json", str(tmp_path / "body.json")) == (0, [{"y": [[2, 4, 6]]}], "")
    (tmp_path / "body.json").write_text('{"inputs": [{}]}')
    status, _, complaint = said(capsys, url, "double", "--json", str(tmp_path / "body.json"))
    assert status == 1
    assert "is not a request of the protocol: KeyError('datatype')" in complaint


def test_pieces_are_lines(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert said(capsys, url, "count", "n=3", "--stream") == (0, [{"y": 0}, {"y": 1}, {"y": 2}], "")


def test_what_fails_is_one_line(capsys: pytest.CaptureFixture[str], url: str) -> None:
    status, lines, complaint = said(capsys, url, "nope", "x=1")
    assert (status, lines) == (1, [])
    assert complaint.startswith("penstock: error: ")
    assert "nope" in complaint
    assert said(capsys, "localhost", "double")[0] == 1
    assert said(capsys, url, "double", "x")[2] == "penstock: error: an input 'x' is not NAME=VALUE\n"
    assert said(capsys, url)[0] == 2
