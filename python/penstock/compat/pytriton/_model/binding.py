"""`Binding`: the validated arguments of `Triton.bind`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.compat.pytriton.exceptions import PyTritonValidationError
from penstock.compat.pytriton.model_config import DeviceKind, ModelConfig, Tensor
from penstock.compat.pytriton.model_config.common import is_dynamic
from penstock.compat.pytriton.model_config.triton_model_config import ResponseCache, TensorSpec, TritonModelConfig

__all__ = ["Binding"]

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True)
class Binding:
    """The validated arguments of `Triton.bind`."""

    name: str
    """Name on the wire."""
    version: int
    """Version on the wire."""
    callables: tuple[Callable[..., Any], ...]
    """Inference callable of each instance."""
    inputs: tuple[Tensor, ...]
    """Inputs, each with a name."""
    outputs: tuple[Tensor, ...]
    """Outputs, each with a name."""
    config: ModelConfig
    """Batching, queueing and the other options."""
    strict: bool
    """Results have to match the declared outputs."""

    @classmethod
    def of(  # noqa: PLR0917 - in the order of `bind`
        cls,
        model_name: str,
        infer_func: Callable[..., Any] | Sequence[Callable[..., Any]],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        model_version: int = 1,
        config: ModelConfig | None = None,
        strict: bool = False,
    ) -> Binding:
        """Validates the arguments of `bind`. Tensors without a name get a numbered one.

        Raises:
            PyTritonValidationError: the name is invalid, nothing is callable, or an output is optional.
        """
        if not model_name:
            raise PyTritonValidationError("Model name cannot be empty")
        if not _NAME.fullmatch(model_name):
            raise PyTritonValidationError(
                "Model name can only contain alphanumeric characters, dots, underscores and dashes"
            )
        if any(output.optional for output in outputs):
            raise PyTritonValidationError("Output tensors cannot be optional.")
        return cls(
            name=model_name,
            version=model_version,
            callables=_callables(infer_func),
            inputs=_named(inputs, "INPUT"),
            outputs=_named(outputs, "OUTPUT"),
            config=ModelConfig() if config is None else config,
            strict=strict,
        )

    @property
    def key(self) -> tuple[str, int]:
        """Identity of the model: unique among the bound ones, without regard to case."""
        return self.name.lower(), self.version

    def triton_config(self) -> TritonModelConfig:
        """Returns the configuration as the callables see it."""
        config = self.config
        return TritonModelConfig(
            model_name=self.name,
            model_version=self.version,
            max_batch_size=config.max_batch_size,
            batching=config.batching,
            batcher=config.batcher if is_dynamic(config.batcher) else None,
            instance_group={DeviceKind.KIND_CPU: len(self.callables)},
            decoupled=config.decoupled,
            inputs=[_spec(tensor) for tensor in self.inputs],
            outputs=[_spec(tensor) for tensor in self.outputs],
            response_cache=ResponseCache(enable=True) if config.response_cache else None,
        )


def _callables(infer_func: Any) -> tuple[Callable[..., Any], ...]:
    if callable(infer_func):
        return (infer_func,)
    if isinstance(infer_func, Sequence) and infer_func and all(callable(each) for each in infer_func):
        return tuple(infer_func)
    raise PyTritonValidationError("inference_fn has to be either callable or sequence of callables")


def _named(tensors: Sequence[Tensor], prefix: str) -> tuple[Tensor, ...]:
    return tuple(
        tensor if tensor.name else replace(tensor, name=f"{prefix}_{number}")
        for number, tensor in enumerate(tensors, 1)
    )


def _spec(tensor: Tensor) -> TensorSpec:
    return TensorSpec(str(tensor.name), tensor.shape, tensor.dtype, tensor.optional)
