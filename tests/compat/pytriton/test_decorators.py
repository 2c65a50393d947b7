"""1.8: unit tests of each decorator, on functions, methods and objects."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from penstock.compat.pytriton import decorators
from penstock.compat.pytriton.decorators import (
    ConstantPadder,
    ModelConfigDict,
    TritonContext,
    batch,
    convert_output,
    fill_optionals,
    first_value,
    get_inference_request_batch_size,
    get_model_config,
    group_by_keys,
    group_by_values,
    pad_batch,
    sample,
    triton_context,
)
from penstock.compat.pytriton.exceptions import (
    PyTritonBadParameterError,
    PyTritonRuntimeError,
    PyTritonValidationError,
)
from penstock.compat.pytriton.model_config import DynamicBatcher
from penstock.compat.pytriton.model_config.triton_model_config import TensorSpec, TritonModelConfig
from penstock.compat.pytriton.proxy.types import Request

Array = np.ndarray[Any, Any]


def column(*values: float) -> Array:
    return np.array(values, np.float32).reshape(-1, 1)


def texts(*values: bytes) -> Array:
    return np.array(values, object).reshape(-1, 1)


def requests() -> list[Request]:
    return [Request({"a": column(1, 2), "b": column(3, 4)}), Request({"a": column(5), "b": column(6)})]


def to_lists(value: Any) -> Any:
    """Converts nested arrays to lists."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (dict, Request)):
        return {name: to_lists(one) for name, one in value.items()}
    return [to_lists(one) for one in value] if isinstance(value, (list, tuple)) else value


def with_context(infer_callable: Any, *, shape: tuple[int, ...] = (1,), dtype: Any = np.float32, **more: Any) -> Any:
    """Gives a callable the context that binding gives it: inputs a and b, outputs x and y."""
    options = {"batcher": DynamicBatcher(), "max_batch_size": 8, **more}
    config = TritonModelConfig(
        "m",
        inputs=[TensorSpec("a", (1,), np.float32), TensorSpec("b", shape, dtype, optional=True)],
        outputs=[TensorSpec(name, (1,), np.float32) for name in "xy"],
        **options,
    )
    context = TritonContext()
    context.model_configs[infer_callable] = config
    getattr(infer_callable, "__self__", infer_callable).__triton_context__ = context
    return infer_callable


def test_batch_joins_rows_and_splits_outputs() -> None:
    summed = batch(lambda a, b: {"x": a + b})
    assert to_lists(summed(requests())) == [{"x": [[4], [6]]}, {"x": [[11]]}]
    in_order = with_context(batch(lambda a, b: (a, b)))
    assert to_lists(in_order(requests())) == [{"x": [[1], [2]], "y": [[3], [4]]}, {"x": [[5]], "y": [[6]]}]


def test_batch_splits_each_result_of_a_generator() -> None:
    @batch
    def chunks(a: Array, b: Array) -> Iterator[dict[str, Array]]:
        yield {"x": a}
        yield {"x": b}

    assert to_lists(list(chunks(requests()))) == [
        [{"x": [[1], [2]]}, {"x": [[5]]}],
        [{"x": [[3], [4]]}, {"x": [[6]]}],
    ]


def test_batch_rejects_requests_with_different_inputs() -> None:
    with pytest.raises(PyTritonValidationError, match="Cannot batch requests with different set of inputs keys"):
        batch(lambda **inputs: inputs)([Request({"a": column(1)}), Request({"b": column(1)})])


def test_list_outputs_need_a_bound_model() -> None:
    with pytest.raises(PyTritonValidationError, match="must bound with triton"):
        batch(lambda a, b: [a, b])(requests())


def test_sample_uses_the_first_request() -> None:
    assert to_lists(sample(lambda a, b: {"x": a})(requests())) == [{"x": [[1], [2]]}]
    assert to_lists(with_context(sample(lambda a, b: [b, a]))(requests())) == [{"x": [[3], [4]], "y": [[1], [2]]}]


