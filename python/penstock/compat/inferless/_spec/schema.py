"""`Schema` and `Tensor`: the declared inputs and outputs of an app."""

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
"""Kind of value of each wire datatype."""


class SchemaError(ValueError):
    """The app's declaration of its inputs is invalid."""


@dataclass(frozen=True)
class Tensor:
    """One input or output."""

    name: str
    datatype: str
    """Wire datatype: BYTES for STRING."""
    shape: tuple[int, ...]
    """Lengths of the axes; -1 for any length."""
    required: bool = True
    example: Any = None

    @property
    def is_scalar(self) -> bool:
        """True if `infer` gets one value instead of a list."""
        return self.shape == (1,)


@dataclass(frozen=True)
class Schema:
    """Inputs, outputs and call mode of an app."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...] = ()
    """The declared outputs; an app may return others."""
    source: str = "input_schema.py"
    """File or class of the declaration."""
    batch_size: int = 0
    """Most requests per call of `infer`; 0 for one request per call without lists."""
    batch_window: float = 500.0
    """Longest wait of a batch's first request, in milliseconds."""
    streaming: bool = False
    """True if `infer` streams its response."""
    warnings: tuple[str, ...] = field(default=(), compare=False)

    def tensor(self, name: str) -> Tensor | None:
        """Returns an input by name; None if it is not declared."""
        return next((one for one in self.inputs if one.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """Returns the schema for `from_json`. Examples may be of types without a JSON form."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Schema:
        """Returns the schema of a result of `to_json`."""
        tensors = {
            role: tuple(Tensor(**{**one, "shape": tuple(one["shape"])}) for one in values[role])
            for role in ("inputs", "outputs")
        }
        return cls(**{**values, **tensors, "warnings": tuple(values["warnings"])})


def read_inputs(declared: object, where: str = "INPUT_SCHEMA") -> tuple[Tensor, ...]:
    """Reads the inputs that a dict such as `INPUT_SCHEMA` declares.

    Raises:
        SchemaError: the dict is invalid; the message names the input.
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
    """Returns the wire name of a datatype.

    Raises:
        SchemaError: the datatype is unknown.
    """
    word = str(datatype).upper()
    word = "BYTES" if word == "STRING" else word
    if word not in FAMILIES:
        known = ", ".join([*FAMILIES, "STRING"])
        raise SchemaError(f"{where} has the unknown datatype {datatype!r}, expected one of {known}")
    return word


def read_shape(shape: object, where: str) -> tuple[int, ...]:
    """Checks a shape and returns it as a tuple.

    Raises:
        SchemaError: the shape is not a list of lengths.
    """
    good = isinstance(shape, (list, tuple)) and shape
    if not good or any(not isinstance(one, int) or isinstance(one, bool) or one < -1 for one in shape):  # type: ignore[attr-defined]
        raise SchemaError(f"{where}: 'shape' must be a list such as [1] or [-1], not {shape!r}")
    return tuple(shape)  # type: ignore[arg-type]
