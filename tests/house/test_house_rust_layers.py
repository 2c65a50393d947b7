"""Between the folders of a crate imports go one way; inside a folder they may go anywhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from house import ROOT, is_test, sources, without_comments, without_tests

LAYERS = {
    "core": (
        "error",
        "tensor",
        "route",
        "spec",
        "request",
        "reply",
        "batch",
        "metrics",
        "cache",
        "queue",
        "job",
        "model",
    ),
    "server": (
        "settings",
        "shared_memory",
        "observe",
        "keys",
        "streams",
        "state",
        "body",
        "infer",
        "rest",
        "grpc",
        "dispatch",
        "net",
    ),
    "wire": (
        "shared_memory",
        "repository",
        "request_schema",
        "client_types",
        "coding",
        "settings",
        "cache_entry",
        "parameters",
        "request",
        "grpc",
        "json",
        "rest",
        "openapi",
    ),
    "process": ("transport", "codec", "supervisor", "worker"),
    "py": (
        "seconds",
        "exit",
        "descriptors",
        "attach",
        "wakeup",
        "errors",
        "stacks",
        "forks",
        "convert",
        "control_channel",
        "raw_request",
        "peers",
        "definition",
        "handler",
        "event_loop",
        "process",
        "client",
        "server",
    ),
}
"""The folders and top-level files of each crate, lowest first. Each imports only those before it."""

Module = tuple[str, ...]


class Import(NamedTuple):
    """A path of a `use`, absolute within the crate, and the name that it binds."""

    path: Module
    name: str


def leaves(tree: str, prefix: Module = ()) -> list[tuple[Module, str]]:
    """The paths of a `use` tree, each with the name that it binds."""
    found: list[tuple[Module, str]] = []
    for item in filter(None, (item.strip() for item in split(tree))):
        if group := re.fullmatch(r"([^{]*?)\{(.*)\}", item, re.DOTALL):
            found += leaves(group[2], prefix + parts(group[1]))
        else:
            path, _, alias = item.partition(" as ")
            found.append((prefix + parts(path), alias.strip() or parts(path)[-1]))
    return found


def split(tree: str) -> list[str]:
    """The items of a `use` group, at the commas outside of braces."""
    items, depth = [""], 0
    for character in tree:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            items.append("")
        else:
            items[-1] += character
    return items


def parts(path: str) -> Module:
    return tuple(part.strip() for part in path.split("::") if part.strip())


def module_of(path: Path, source_root: Path) -> Module:
    names = path.relative_to(source_root).with_suffix("").parts
    return names[:-1] if names[-1] in {"lib", "mod"} else names


class Crate:
    """The modules of a crate, what each imports, and what each re-exports."""

    def __init__(self, name: str) -> None:
        root = ROOT / "rust" / name / "src"
        paths = [path for path in sources(".rs", under=f"rust/{name}/src/") if not is_test(path)]
        self.modules = {module_of(path, root): path for path in paths}
        self.imports: dict[Module, list[Import]] = {}
        self.exports: dict[Module, dict[str, Module]] = {}
        for module, path in self.modules.items():
            self.read(module, without_tests(without_comments(path.read_text())))

    def read(self, module: Module, source: str) -> None:
        imports: list[Import] = []
        exports: dict[str, Module] = {}
        use = re.compile(r"^\s*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", re.MULTILINE)
        for public, tree in use.findall(source):
            for path, name in leaves(tree):
                if (target := self.absolute(module, path)) is not None:
                    imports.append(Import(target, name))
                    if public:
                        exports[name] = target
        for path in re.findall(r"\b(?:crate|super|self)(?:::\w+)+", use.sub("", source)):
            if (target := self.absolute(module, parts(path))) is not None:
                imports.append(Import(target, target[-1]))
        self.imports[module], self.exports[module] = imports, exports

    def absolute(self, module: Module, path: Module) -> Module | None:
        """A path from the crate's root; `None` for another crate's."""
        if path[0] == "crate":
            return path[1:]
        if path[0] == "self":
            return module + path[1:]
        if path[0] == "super":
            up = next(index for index, part in enumerate(path) if part != "super")
            return module[: len(module) - up] + path[up:]
        return module + path if (*module, path[0]) in self.modules else None

    def defining(self, path: Module, seen: frozenset[Module] = frozenset()) -> Module:
        """The module that defines the item of a path, through re-exports."""
        length = next(length for length in range(len(path), -1, -1) if path[:length] in self.modules or not length)
        module, rest = path[:length], path[length:]
        exported = self.exports.get(module, {}).get(rest[0]) if rest else None
        if exported is None or path in seen:
            return module
        return self.defining(exported + rest[1:], seen | {path})

    def upward(self, layers: tuple[str, ...]) -> list[str]:
        """The imports that lead from a layer to a higher one."""
        found = []
        for module, imports in self.imports.items():
            if not module:
                continue
            for path, _ in imports:
                target = self.defining(path)
                if target and layers.index(target[0]) > layers.index(module[0]):
                    found.append(f"{'/'.join(module)} imports {'::'.join(path)} of {target[0]}/")
        return found


@pytest.mark.parametrize("name", LAYERS)
def test_each_folder_of_a_crate_has_a_layer(name: str) -> None:
    assert {module[0] for module in Crate(name).modules if module} == set(LAYERS[name])


@pytest.mark.parametrize("name", LAYERS)
def test_imports_between_folders_go_one_way(name: str) -> None:
    assert not Crate(name).upward(LAYERS[name])


def test_an_import_through_a_re_export_leads_to_where_the_item_is_defined() -> None:
    core = Crate("core")
    assert core.defining(("Job",)) == ("job", "job")
    assert core.defining(("queue", "Queue")) == ("queue", "model_queue")
    assert core.defining(("batch", "policy", "Reason")) == ("batch", "reason")
    assert core.upward(tuple(reversed(LAYERS["core"])))
