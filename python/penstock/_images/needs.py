"""Needs of the code in an image that the image lacks: packages that it imports, and files that it reads."""

from __future__ import annotations

import ast
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from penstock._images import context
from penstock._runtime.tracebacks import is_ours
from penstock._spec.image import ImageSpec

__all__ = ["missing_files", "missing_packages", "opened_files"]

_OF_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")
_OURS = "penstock"
"""The distribution of this package, which each image installs with what it requires."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REQUIREMENT = re.compile(rf"({_NAME.pattern})\s*(?:[\[<>=!~;@,(]|$|\s)")
_CODE = (".py", ".pyc", ".pyi", ".so", ".pth", ".egg-info", ".dist-info")


class _Recorder:
    """Records the files that Python code opens. An audit hook cannot be removed, so there is one for the process."""

    def __init__(self) -> None:
        self.opened: dict[str, bool] | None = None
        """True for files that were opened for writing, by path; None outside of a recording."""
        self._is_hooked = False

    def start(self) -> dict[str, bool]:
        if not self._is_hooked:
            self._is_hooked = True
            sys.addaudithook(self._hook)
        self.opened = {}
        return self.opened

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.opened is None or event != "open":
            return
        path, _, flags = (*arguments, None, None)[:3]
        if isinstance(path, (str, bytes)):
            writes = isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))
            name = os.path.abspath(os.fsdecode(path))
            self.opened[name] = writes or self.opened.get(name, False)


_RECORDER = _Recorder()


@contextmanager
def opened_files() -> Iterator[dict[str, bool]]:
    """Records the files that Python code opens meanwhile: whether it writes them, by path."""
    try:
        yield _RECORDER.start()
    finally:
        _RECORDER.opened = None


def missing_files(spec: ImageSpec, opened: dict[str, bool]) -> list[str]:
    """A sentence for each file that was read, and is not copied into the image."""
    copied = {str(path) for path in _copied(spec)}
    roots = tuple(str(source.resolve()) for source, _ in spec.files)
    elsewhere = [*_OF_SYSTEM, sys.prefix, sys.base_prefix, os.path.expanduser("~/.local/lib")]
    elsewhere += [os.path.realpath(path) for path in sys.path if path and os.path.realpath(path) not in roots]
    problems = []
    for name, writes in opened.items():
        path = os.path.realpath(name)
        if writes or path in copied or path.endswith(_CODE) or is_ours(path) or not _is_file(path):
            continue
        if path.startswith(tuple(f"{root}{os.sep}" for root in roots)):
            problems.append(f"its code reads {name}, which .dockerignore keeps out of its image")
        elif not any(Path(path).is_relative_to(folder) for folder in elsewhere):
            problems.append(f"its code reads {name}, which its image does not have; add it to files in [image]")
    return problems


def missing_packages(spec: ImageSpec) -> list[str]:
    """A sentence for each package that the imported code of the image imports, and no requirement brings.

    Empty where it is not known what the image has: another base image, commands that install, or requirements that
    are not installed here.
    """
    if spec.base_image is not None or any("install" in one for one in (*spec.commands_before, *spec.commands_after)):
        return []
    provided = _closure(spec.requirements)
    if provided is None:
        return []
    copied = {path for path in _copied(spec) if path.suffix == ".py"}
    local = {path.stem for path in copied} | {path.parent.name for path in copied}
    loaded = {os.path.realpath(file) for one in [*sys.modules.values()] if (file := getattr(one, "__file__", None))}
    distributions = metadata.packages_distributions()
    problems: dict[str, str] = {}
    for path in sorted(path for path in copied if str(path) in loaded):
        for line, package in _imports(path):
            if package in sys.stdlib_module_names or package in local or package == _OURS:
                continue
            owners = {_plain(one) for one in distributions.get(package, ())}
            if owners and owners.isdisjoint(provided):
                name = min(owners)
                problems.setdefault(
                    package,
                    f"{path.name}, line {line}, imports {package}, which its image does not have; "
                    f"add {name} to requirements.txt, or to requirements in [image]",
                )
    return list(problems.values())


def _copied(spec: ImageSpec) -> Iterator[Path]:
    for source, _ in spec.files:
        if source.is_dir():
            yield from ((source / name).resolve() for name in context.files_of(source))
        else:
            yield source.resolve()


def _closure(requirements: Iterable[str]) -> set[str] | None:
    """Names of the distributions that requirements, and Penstock, bring; None if that is not known."""
    declared = [(_OURS, False)]
    """Distributions that the image installs by name, and whether with extras."""
    for text in requirements:
        if text.startswith("-"):
            continue
        match = _REQUIREMENT.match(text)
        if match is None or "://" in text.partition("@")[0]:
            return None
        declared.append((match[1], "[" in text))
    provided: set[str] = set()
    pending = [*declared]
    for place, (name, has_extras) in enumerate(pending):
        # The list grows meanwhile, by what its packages need.
        plain = _plain(name)
        if plain in provided:
            continue
        provided.add(plain)
        try:
            needed = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            if place < len(declared):
                # Not installed here, so its needs are unknown.
                return None
            continue
        for one in needed:
            # All extras of a requirement that names some: too few findings are better than wrong ones.
            if (match := _NAME.match(one)) and (has_extras or "extra ==" not in one):
                pending.append((match[0], "[" in one.partition(";")[0]))
    return provided


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and top-level package of each import, except those that may fail and those for type checkers."""
    pending: list[ast.AST] = [ast.parse(path.read_bytes())]
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.Import):
            yield from ((node.lineno, one.name.partition(".")[0]) for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.partition(".")[0]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending += node.orelse
        elif isinstance(node, ast.Try):
            pending += [*node.finalbody, *(() if node.handlers else node.body)]
        else:
            pending += ast.iter_child_nodes(node)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False
