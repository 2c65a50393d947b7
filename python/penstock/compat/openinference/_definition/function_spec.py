"""`FunctionSpec`: source, tensors and requirements of a function, parsed from a DigitalHub definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock.compat.openinference._definition.validation import DefinitionError, ProblemList

__all__ = ["DATATYPES", "FunctionSpec", "Source", "TensorSpec", "parse_definition"]

DATATYPES = (
    *("BOOL", "FP16", "FP32", "FP64", "INT8", "INT16", "INT32", "INT64"),
    *("UINT8", "UINT16", "UINT32", "UINT64", "BYTES"),
)
_DATATYPES = {**{one: one for one in DATATYPES}, "STRING": "BYTES"}
_PYTHONS = {f"PYTHON3_{minor}": f"3.{minor}" for minor in (10, 11, 12, 13)}
_ENTITY = {"kind", "project", "name", "id", "key", "metadata", "spec", "status", "user", "penstock", "extensions"}
_SPEC = {
    *("source", "python_version", "requirements", "base_image", "image", "model_name", "inputs", "outputs"),
    # Siblings of `source`, same as keyword arguments of the SDK.
    *("code_src", "code", "base64", "handler", "init_function", "lang"),
}
_SOURCE = {"handler", "source", "code", "base64", "init_function", "lang"}


@dataclass(frozen=True)
class TensorSpec:
    """Declared tensor of a function."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    named: bool = True
    """The definition has a name for it. Tensors without one are matched by position."""


@dataclass(frozen=True)
class Source:
    """Source code of a function."""

    handler: str
    """`func`, or `package.module:func`."""
    source: str | None = None
    """A file, folder, archive or repository."""
    code: bytes | None = None
    """The code itself."""
    init_function: str | None = None


@dataclass(frozen=True)
class FunctionSpec:
    """A function of Open Inference."""

    name: str
    model_name: str
    source: Source
    project: str = "default"
    python_version: str | None = None
    """Version such as `3.12`."""
    requirements: tuple[str, ...] | str = ()
    """Lines in pip's format, or the path of a file with requirements."""
    base_image: str | None = None
    image: str | None = None
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Section `penstock` of the definition: defaults of the integration's options."""
    folder: Path = Path()
    """Base of relative paths."""

    def as_json(self) -> dict[str, Any]:
        """Returns the function in JSON's types."""
        document = asdict(self)
        document["folder"] = str(self.folder)
        code = self.source.code
        document["source"]["code"] = None if code is None else code.decode("utf-8", "surrogateescape")
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> FunctionSpec:
        """Restores the function from the result of `as_json`."""
        source = dict(document["source"])
        if source["code"] is not None:
            source["code"] = source["code"].encode("utf-8", "surrogateescape")
        requirements = document["requirements"]
        tensors = {
            role: tuple(TensorSpec(**{**one, "shape": tuple(one["shape"])}) for one in document[role])
            for role in ("inputs", "outputs")
        }
        changed: dict[str, Any] = {
            **document,
            **tensors,
            "source": Source(**source),
            "folder": Path(document["folder"]),
            "requirements": requirements if isinstance(requirements, str) else tuple(requirements),
        }
        return cls(**changed)


def parse_definition(entity: Mapping[str, Any], folder: Path, label: str = "this") -> FunctionSpec:
    """Parses a definition: the entity with `kind` and `spec`.

    Args:
        entity: Content of a file, or the result of the SDK's `to_dict()`.
        folder: Base of relative paths.
        label: Name of the definition in messages.

    Raises:
        DefinitionError: the definition is invalid; the error lists all problems with their paths.
    """
    problems = ProblemList()
    problems.known(entity, "", _ENTITY)
    if (kind := entity.get("kind")) != "openinference":
        problems.add("kind", f"must be openinference, not {kind!r}")
    spec = entity.get("spec")
    if not isinstance(spec, Mapping):
        problems.add("spec", "is required, as an object")
        raise DefinitionError(label, problems.found)
    problems.known(spec, "spec", _SPEC)
    name = problems.text(entity, "name", required=True)
    model_name = problems.text(spec, "spec.model_name", required=True)
    source = _source(spec, problems)
    settings = entity.get("penstock") or {}
    if not isinstance(settings, Mapping):
        problems.add("penstock", "must be an object")
        settings = {}
    inputs = tuple(problems.items(spec, "spec.inputs", lambda one, path: _tensor(one, path, problems)))
    if spec.get("inputs") in (None, [], ()):
        problems.add("spec.inputs", "must have at least one tensor")
    outputs = tuple(problems.items(spec, "spec.outputs", lambda one, path: _tensor(one, path, problems)))
    for role, tensors in (("inputs", inputs), ("outputs", outputs)):
        names = [one.name for one in tensors]
        for twice in sorted({one for one in names if names.count(one) > 1}):
            problems.add(f"spec.{role}", f"has {twice!r} twice")
    python_version = problems.one_of(spec, "spec.python_version", _PYTHONS)
    if spec.get("python_version") is None:
        problems.add("spec.python_version", f"is required: one of {', '.join(_PYTHONS)}")
    requirements = _requirements(spec, problems)
    project, base_image, image = (
        problems.text(entity, "project"),
        problems.text(spec, "spec.base_image"),
        problems.text(spec, "spec.image"),
    )
    if problems.found or source is None:
        raise DefinitionError(label, problems.found)
    return FunctionSpec(
        name=name or "",
        model_name=model_name or "",
        source=source,
        project=project or "default",
        python_version=python_version,
        requirements=requirements,
        base_image=base_image,
        image=image,
        inputs=inputs,
        outputs=outputs,
        settings=dict(settings),
        folder=folder.absolute(),
    )