def test_group_by_keys_preserves_the_order_of_requests() -> None:
    requests = [Request({"a": column(1)}), Request({"a": column(2), "b": column(5)}), Request({"a": column(3)})]
    summed = group_by_keys(batch(lambda **inputs: {"x": sum(inputs.values())}))
    assert to_lists(summed(requests)) == [{"x": [[1]]}, {"x": [[7]]}, {"x": [[3]]}]


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        (column(2, 1, 2, 0), [[4], [1, 3], [2]]),
        (np.array([3, 1, 3, 1]), [[2, 4], [1, 3]]),
        (texts(b"bb", b"a", b"bb", b""), [[4], [2], [1, 3]]),
    ],
)
def test_group_by_values_calls_for_each_value_in_order(keys: Array, order: list[list[int]]) -> None:
    batches = []

    @group_by_values("b")
    def infer(a: Array, b: Array) -> dict[str, Array]:
        batches.append(a.ravel().tolist())
        return {"x": a * 10}

    assert to_lists(infer(a=column(1, 2, 3, 4), b=keys)) == {"x": [[10], [20], [30], [40]]}
    assert batches == order


def test_group_by_values_must_be_inside_batch() -> None:
    inner = group_by_values("b")(lambda a, b: {"x": a * b})
    assert to_lists(batch(inner)(requests())) == [{"x": [[3], [8]]}, {"x": [[30]]}]
    with pytest.raises(PyTritonRuntimeError, match="must be used after the @batch decorator"):
        group_by_values("b")(batch(lambda a, b: {"x": a}))(a=column(1), b=column(1))


def test_results_of_different_shapes_are_padded() -> None:
    def wide(a: Array, b: Array) -> dict[str, Array]:
        return {"x": np.ones((len(a), int(b[0, 0])), np.int32)}

    inputs = {"a": column(1, 2, 3), "b": column(1, 2, 1)}
    padded = group_by_values("b", pad_fn=ConstantPadder(7))(wide)
    assert to_lists(padded(**inputs)) == {"x": [[1, 7], [1, 1], [1, 7]]}
    with pytest.raises(
        ValueError, match=r"^Rows of 'x' have shapes \(2,\) and \(1,\): give group_by_values a pad_fn\.$"
    ):
        group_by_values("b")(wide)(**inputs)


def test_texts_are_padded_with_empty_texts() -> None:
    short, long = {"t": np.array([[b"a"]])}, {"t": np.array([[b"abc", b"d"]])}
    assert to_lists(ConstantPadder()([short, long])) == [{"t": [[b"a", b""]]}, {"t": [[b"abc", b"d"]]}]
    objects = {"t": texts(b"a")}, {"t": np.array([[b"b", b"c"]], object)}
    assert to_lists(ConstantPadder()(objects)) == [{"t": [[b"a", b""]]}, {"t": [[b"b", b"c"]]}]
    with pytest.raises(PyTritonRuntimeError, match="must have the same dtype"):
        ConstantPadder()([{"x": column(1)}, {"x": column(1).astype(np.float64)}])


def identity(requests: Any) -> Any:
    return requests


def test_fill_optionals_fills_all_rows_with_the_default() -> None:
    filled = with_context(fill_optionals(b=np.array([7], np.float32))(identity))
    requests = [Request({"a": column(1, 2)}), Request({"a": column(1), "b": column(3)})]
    assert to_lists(filled(requests)) == [{"a": [[1], [2]], "b": [[7], [7]]}, {"a": [[1]], "b": [[3]]}]
    alone = with_context(fill_optionals(b=np.array([7], np.float32))(identity), batching=False)
    assert to_lists(alone([Request({"a": column(1)})])) == [{"a": [[1]], "b": [7]}]


