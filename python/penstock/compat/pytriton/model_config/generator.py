"""`ModelConfigGenerator`: a model's configuration as Triton writes it."""

from __future__ import annotations

import pathlib
from typing import Any

from penstock.compat.pytriton.exceptions import PyTritonBadParameterError
from penstock.compat.pytriton.model_config import _pbtxt
from penstock.compat.pytriton.model_config._datatypes import to_triton
from penstock.compat.pytriton.model_config.common import (
    DynamicBatcher,
    ModelWarmup,
    QueuePolicy,
    WarmupInput,
    check_priorities,
)
from penstock.compat.pytriton.model_config.triton_model_config import TensorSpec, TritonModelConfig

__all__ = ["ModelConfigGenerator"]

Message = dict[str, Any]


class ModelConfigGenerator:
    """Generates Triton's configuration of a model.

    Args:
        config: Configuration of the model.
    """

    def __init__(self, config: TritonModelConfig) -> None:
        self._config = config

    def get_config(self) -> Message:
        """Returns the configuration in the form of Triton's JSON.

        Raises:
            PyTritonBadParameterError: a value is invalid.
        """
        config = self._config
        message: Message = {"name": config.model_name, "backend": config.backend, **self._batching()}
        if config.inputs:
            message["input"] = [_tensor(spec) for spec in config.inputs]
        if config.outputs:
            message["output"] = [_tensor(spec) for spec in config.outputs]
            optional = [spec.name for spec in config.outputs if spec.optional]
            if optional:
                raise PyTritonBadParameterError(
                    f"Optional flag for outputs is not supported. Outputs marked as optional: {', '.join(optional)}."
                )
        if config.instance_group:
            groups = config.instance_group.items()
            message["instance_group"] = [{"count": count, "kind": kind.value} for kind, count in groups]
        if config.decoupled:
            message["model_transaction_policy"] = {"decoupled": True}
        if config.backend_parameters:
            parameters = config.backend_parameters.items()
            message["parameters"] = {name: {"string_value": str(value)} for name, value in parameters}
        if config.response_cache:
            message["response_cache"] = {"enable": config.response_cache.enable}
        if config.model_warmup:
            message["model_warmup"] = [_warmup(one) for one in config.model_warmup]
        return message

    def to_file(self, config_path: str | pathlib.Path) -> str:
        """Writes the configuration as `config.pbtxt`, and creates missing folders.

        Returns:
            Text of the file.

        Raises:
            PyTritonBadParameterError: as `get_config`.
            OSError: the file cannot be written.
        """
        config = self.get_config()
        batcher = config.get("dynamic_batching")
        if batcher is not None:
            # The JSON names are in camel case, the names in a pbtxt file in snake case.
            config["dynamic_batching"] = _snake(batcher)
        text = _pbtxt.write(config)
        path = pathlib.Path(config_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Triton expects an explicit zero for a model without a batch axis. Default values are not written otherwise.
        path.write_text(text if config["max_batch_size"] else f"{text}max_batch_size: 0\n", encoding="ascii")
        return text

    def _batching(self) -> Message:
        config = self._config
        if not config.batching:
            return {"max_batch_size": 0}
        if config.max_batch_size < 1:
            raise PyTritonBadParameterError("The `max_batch_size` must be greater or equal to 1.")
        message: Message = {"max_batch_size": config.max_batch_size}
        if isinstance(config.batcher, DynamicBatcher):
            message["dynamic_batching"] = _batcher(config.batcher)
        return message


def _batcher(batcher: DynamicBatcher) -> Message:
    check_priorities(batcher)
    message: Message = {}
    if batcher.max_queue_delay_microseconds > 0:
        message["maxQueueDelayMicroseconds"] = int(batcher.max_queue_delay_microseconds)
    if batcher.preferred_batch_size:
        message["preferredBatchSize"] = [int(size) for size in batcher.preferred_batch_size]
    if batcher.preserve_ordering:
        message["preserveOrdering"] = batcher.preserve_ordering
    if batcher.priority_levels:
        message["priorityLevels"] = batcher.priority_levels
    if batcher.default_priority_level:
        message["defaultPriorityLevel"] = batcher.default_priority_level
    if batcher.default_queue_policy:
        message["defaultQueuePolicy"] = _policy(batcher.default_queue_policy)
    if batcher.priority_queue_policy:
        policies = batcher.priority_queue_policy.items()
        message["priorityQueuePolicy"] = {level: _policy(policy) for level, policy in policies}
    return message


def _policy(policy: QueuePolicy) -> Message:
    return {
        "timeoutAction": policy.timeout_action.value,
        "defaultTimeoutMicroseconds": int(policy.default_timeout_microseconds),
        "allowTimeoutOverride": policy.allow_timeout_override,
        "maxQueueSize": int(policy.max_queue_size),
    }


def _tensor(spec: TensorSpec) -> Message:
    message: Message = {"name": spec.name, "dims": list(spec.shape), "data_type": to_triton(spec.dtype)}
    return {**message, "optional": True} if spec.optional else message


def _warmup(warmup: ModelWarmup) -> Message:
    inputs = {name: _warmup_input(name, one) for name, one in warmup.inputs.items()}
    return {"name": warmup.name, "batch_size": warmup.batch_size, "inputs": inputs, "count": warmup.count}


def _warmup_input(name: str, warmup_input: WarmupInput) -> Message:
    sources = {
        "zero_data": warmup_input.zero_data,
        "random_data": warmup_input.random_data,
        "input_data_file": warmup_input.input_data_file,
    }
    source = next((source for source, value in sources.items() if value), None)
    if source is None:
        raise PyTritonBadParameterError(
            f"One of the `zero_data`, `random_data`, or `input_data_file` must be provided for warmup input `{name}`."
        )
    if not warmup_input.shape:
        raise PyTritonBadParameterError(f"Dimension for {name} not defined.")
    return {"data_type": to_triton(warmup_input.dtype), "dims": list(warmup_input.shape), source: sources[source]}


def _snake(message: Message) -> Message:
    def name(camel: Any) -> Any:
        if not isinstance(camel, str):
            return camel
        return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in camel)

    return {name(key): _snake(value) if isinstance(value, dict) else value for key, value in message.items()}