def _source(spec: Mapping[str, Any], problems: ProblemList) -> Source | None:
    given, path = spec.get("source"), "spec.source"
    if given is None:
        siblings = {"source" if name == "code_src" else name: spec[name] for name in _SPEC - {"source"} if name in spec}
        given = {name: value for name, value in siblings.items() if name in _SOURCE}
        if not given:
            problems.add(path, "is required, as an object")
            return None
    if not isinstance(given, Mapping):
        problems.add(path, f"must be an object, not {type(given).__name__}")
        return None
    problems.known(given, path, _SOURCE)
    handler = problems.text(given, f"{path}.handler", required=True)
    if handler is not None and not _is_handler(handler):
        problems.add(f"{path}.handler", f"must be a function's name, or package.module:function, not {handler!r}")
    init = problems.text(given, f"{path}.init_function")
    if init is not None and not init.isidentifier():
        problems.add(f"{path}.init_function", f"must be the name of a function in the handler's module, not {init!r}")
    problems.one_of(given, f"{path}.lang", {"python": "python"})
    source = problems.text(given, f"{path}.source")
    code = _code(given, path, problems)
    if source is None and code is None and not any(given.get(name) for name in ("source", "code", "base64")):
        problems.add(path, "must have source, code or base64")
    if source is not None and source.partition(":")[0] in ("file", "local"):
        problems.add(f"{path}.source", "must be a plain path: the schemes file: and local: are not supported")
    return Source(handler or "", source, code, init)


def _code(given: Mapping[str, Any], path: str, problems: ProblemList) -> bytes | None:
    code = given.get("code")
    if code is not None:
        if isinstance(code, str):
            return code.encode()
        problems.add(f"{path}.code", f"must be a text, not {type(code).__name__}")
    encoded = problems.text(given, f"{path}.base64")
    if encoded is None:
        return None
    import base64
    import binascii

    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        problems.add(f"{path}.base64", "must be base64")
        return None


def _is_handler(handler: str) -> bool:
    module, separator, function = handler.rpartition(":")
    modules = module.split(".") if separator else []
    return function.isidentifier() and all(part.isidentifier() for part in modules)


def _tensor(given: Any, path: str, problems: ProblemList) -> TensorSpec | None:
    if not isinstance(given, Mapping):
        problems.add(path, f"must be an object, not {type(given).__name__}")
        return None
    problems.known(given, path, {"name", "datatype", "data_type", "shape", "metadata", "parameters"})
    key = "data_type" if "datatype" not in given and "data_type" in given else "datatype"
    before = len(problems.found)
    datatype = problems.one_of(given, f"{path}.{key}", _DATATYPES)
    shape = given.get("shape")
    if not isinstance(shape, (list, tuple)) or not shape:
        problems.add(f"{path}.shape", "must be a list with at least one number")
        shape = []
    for index, size in enumerate(shape):
        if isinstance(size, bool) or not isinstance(size, int) or size < -1:
            problems.add(f"{path}.shape[{index}]", f"must be a number of 0 or more, or -1 for any, not {size!r}")
    name = problems.text(given, f"{path}.name")
    if len(problems.found) > before:
        return None
    role, position = path.rpartition("[")[0].rpartition(".")[2][:-1], path.rpartition("[")[2][:-1]
    return TensorSpec(name or f"{role}-{position}", datatype or "FP32", tuple(shape), named=name is not None)


def _requirements(spec: Mapping[str, Any], problems: ProblemList) -> tuple[str, ...] | str:
    given = spec.get("requirements")
    if isinstance(given, str):
        return given

    def line(one: Any, path: str) -> str | None:
        if isinstance(one, str) and one.strip() and "\n" not in one:
            return one.strip()
        problems.add(path, f"must be a line as of a requirements file, not {one!r}")
        return None

    return tuple(problems.items(spec, "spec.requirements", line))
