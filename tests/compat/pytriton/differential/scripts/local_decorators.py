"""Decorators, called with requests and with the context of binding, same as in a server."""

from __future__ import annotations

from typing import Any

import numpy as np
from observe import show
from pytriton.decorators import (
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
from pytriton.model_config import DynamicBatcher
from pytriton.model_config.triton_model_config import TensorSpec, TritonModelConfig
from pytriton.proxy.types import Request

F, S = np.float32, bytes
CONFIG = TritonModelConfig(
    model_name="m",
    max_batch_size=8,
    batcher=DynamicBatcher(preferred_batch_size=[3, 6]),
    inputs=[TensorSpec("a", (1,), F), TensorSpec("b", (1,), F, optional=True)],
    outputs=[TensorSpec("y", (1,), F), TensorSpec("z", (1,), F)],
)
PLAIN = TritonModelConfig(model_name="m", batching=False, inputs=CONFIG.inputs, outputs=CONFIG.outputs)


def bound(function: Any, config: TritonModelConfig = CONFIG) -> Any:
    """Gives a callable the context of `bind`."""
    context = TritonContext(model_configs=ModelConfigDict())
    context.model_configs[function] = config
    target = function
    while target is not None:
        try:
            target.__triton_context__ = context
        except AttributeError:
            target.__self__.__triton_context__ = context
        target = None
    return function


def rows(*values: float, dtype: Any = F) -> Any:
    return np.array(values, dtype).reshape(-1, 1)


def requests(*inputs: dict[str, Any]) -> list[Request]:
    return [Request(one, {}) for one in inputs]


TWO = lambda: requests({"a": rows(1, 2)}, {"a": rows(3)})  # noqa: E731


# batch
@batch
def doubled(a: Any) -> Any:
    return {"y": a * 2}


@batch
def listed(a: Any) -> Any:
    return [a, a + 1]


@batch
def short(a: Any) -> Any:
    return [a]


@batch
def none(a: Any) -> Any:
    return None


@batch
def halved(a: Any) -> Any:
    return {"y": a[:1]}


@batch
def generated(a: Any) -> Any:
    for add in range(2):
        yield {"y": a + add}


class Model:
    @batch
    def infer(self, a: Any) -> Any:
        return (a, -a)

    @batch
    def __call__(self, a: Any) -> Any:
        return [a, a * 3]


show("batch joins and parts", lambda: doubled(TWO()))
show("batch of tuples", lambda: doubled(tuple(TWO())))
show("batch maps a list", lambda: bound(listed)(TWO()))
show("batch maps a list unbound", lambda: short(TWO()))
show("batch with too short a list", lambda: bound(short)(TWO()))
show("batch that gives nothing", lambda: bound(none)(TWO()))
show("batch with fewer rows", lambda: halved(TWO()))
show("batch of a generator", lambda: list(generated(TWO())))
show("batch of different keys", lambda: doubled(requests({"a": rows(1)}, {"b": rows(1)})))
show("batch of different shapes", lambda: doubled(requests({"a": rows(1)}, {"a": np.ones((1, 2), F)})))
show("batch of an unknown input", lambda: doubled(requests({"q": rows(1)})))
show("batch of a method", lambda: bound(Model().infer)(TWO()))
show(
    "batch of strings",
    lambda: batch(lambda a: {"y": a})(requests({"a": np.array([[b"x"]])}, {"a": np.array([[b"long"]])})),
)


# sample
@sample
def one(a: Any, b: Any = None) -> Any:
    return {"y": a + 1}


@sample
def one_listed(a: Any) -> Any:
    return [a, a]


show("sample", lambda: one(requests({"a": rows(1, 2)})))
show("sample of several", lambda: one(TWO()))
show("sample maps a list", lambda: bound(one_listed, PLAIN)(requests({"a": rows(1)})))


# group_by_keys
def counted(requests_: Any) -> Any:
    return [{"y": rows(len(requests_)), "keys": np.array(sorted(one))} for one in requests_]


show(
    "group_by_keys",
    lambda: group_by_keys(counted)(
        requests({"a": rows(1)}, {"a": rows(1), "b": rows(2)}, {"a": rows(3)}, {"b": rows(1), "a": rows(2)})
    ),
)
show("group_by_keys of none", lambda: group_by_keys(counted)([]))


# group_by_values
@batch
@group_by_values("b")
def by_value(a: Any, b: Any) -> Any:
    return {"y": a + len(a) * 10, "z": b}


@batch
@group_by_values("a", "b")
def by_values(a: Any, b: Any) -> Any:
    return {"y": np.full_like(a, len(a))}


@batch
@group_by_values("b")
def uneven(a: Any, b: Any) -> Any:
    return {"y": np.ones((len(a), int(b[0, 0])), F)}


@batch
@group_by_values("b", pad_fn=ConstantPadder(7))
def padded(a: Any, b: Any) -> Any:
    return {"y": np.ones((len(a), int(b[0, 0])), F)}


@batch
@group_by_values("b", pad_fn=ConstantPadder())
def padded_text(a: Any, b: Any) -> Any:
    return {"y": np.array([[b"t"] * int(b[0, 0])] * len(a), object)}


@batch
@group_by_values("b")
def grouped_list(a: Any, b: Any) -> Any:
    return [a, b]


PAIRS = lambda: requests({"a": rows(1, 2), "b": rows(1, 2)}, {"a": rows(3, 4), "b": rows(2, 1)})  # noqa: E731
show("group_by_values", lambda: bound(by_value)(PAIRS()))
show("group_by_values of two", lambda: bound(by_values)(PAIRS()))
show("group_by_values of texts", lambda: bound(by_value)(requests({"a": rows(1, 2), "b": np.array([[b"q"], [b"p"]])})))
show("group_by_values uneven", lambda: bound(uneven)(PAIRS()))
show("group_by_values padded", lambda: bound(padded)(PAIRS()))
show("group_by_values padded texts", lambda: bound(padded_text)(PAIRS()))
show("group_by_values of a list", lambda: bound(grouped_list)(PAIRS()))
show("group_by_values outside batch", lambda: group_by_values("a")(doubled)(TWO()))
show("ConstantPadder", lambda: ConstantPadder(5)([{"y": np.ones((1, 2), F)}, {"y": np.ones((2, 1), F)}]))
show(
    "ConstantPadder of two dtypes",
    lambda: ConstantPadder()([{"y": np.ones((1, 2), F)}, {"y": np.ones((2, 1), np.int8)}]),
)


# fill_optionals
def filled(**defaults: Any) -> Any:
    return bound(fill_optionals(**defaults)(batch(lambda a, b: {"y": a + b})))


show("fill_optionals", lambda: filled(b=np.array([5], F))(requests({"a": rows(1, 2)}, {"a": rows(3), "b": rows(1)})))
show("fill_optionals of an unknown name", lambda: filled(q=np.array([5], F))(TWO()))
show("fill_optionals of another dtype", lambda: filled(b=np.array([0.7]))(TWO()))
show("fill_optionals of another shape", lambda: filled(b=np.array([[5]], F))(TWO()))
show("fill_optionals of a number", lambda: filled(b=5)(TWO()))
show("fill_optionals unbound", lambda: fill_optionals(b=np.array([5], F))(counted)(TWO()))


# first_value
def first(*keys: str, config: TritonModelConfig = CONFIG, **options: Any) -> Any:
    @batch
    @first_value(*keys, **options)
    def infer(a: Any, **more: Any) -> Any:
        value = np.asarray(more.get("b", 0)).reshape(-1)[:1]
        kind = type(more.get("b")).__name__
        return {"y": a + value.astype(F), "kind": np.array([kind] * len(a))}

    return bound(infer, config)


SAME = lambda: requests({"a": rows(1, 2), "b": rows(4, 4)}, {"a": rows(3), "b": rows(4)})  # noqa: E731
show("first_value", lambda: first("b")(SAME()))
show("first_value unsqueezed", lambda: first("b", squeeze_single_values=False)(SAME()))
show("first_value of different ones", lambda: first("b")(PAIRS()))
show("first_value of different ones, allowed", lambda: first("b", strict=False)(PAIRS()))
show("first_value of a missing key", lambda: first("b")(TWO()))
show("first_value without batching", lambda: first("b", config=PLAIN)(SAME()))
show("first_value without batching, allowed", lambda: first("b", config=PLAIN, strict=False)(SAME()))
show("first_value of the context", lambda: first_value("__triton_context__")(counted))
show(
    "first_value on requests",
    lambda: bound(first_value("b")(lambda requests_: [{"y": np.asarray(one["b"])} for one in requests_]))(SAME()),
)
show("first_value of an array", lambda: first("b")(requests({"a": rows(1), "b": np.array([[4, 5]], F)})))
show(
    "first_value of a text",
    lambda: bound(batch(first_value("b")(lambda a, b: {"y": np.array([[bytes(b)]])})))(
        requests({"a": rows(1), "b": np.array([[b"t"]])})
    ),
)


# pad_batch
@batch
@pad_batch
def sizes(a: Any) -> Any:
    size = len(a)
    used = int(a[0, 0]) if a[0, 0] else size
    return {"y": np.full((used, 1), size, F), "last": np.repeat(a[-1:], used, axis=0)}


for count in (1, 3, 4, 6, 7, 8):
    show(f"pad_batch of {count}", lambda count=count: bound(sizes)(requests({"a": rows(count, *range(2, count + 1))})))
show("pad_batch unbound", lambda: sizes(TWO()))


# the context and the helpers
@triton_context
def describe_context(requests_: Any, **more: Any) -> Any:
    return [
        sorted(more),
        type(more["triton_context"]).__name__,
        more["triton_context"].model_configs[describe_context].model_name,
    ]


show("triton_context", lambda: bound(describe_context)(TWO()))
show("triton_context unbound", lambda: triton_context(counted)(TWO()))
show("get_model_config", lambda: get_model_config(bound(counted), None).max_batch_size)
show("convert_output of a list", lambda: convert_output([1, 2], model_config=CONFIG))
show("convert_output of a dict", lambda: convert_output({"q": 1}, model_config=CONFIG))
show("convert_output of too many", lambda: convert_output([1, 2, 3], model_config=CONFIG))
show("convert_output of a text", lambda: convert_output("text", model_config=CONFIG))
show("get_inference_request_batch_size", lambda: get_inference_request_batch_size({"a": rows(1, 2, 3)}))


def known() -> Any:
    configs = ModelConfigDict()
    model = Model()
    configs[model] = CONFIG
    configs[counted] = PLAIN
    values = [configs[model.__call__].batching, configs[counted].batching, len(configs), len(list(configs))]
    del configs[counted]
    return [*values, counted in configs, len(configs)]


show("ModelConfigDict", known)


# stacks
@fill_optionals(b=np.array([2], F))
@group_by_keys
@batch
@group_by_values("b")
@first_value("b")
def stack(a: Any, b: Any) -> Any:
    return {"y": a * b, "z": np.full_like(a, len(a))}


show(
    "the whole stack",
    lambda: bound(stack)(requests({"a": rows(1, 2)}, {"a": rows(3), "b": rows(5)}, {"a": rows(4), "b": rows(2)})),
)
show("names are kept", lambda: [stack.__name__, doubled.__name__, Model.infer.__name__])
