"""Completion scripts, run by the shells that there are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from penstock._cli.main import main


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["s"], {"serve", "shim", "stacks"}),
        (["serve", "--dial"], {"--dialect"}),
        (["serve", "--dialect", ""], {"penstock", "triton", "kserve"}),
        (["serve", "--access-log", "j"], {"json"}),
        (["serve", "ap"], {"app.py"}),
        (["serve", "--no-d"], {"--no-docs"}),
        (["export", "k"], {"kubernetes", "kserve"}),
        (["config", ""], {"check", "schema"}),
        (["config", "ap"], {"app.py"}),
        (["config", "--js"], {"--json"}),
        (["config", "check", "ap"], {"app.py"}),
        (["config", "check", "--no-do"], {"--no-docs"}),
        (["infer", "--str"], {"--stream"}),
        (["init", ""], {"llm", "model"}),
        (["init", "--engine", ""], {"none", "transformers", "llama-cpp", "vllm"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
    ],
)
def test_bash_completes(
    words: list[str], completed: set[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "app.py").touch()
    (tmp_path / "penstock.sh").write_text(script("bash", capsys))
    quoted = " ".join(f"'{word}'" for word in ("penstock", *words))
    command = (
        "shopt -u progcomp_alias; complete() { :; }; source ./penstock.sh; "
        f'COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _penstock; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    bash = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert bash.stderr == ""
    assert set(bash.stdout.split()) == completed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_valid_and_has_every_command_and_flag(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    for word in ("serve", "infer", "completion", "dialect", "idle-timeout", "model-version", "triton"):
        assert word in text
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n", "/dev/stdin"], input=text, text=True, check=True)


def test_unknown_shell_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bsh"]) == 2
    assert capsys.readouterr().err.endswith("did you mean 'bash'?\n")