@pytest.mark.parametrize("dtype", [object, bytes, np.bytes_])
def test_fill_optionals_accepts_bytes_and_object_arrays(dtype: Any) -> None:
    for default in (np.array([b"xyz"]), np.array([b"xyz"], object)):
        filled = with_context(fill_optionals(b=default)(identity), dtype=dtype)
        assert to_lists(filled([Request({"a": column(1, 2)})]))[0]["b"] == [[b"xyz"], [b"xyz"]]


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        ({"d": 1, "c": 2}, "Could not found c, d inputs"),
        ({"b": 3}, "Could not use b=3 defaults as they are not NumPy arrays"),
        ({"b": np.array([0.7])}, "Could not use b: dtype=float64 expected_dtype=<class 'numpy.float32'> defaults as"),
        ({"b": column(7)}, "Could not use b: shape=(1, 1) expected_shape=(1,) defaults as they have different than"),
        ({"b": column(7, 8).ravel()}, "Could not use b: shape=(2,) expected_shape=(1,) defaults as they have"),
    ],
)
def test_invalid_defaults_are_rejected(defaults: dict[str, Any], message: str) -> None:
    with pytest.raises(PyTritonBadParameterError) as caught:
        with_context(fill_optionals(**defaults)(identity))([Request({"a": column(1)})])
    assert caught.value.message.startswith(message)


def named(**inputs: Any) -> dict[str, Any]:
    return inputs


@pytest.mark.parametrize(
    ("values", "first"),
    [
        (column(1, 1), np.float32(1)),
        (np.array([[1, 2], [1, 2]]), [1, 2]),
        (np.array([[[3]], [[3]]], np.int8), np.int8(3)),
        (texts(b"x", b"x"), b"x"),
        (np.array([1, 1]), np.int64(1)),
    ],
)
def test_first_value_is_a_row_or_a_scalar(values: Array, first: Any) -> None:
    result = with_context(first_value("a", "missing")(named))(a=values, b=1)
    assert to_lists(result["a"]) == to_lists(first)
    assert isinstance(result["a"], np.ndarray) == isinstance(first, list)
    unsqueezed = with_context(first_value("a", squeeze_single_values=False)(named))(a=values)
    assert np.shape(unsqueezed["a"]) == values.shape[1:]


def test_first_value_is_strict_by_default() -> None:
    with pytest.raises(PyTritonRuntimeError, match="The values on the 'a' input are not equal"):
        with_context(first_value("a")(named))(a=column(1, 2))
    assert with_context(first_value("a", strict=False)(named))(a=column(1, 2)) == {"a": 1}
    with pytest.raises(PyTritonRuntimeError, match="can only be used with models that support batching"):
        with_context(first_value("a")(named), batching=False)(a=column(1))
    with pytest.raises(PyTritonBadParameterError, match="The keys __triton_context__ are not allowed"):
        first_value("a", "__triton_context__")


def test_first_value_decorates_both_kinds_of_callables() -> None:
    result = with_context(first_value("a")(identity))([Request({"a": column(1, 1)}), Request({"b": column(2)})])
    assert to_lists(result) == [{"a": 1}, {"b": [[2]]}]
    inside = with_context(batch(first_value("b")(lambda a, b: {"x": a * b})))
    requests = [Request({"a": column(1, 2), "b": column(3, 3)}), Request({"a": column(5), "b": column(3)})]
    assert to_lists(inside(requests)) == [{"x": [[3], [6]]}, {"x": [[15]]}]


@pytest.mark.parametrize(
    ("batcher", "rows"),
    [
        (DynamicBatcher(), 8),
        (DynamicBatcher(preferred_batch_size=[2, 4]), 4),
        (DynamicBatcher(preferred_batch_size=[6, 3]), 3),
        (None, 8),
    ],
)
def test_pad_batch_repeats_the_last_row_up_to_the_next_size(batcher: Any, rows: int) -> None:
    result = with_context(pad_batch(named), batcher=batcher)(a=column(1, 2, 3), b=texts(b"a", b"b", b"c"))
    assert to_lists(result["a"]) == [[1], [2], *[[3]] * (rows - 2)]
    assert to_lists(result["b"]) == [[b"a"], [b"b"], *[[b"c"]] * (rows - 2)]


