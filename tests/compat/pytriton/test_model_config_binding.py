"""1.5, 1.6: rejected bindings, and the effect of a configuration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bound import X, Y, bound, rows, unexpected

from penstock import Batching, Cache, Level, Queueing
from penstock.compat.pytriton._bind import bind
from penstock.compat.pytriton._model.binding import Binding
from penstock.compat.pytriton._model.model_spec import to_queueing
from penstock.compat.pytriton.exceptions import PyTritonBadParameterError, PyTritonValidationError
from penstock.compat.pytriton.model_config import DynamicBatcher, ModelConfig, QueuePolicy, Tensor, TimeoutAction
from penstock.compat.pytriton.model_config.triton_model_config import TritonModelConfig


def echo(requests: list[Any]) -> list[dict[str, Any]]:
    return [{"y": request["x"]} for request in requests]


def model(**config: Any) -> Any:
    return bind(Binding.of("m", echo, [X], [Y], 1, ModelConfig(**config)), unexpected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", echo, [X], [Y]), "Model name cannot be empty"),
        (("a b", echo, [X], [Y]), "Model name can only contain alphanumeric characters, dots, underscores and dashes"),
        (("m", 3, [X], [Y]), "inference_fn has to be either callable or sequence of callables"),
        (("m", echo, [X], [Tensor((1,), np.int8, optional=True)]), "Output tensors cannot be optional."),
    ],
)
def test_invalid_bindings_are_rejected(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(PyTritonValidationError) as caught:
        Binding.of(*arguments)
    assert caught.value.message == message


def test_models_are_identified_by_version_and_case_insensitive_name() -> None:
    assert Binding.of("Model", echo, [X], [Y], 2).key == ("model", 2)


@pytest.mark.parametrize(
    "config",
    [
        {"max_batch_size": 0},
        {"batcher": DynamicBatcher(preferred_batch_size=[9])},
        {"batcher": DynamicBatcher(default_priority_level=1)},
        {"batcher": DynamicBatcher(priority_queue_policy={1: QueuePolicy()})},
        {"batcher": DynamicBatcher(priority_levels=1, priority_queue_policy={-1: QueuePolicy()})},
        {"batcher": DynamicBatcher(max_queue_delay_microseconds=-1)},
    ],
)
def test_invalid_values_are_rejected_at_load(config: dict[str, Any]) -> None:
    with pytest.raises(PyTritonBadParameterError):
        model(**config)


@pytest.mark.parametrize("dtype", [np.complex64, "datetime64"])
def test_unsupported_types_are_rejected_at_load(dtype: Any) -> None:
    binding = Binding.of("m", echo, [Tensor((1,), dtype, "x")], [Y])
    with pytest.raises(PyTritonBadParameterError, match="tensor 'x'"):
        bind(binding, unexpected)


def test_defaults_join_requests_without_a_delay() -> None:
    spec = model()
    assert spec.batching == Batching(4)
    assert (spec.instances, spec.queueing, spec.cache) == (1, None, None)
    assert spec.max_queue > 10**9


def test_dynamic_batcher_configures_batching() -> None:
    spec = model(batcher=DynamicBatcher(1500, [2, 4]), max_batch_size=8)
    assert spec.batching == Batching(8, max_delay=0.0015, preferred_sizes=[2, 4])


@pytest.mark.parametrize("batcher", [None, "anything"])
def test_other_batchers_disable_dynamic_batching(batcher: Any) -> None:
    assert model(batcher=batcher).batching == Batching(4, dynamic=False)
    assert model(batcher=batcher, batching=False).batching is None


def test_queue_policies_configure_queueing() -> None:
    assert to_queueing(ModelConfig(batcher=DynamicBatcher(priority_levels=3))) == Queueing(3)
    policy = QueuePolicy(TimeoutAction.DELAY, 1_000_000, max_queue_size=5)
    assert to_queueing(ModelConfig(batcher=DynamicBatcher(default_queue_policy=policy))) == Queueing(
        1, levels={1: Level(max_size=5, timeout=1.0, on_timeout="delay")}
    )
    batcher = DynamicBatcher(
        priority_levels=2,
        default_priority_level=1,
        default_queue_policy=QueuePolicy(max_queue_size=3),
        priority_queue_policy={2: policy},
    )
    levels = {1: Level(max_size=3), 2: Level(max_size=5, timeout=1.0, on_timeout="delay")}
    assert to_queueing(ModelConfig(batcher=batcher)) == Queueing(2, default_priority=1, levels=levels)
    assert model(batcher=batcher).queueing == to_queueing(ModelConfig(batcher=batcher))


def test_response_cache_computes_equal_requests_once() -> None:
    calls = []

    def counting(requests: list[Any]) -> list[dict[str, Any]]:
        calls.append(len(requests))
        return echo(requests)

    assert model(response_cache=True).cache == Cache(per_caller=False)
    assert model(response_cache=True, decoupled=True).cache is None
    with bound(counting, response_cache=True) as client:
        for number in range(3):
            # PyTriton's clients number their requests.
            assert client.infer("m", {"x": rows(1)}, request_id=str(number))["y"].tolist() == [[1]]
        client.infer("m", {"x": rows(1)}, parameters={"a": 1})
    assert len(calls) == 2


DTYPES = [np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, np.float32, np.float64]


@pytest.mark.parametrize("dtype", [*DTYPES, *FLOATS, np.dtype("float32"), "float32"])
def test_numeric_datatypes_are_returned_unchanged(dtype: Any) -> None:
    values = np.array([[0, 1]], np.dtype(dtype))
    with bound(echo, inputs=(Tensor((2,), dtype, "x"),), outputs=(Tensor((2,), dtype, "y"),)) as client:
        outputs = client.infer("m", {"x": values})["y"]
    assert (outputs.dtype, outputs.tolist()) == (values.dtype, values.tolist())


@pytest.mark.parametrize("dtype", [bytes, np.bytes_, object, np.object_, str])
def test_texts_are_object_arrays_of_bytes(dtype: Any) -> None:
    received = []

    def infer(requests: list[Any]) -> list[dict[str, Any]]:
        received.extend(requests[0]["x"].ravel().tolist())
        return echo(requests)

    values = np.array([[b"a\0b\0", "ü".encode()]], object)
    with bound(infer, inputs=(Tensor((2,), dtype, "x"),), outputs=(Tensor((2,), dtype, "y"),)) as client:
        assert client.infer("m", {"x": values})["y"].tolist() == values.tolist()
    assert received == [b"a\0b\0", "ü".encode()]


def test_scalar_rows_may_be_declared() -> None:
    with bound(echo, inputs=(Tensor((), np.int32, "x"),), outputs=(Tensor((), np.int32, "y"),)) as client:
        assert client.infer("m", {"x": np.array([1, 2], np.int32)})["y"].tolist() == [1, 2]


def test_model_without_inputs_may_be_bound() -> None:
    def infer(requests: list[Any]) -> list[dict[str, Any]]:
        return [{"y": np.ones((1, 2), np.float32)} for _ in requests]

    with bound(infer, inputs=()) as client:
        assert client.infer("m", {})["y"].tolist() == [[1, 1]]


def test_tensors_and_configurations_have_pytritons_defaults() -> None:
    tensor = Tensor((1,), np.dtype("int8"))
    assert (tensor.shape, tensor.dtype, tensor.name, tensor.optional) == ((1,), np.int8, None, False)
    with pytest.raises(AttributeError):
        tensor.name = "x"  # type: ignore[misc]
    assert ModelConfig() == ModelConfig(True, 4, DynamicBatcher(0, None, False, 0, 0, None, None), False, False, None)
    assert QueuePolicy() == QueuePolicy(TimeoutAction.REJECT, 0, False, 0)
    assert TritonModelConfig("m").backend == "python"
