"""`ModelConfigParser`: the parser of Triton's model configurations."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.compat.pytriton.exceptions import PyTritonModelConfigError
from penstock.compat.pytriton.model_config import _pbtxt
from penstock.compat.pytriton.model_config._datatypes import from_triton
from penstock.compat.pytriton.model_config.common import (
    DeviceKind,
    DynamicBatcher,
    ModelWarmup,
    QueuePolicy,
    TimeoutAction,
    WarmupInput,
)
from penstock.compat.pytriton.model_config.triton_model_config import ResponseCache, TensorSpec, TritonModelConfig

__all__ = ["ModelConfigParser"]

Message = Mapping[str, Any]


class ModelConfigParser:
    """Parser of a model's configuration."""

    @classmethod
    def from_dict(cls, model_config_dict: Message) -> TritonModelConfig:
        """Parses a dictionary, with the names of the protocol or of `ModelConfigGenerator`.

        Raises:
            PyTritonModelConfigError: the description of a tensor is incomplete.
            KeyError: the model's name is missing.
        """
        config = model_config_dict
        max_batch_size = int(config.get("max_batch_size", 0))
        batcher = config.get("dynamic_batching")
        response_cache = config.get("response_cache")
        return TritonModelConfig(
            model_name=config["name"],
            batching=max_batch_size > 0,
            max_batch_size=max_batch_size,
            batcher=None if batcher is None else _batcher(batcher),
            inputs=[cls.rewrite_io_spec(one, "input", index) for index, one in enumerate(config.get("input", []))]
            or None,
            outputs=[cls.rewrite_io_spec(one, "output", index) for index, one in enumerate(config.get("output", []))]
            or None,
            instance_group={
                DeviceKind(one.get("kind", "KIND_AUTO")): one.get("count") for one in config.get("instance_group", [])
            },
            decoupled=config.get("model_transaction_policy", {}).get("decoupled", False),
            backend_parameters=_parameters(config.get("parameters", [])),
            response_cache=ResponseCache(enable=bool(response_cache["enable"])) if response_cache else None,
            model_warmup=[_warmup(one) for one in config.get("model_warmup") or ()] or None,
        )

    @classmethod
    def from_file(cls, *, config_path: pathlib.Path) -> TritonModelConfig:
        """Parses a `config.pbtxt` file.

        Raises:
            PyTritonModelConfigError: the syntax is invalid, or the description of a tensor is incomplete.
            OSError: the file cannot be read.
        """
        return cls.from_dict(_pbtxt.read(pathlib.Path(config_path).read_text(encoding="utf-8")))

    @classmethod
    def rewrite_io_spec(cls, item: Message, io_type: str, idx: int) -> TensorSpec:
        """Parses one tensor.

        Args:
            item: Description of the tensor.
            io_type: "input" or "output".
            idx: Index of the tensor, for messages.

        Raises:
            PyTritonModelConfigError: name, type or shape is missing.
        """
        name = item.get("name")
        if not name:
            raise PyTritonModelConfigError(f"Name for {io_type} at index {idx} not provided.")
        context = f"{io_type} with name `{name}`"
        dtype = from_triton(item.get("data_type"), context)
        return TensorSpec(name, _dims(item, context), dtype, item.get("optional", False))


def _dims(item: Message, context: str) -> tuple[int, ...]:
    dims = item.get("dims", [])
    if not dims:
        raise PyTritonModelConfigError(f"Dimension for {context} not defined.")
    # JSON may encode 64-bit integers as strings.
    return tuple(int(size) for size in dims)


def _parameters(given: Any) -> dict[str, str]:
    if isinstance(given, Mapping):
        return {name: value["string_value"] for name, value in given.items()}
    if isinstance(given, Sequence) and not isinstance(given, str):
        return dict.fromkeys(given, "")
    raise TypeError(f"Invalid type for backend_parameters_config: {type(given)}")


def _batcher(message: Message) -> DynamicBatcher:
    default = _field(message, "default_queue_policy")
    policies = _field(message, "priority_queue_policy")
    return DynamicBatcher(
        preferred_batch_size=_field(message, "preferred_batch_size"),
        max_queue_delay_microseconds=int(_field(message, "max_queue_delay_microseconds", 0)),
        preserve_ordering=bool(_field(message, "preserve_ordering", False)),
        priority_levels=int(_field(message, "priority_levels", 0)),
        default_priority_level=int(_field(message, "default_priority_level", 0)),
        default_queue_policy=_policy(default) if default else None,
        priority_queue_policy={int(level): _policy(one) for level, one in policies.items()} if policies else None,
    )


def _policy(message: Message) -> QueuePolicy:
    return QueuePolicy(
        timeout_action=TimeoutAction(_field(message, "timeout_action", TimeoutAction.REJECT.value)),
        default_timeout_microseconds=int(_field(message, "default_timeout_microseconds", 0)),
        allow_timeout_override=bool(_field(message, "allow_timeout_override", False)),
        max_queue_size=int(_field(message, "max_queue_size", 0)),
    )


def _field(message: Message, name: str, default: Any = None) -> Any:
    """Returns a field by its name in the protocol, or by its name in camel case."""
    head, *others = name.split("_")
    return message.get(name, message.get(head + "".join(one.capitalize() for one in others), default))


def _warmup(message: Message) -> ModelWarmup:
    inputs = {name: _warmup_input(name, one) for name, one in message["inputs"].items()}
    return ModelWarmup(message["name"], int(message["batch_size"]), inputs, int(message["count"]))


def _warmup_input(name: str, message: Message) -> WarmupInput:
    return WarmupInput(
        dtype=from_triton(message.get("data_type"), name),
        shape=_dims(message, name),
        zero_data=message.get("zero_data", False),
        random_data=message.get("random_data", False),
        input_data_file=message.get("input_data_file"),
    )
