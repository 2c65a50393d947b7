"""`penstock init`: templates, what they write, and its examples."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from penstock._cli import init
from penstock._cli.main import main
from serving_process import Serving
from waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ["none", "transformers", "llama-cpp", "vllm"]
PORTS = ("--http", "127.0.0.1:0", "--grpc", "off")


def written(folder: Path, engine: str) -> dict[str, str]:
    assert main(["init", "llm", str(folder), "--engine", engine]) == 0
    return {path.name: path.read_text() for path in folder.iterdir()}


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, "RUFF_NO_CACHE": "true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE * 4,
    )


def test_templates_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [["penstock", "init", name] for name in init._TEMPLATES]
    assert [*init._ENGINES] == ENGINES


@pytest.mark.parametrize("engine", ENGINES)
def test_language_model_has_its_files_and_passes_its_test(engine: str, tmp_path: Path) -> None:
    files = written(tmp_path / "new", engine)
    assert {"app.py", "README.md", "requirements.txt", "test_app.py"} <= {*files}
    for name, text in files.items():
        assert text.endswith("\n")
        if name.endswith(".py"):
            compile(text, name, "exec")
    done = run(tmp_path / "new", "ruff", "check", "--isolated", ".")
    assert done.returncode == 0, done.stdout
    # It is skipped if its engine is not installed.
    done = run(tmp_path / "new", "pytest", "-q", "-p", "no:cacheprovider", "test_app.py")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_examples_are_the_templates(engine: str, tmp_path: Path) -> None:
    example = ROOT / "examples" / engine.replace("-", "_")
    files = {path.name: path.read_text() for path in example.iterdir() if path.is_file()}
    assert files == written(tmp_path / "new", engine), f"copy {example} to python/penstock/_cli/templates/llm"


def test_language_model_without_an_engine_is_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "llm"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert main(["init", "llm"]) == 0
    assert "serve it with: penstock serve llm\n" in capsys.readouterr().out
    assert run(tmp_path, "penstock", "check", "llm").returncode == 0
    messages: Any = [{"role": "user", "content": "the river turns"}]
    with Serving(str(folder), *PORTS) as serving, OpenAI(base_url=f"{serving.http}/v1", api_key="-") as client:
        ask = client.chat.completions.create
        stream = ask(model="chat", messages=messages, stream=True, max_tokens=2, timeout=PATIENCE)
        chunks = [chunk.choices[0] for chunk in stream]
        answer = ask(model="chat", messages=messages, timeout=PATIENCE)
    assert "".join(chunk.delta.content or "" for chunk in chunks) == "the river "
    assert chunks[-1].finish_reason == "length"
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("the river turns ", "stop")
    assert answer.usage is not None
    assert answer.usage.total_tokens == 6


def test_folder_alone_gets_the_model(tmp_path: Path) -> None:
    assert main(["init", str(tmp_path / "one")]) == 0
    assert main(["init", "model", str(tmp_path / "llm")]) == 0
    assert (tmp_path / "one/app.py").read_text() == (tmp_path / "llm/app.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["llm", "full"], "full is not empty; name a new folder"),
        (["llms", "new"], "there is no template 'llms', expected llm or model, did you mean 'llm'?"),
        (["model", "new", "--engine", "vllm"], "--engine vllm is for the template llm"),
        (["new", "--engine", "vllm"], "--engine vllm is for the template llm"),
        (
            ["llm", "new", "--integration", "inferless"],
            "--integration inferless: expected one FOLDER, without a template",
        ),
        (["--integration", "inferless"], "--integration inferless: expected one FOLDER, without a template"),
        (["--engine", "vllm"], "--engine vllm: expected the template llm"),
    ],
)
def test_refusals_write_nothing(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/app.py").write_text("mine = 1\n")
    monkeypatch.chdir(tmp_path)
    assert main(["init", *arguments]) == 1
    assert capsys.readouterr().err == f"penstock: error: {message}\n"
    assert (tmp_path / "full/app.py").read_text() == "mine = 1\n"
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "app.py"]


def test_unknown_engine_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "llm", "--engine", "vlm"]) == 2
    assert "invalid choice: 'vlm'" in capsys.readouterr().err