def test_callable_must_remove_the_padding_of_pad_batch() -> None:
    unpadded = with_context(batch(pad_batch(lambda a, b: {"x": a[:3]})))
    assert to_lists(unpadded(requests())) == [{"x": [[1], [2]]}, {"x": [[5]]}]
    with pytest.raises(ValueError, match="Expected batch size: 3"):
        with_context(batch(pad_batch(lambda a, b: {"x": a})))(requests())


def test_triton_context_has_the_model_configuration() -> None:
    def infer(requests: Any, triton_context: TritonContext) -> Any:
        return triton_context.model_configs[decorated].model_name, list(triton_context.model_configs) == [decorated]

    decorated: Callable[..., Any] = with_context(triton_context(infer))
    assert decorated([]) == ("m", True)
    assert get_model_config(decorated, None).max_batch_size == 8
    with pytest.raises(PyTritonValidationError, match="must bound with triton"):
        triton_context(lambda requests, triton_context: 0)([])


class Object:
    """Object with decorated methods."""

    @batch
    @first_value("b")
    def __call__(self, a: Array, b: Any) -> list[Array]:
        return [a * b, a]

    @batch
    @triton_context
    def method(self, a: Array, b: Array, triton_context: TritonContext) -> list[Array]:
        return [a, b * len(triton_context.model_configs[self.method].outputs or ())]

    @batch
    @staticmethod
    def static(a: Array, b: Array) -> dict[str, Array]:
        return {"x": a + b}


def test_methods_and_callable_objects_are_decorated() -> None:
    requests = [Request({"a": column(1, 2), "b": column(3, 3)})]
    assert to_lists(with_context(Object())(requests)) == [{"x": [[3], [6]], "y": [[1], [2]]}]
    assert to_lists(with_context(Object().method)(requests)) == [{"x": [[1], [2]], "y": [[6], [6]]}]
    assert to_lists(Object.static(requests)) == to_lists(Object().static(requests)) == [{"x": [[4], [5]]}]
    other = Object()
    with_context(other.method)
    with pytest.raises(PyTritonValidationError):
        # Each object has its own context.
        Object().method(requests)


def test_decorated_callable_has_the_attributes_of_the_wrapped_one() -> None:
    @batch
    def infer(a: Array) -> dict[str, Array]:
        """Docstring of the callable."""
        return {"x": a}

    assert (infer.__name__, infer.__doc__, infer.__module__) == ("infer", "Docstring of the callable.", __name__)
    assert list(inspect.signature(infer).parameters) == ["a"]
    assert repr(infer) == repr(infer.__wrapped__)
    infer.mark = 1
    assert infer.__wrapped__.mark == 1
    del infer.mark
    assert not hasattr(infer, "mark")


def test_configurations_are_found_by_callable() -> None:
    configs, one, other = ModelConfigDict(), Object(), Object()
    config = TritonModelConfig("m")
    configs[one] = config
    configs[other.method] = TritonModelConfig("other")
    assert configs[one.__call__] is config
    assert configs[other.method].model_name == "other"
    assert (len(configs), next(iter(configs)), one in configs, other in configs) == (2, one, True, False)
    del configs[one.__call__]
    assert len(configs) == 1
    with pytest.raises(KeyError):
        configs[one]


def test_outputs_are_named_by_the_configuration() -> None:
    config = TritonModelConfig("m", outputs=[TensorSpec("x", (1,), np.float32)])
    assert convert_output({"z": 1}) == {"z": 1}
    assert convert_output((1,), model_config=config) == {"x": 1}
    with pytest.raises(PyTritonValidationError, match="Outputs length different than config outputs length"):
        convert_output([1, 2], model_config=config)
    with pytest.raises(PyTritonValidationError, match="Unsupported output type"):
        convert_output(3)


def test_batch_size_of_a_request_is_that_of_its_first_input() -> None:
    assert get_inference_request_batch_size(requests()[0]) == 2


def test_all_public_names_exist() -> None:
    aliases = {"InferenceRequest", "InferenceRequests", "InferenceResult", "InferenceResults", "InputNames"}
    assert aliases < set(decorators.__all__)
    assert all(hasattr(decorators, name) for name in decorators.__all__)
