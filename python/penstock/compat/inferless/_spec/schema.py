"""`Schema` and `Tensor`: which inputs an app takes, wherever it says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["FAMILIES", "Schema", "SchemaError", "Tensor", "read_inputs"]

FAMILIES = {
    "BOOL": "bool",
    **dict.fromkeys(("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"), "int"),
    **dict.fromkeys(("FP16", "FP32", "FP64", "BF16"), "float"),
    "BYTES": "text",
}
"""What kind of value a datatype of the wire holds."""


class SchemaError(ValueError):
    """The app's declaration of its inputs is wrong."""


@dataclass(frozen=True)
class Tensor:
    """One input or output."""

    name: str
    datatype: str
    """Of the wire: STRING is BYTES."""
    shape: tuple[int, ...]
    """-1 stands for any length."""
    required: bool = True
    example: Any = None

    @property
    def is_scalar(self) -> bool:
        """Whether `infer` gets one value rather than a list."""
        return self.shape == (1,)


@dataclass(frozen=True)
class Schema:
    """What an app takes and how it is called."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...] = ()
    """Those that are declared; an app that declares none answers with any."""
    source: str = "input_schema.py"
    """Where it is declared."""
    batch_size: int = 0
    """How many requests share a call of `infer`; 0 where each has its own."""
    batch_window: float = 500.0
    """How long, in milliseconds, the oldest of them waits for company."""
    streaming: bool = False
    """Whether `infer` answers in pieces."""
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def tensor(self, name: str) -> Tensor | None:
        """An input by its name."""
        return next((one for one in self.inputs if one.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """All of it, as `from_json` reads it. Examples that JSON does not have are left out."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Schema:
        """What `to_json` gave."""
        tensors = {
            role: tuple(Tensor(**{**one, "shape": tuple(one["shape"])}) for one in told[role])
            for role in ("inputs", "outputs")
        }
        return cls(**{**told, **tensors, "warnings": tuple(told["warnings"])})


def read_inputs(declared: object, where: str = "INPUT_SCHEMA") -> tuple[Tensor, ...]:
    """The inputs that a dict such as `INPUT_SCHEMA` declares.

    Raises:
        SchemaError: it is no such dict; the message names the input and what is expected.
    """
    if not isinstance(declared, Mapping):
        raise SchemaError(f"{where} must be a dict of inputs by name, not a {type(declared).__name__}")
    return tuple(_read_input(str(name), one, f"{where}[{name!r}]") for name, one in declared.items())


def _read_input(name: str, declared: object, where: str) -> Tensor:
    if not isinstance(declared, Mapping):
        raise SchemaError(f"{where} must be a dict with 'datatype' and 'shape', not a {type(declared).__name__}")
    required = declared.get("required", True)
    if not isinstance(required, bool):
        raise SchemaError(f"{where}: 'required' must be True or False, not {required!r}")
    if "datatype" not in declared:
        raise SchemaError(f"{where} has no 'datatype'")
    shape = declared.get("shape")
    if shape is None and not required:
        shape = [1]
    return Tensor(
        name=name,
        datatype=wire_type(declared["datatype"], where),
        shape=read_shape(shape, where),
        required=required,
        example=declared.get("example"),
    )


def wire_type(datatype: object, where: str) -> str:
    """The wire's name of a datatype.

    Raises:
        SchemaError: there is none.
    """
    word = str(datatype).upper()
    word = "BYTES" if word == "STRING" else word
    if word not in FAMILIES:
        known = ", ".join([*FAMILIES, "STRING"])
        raise SchemaError(f"{where} has the unknown datatype {datatype!r}, expected one of {known}")
    return word


def read_shape(shape: object, where: str) -> tuple[int, ...]:
    """A shape.

    Raises:
        SchemaError: it is none.
    """
    good = isinstance(shape, (list, tuple)) and shape
    if not good or any(not isinstance(one, int) or isinstance(one, bool) or one < -1 for one in shape):  # type: ignore[attr-defined]
        raise SchemaError(f"{where}: 'shape' must be a list such as [1] or [-1], not {shape!r}")
    return tuple(shape)  # type: ignore[arg-type]
