"""`penstock init`: writes a small project from a template."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock._spec.suggestions import suggestion
from penstock.errors import StartupError
from penstock.integrations import _detect, _scaffold

__all__ = ["add_parser", "run"]

_LLM, _MODEL = "llm", "model"
_TEMPLATES = {
    _LLM: "a language model behind OpenAI's API; --engine transformers, llama-cpp, vllm, or none (default)",
    _MODEL: "a batched model of rows of numbers, which is also written for a FOLDER alone",
}
_ENGINES: Mapping[str, tuple[str, ...]] = {
    "none": ("none",),
    "transformers": ("shared", "transformers"),
    "llama-cpp": ("shared", "llama_cpp"),
    "vllm": ("shared", "vllm"),
}
"""Folders of the files for each engine."""

_ROOT = Path(__file__).parent / "templates" / _LLM
_SUFFIX = ".template"
"""Ends the names of the files, which are not modules of this package."""


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "init",
        allow_abbrev=False,
        usage="penstock init [llm|model] [FOLDER] [--engine ENGINE] [--integration NAME]",
        help="write an example to start from",
        description="Writes an example into a new folder, which can be served unchanged. Without arguments, lists the "
        "templates.",
    )
    parser.add_argument("name", metavar="|".join(_TEMPLATES), nargs="?", help="template (default: model)")
    parser.add_argument("folder", metavar="FOLDER", nargs="?", help="new or empty folder (default: as the template)")
    parser.add_argument("--engine", metavar="|".join(_ENGINES), choices=[*_ENGINES], help="llm: default none")
    parser.add_argument(
        "--integration", metavar="NAME", help="write the example of an integration, in place of a template"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status.

    Raises:
        StartupError: the folder is not empty, or the arguments do not fit together.
    """
    if options.name is None and options.integration is None:
        if options.engine is not None:
            raise StartupError(f"--engine {options.engine}: expected the template {_LLM}")
        for name, summary in _TEMPLATES.items():
            print(f"penstock init {name:6} {summary}")
        return 0
    folder, written = _written(options)
    for path in written:
        print(f"wrote {path}")
    if options.engine not in (None, "none"):
        print(f"install its engine with: pip install -r {folder / 'requirements.txt'}")
    print(f"serve it with: penstock serve {folder}\ncheck it with: penstock check {folder}")
    return 0


def _written(options: argparse.Namespace) -> tuple[Path, list[Path]]:
    """Writes the files. Returns the folder and its files."""
    if options.integration is not None:
        if options.name is None or options.folder is not None or options.engine is not None:
            raise StartupError(f"--integration {options.integration}: expected one FOLDER, without a template")
        return Path(options.name), _scaffold.write(Path(options.name), options.integration)
    template, folder = options.name, Path(options.folder or options.name)
    if options.folder is None and template not in _TEMPLATES:
        template = _MODEL
    if template == _LLM:
        return folder, _scaffold.write_files(folder, _files(options.engine or "none"))
    if template != _MODEL:
        near = suggestion(template, _TEMPLATES)
        raise StartupError(f"there is no template {template!r}, expected {_LLM} or {_MODEL}{near}")
    if options.engine is not None:
        raise StartupError(f"--engine {options.engine} is for the template {_LLM}")
    return folder, _scaffold.write(folder, _detect.NATIVE)


def _files(engine: str) -> dict[str, str]:
    """The files of a language model, by name."""
    paths = (path for part in _ENGINES[engine] for path in (_ROOT / part).glob(f"*{_SUFFIX}"))
    found = {path.name.removesuffix(_SUFFIX): path.read_text(encoding="utf-8") for path in paths}
    return dict(sorted(found.items()))
