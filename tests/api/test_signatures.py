"""Signatures from `Tensor` lists and annotations: the rules of docs/signatures.md and all error messages."""

# The tests need bare `dict` hints and empty handlers.
# mypy: disable-error-code="type-arg, empty-body"

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import msgspec
import numpy as np
import numpy.typing as npt
import pydantic
import pytest

from penstock import Batching, Final, HandlerError, InvalidInput, Model, SignatureError, Tensor, model
from penstock.testing import Client

if TYPE_CHECKING:
    from penstock import Context

F32 = np.float32
Row = Annotated[np.ndarray, Tensor(datatype=F32, shape=[16])]


@dataclasses.dataclass
class User:
    name: str
    age: int
    tags: list[str] = dataclasses.field(default_factory=list)
    friend: User | None = None


@dataclasses.dataclass
class Positive:
    value: float

    def __post_init__(self) -> None:
        if self.value <= 0:
            raise ValueError("value must be above 0")


class Color(enum.Enum):
    RED = "red"


class Options(TypedDict):
    mode: Literal["fast", "exact"]
    color: Color
    weights: dict[str, float]


class Partial(TypedDict, total=False):
    mode: str


class Point(pydantic.BaseModel):
    x: int
    y: int = pydantic.Field(default=0, ge=0)


def call_of(served: Model[..., Any]) -> Callable[..., Any]:
    return served.definition().factory().call


def text(value: str | bytes) -> Any:
    array = np.empty((), dtype=object)
    array[()] = value
    return array


def document(value: Any) -> Any:
    return text(json.dumps(value).encode())


def assert_rejected(target: Any, message: str, **options: Any) -> None:
    with pytest.raises(SignatureError, match=re.escape(message)):
        model(target, **options)


# Tensor lists


def test_handler_of_declared_arrays_is_called_directly() -> None:
    def double(x: Any) -> Any:
        return x * 2

    served = model(double, inputs=[Tensor("x", F32, [16])], outputs=[Tensor("y", F32, [16])])
    assert call_of(served) is double
    renamed = model(double, inputs=[Tensor("input-0", F32)], outputs=[Tensor("y", F32)])
    assert call_of(renamed) is double


def test_declared_inputs_match_parameters_by_name() -> None:
    def subtract(b: Any, a: Any) -> Any:
        return a - b

    served = model(subtract, inputs=[Tensor("a", F32), Tensor("b", F32)], outputs=[Tensor("y", F32)])
    assert [tensor.name for tensor in served.inputs] == ["a", "b"]
    assert call_of(served)(F32(5), F32(3)) == 2


def test_mixed_matching_by_name_and_position_is_rejected() -> None:
    assert_rejected(
        lambda a, z: a,
        "model 'm': input 'a' is declared at position 2, where the handler has parameter 'z'; "
        "name all parameters like the inputs, or keep the order",
        name="m",
        inputs=[Tensor("q", F32), Tensor("a", F32)],
        outputs=[],
    )


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (lambda *inputs: inputs, (1, 2)),
        (lambda **inputs: inputs, {"a": 1, "b": 2}),
        (lambda a, **rest: (a, rest), (1, {"b": 2})),
        (lambda *, b, a: (a, b), (1, 2)),
        (lambda a, unused=7, b=0: (a, unused, b), (1, 7, 2)),
        (functools.partial(lambda a, b, c: (a, b, c), c=3), (1, 2, 3)),
    ],
)
def test_every_kind_of_parameter_accepts_declared_inputs(handler: Any, expected: Any) -> None:
    served = model(handler, name="m", inputs=[Tensor("a", F32), Tensor("b", F32)], outputs=[])
    assert call_of(served)(1, 2) == expected


def test_c_function_accepts_declared_inputs_by_position() -> None:
    served = model(max, inputs=[Tensor("a", F32), Tensor("b", F32)], outputs=[Tensor("y", F32)])
    assert call_of(served)(1, 2) == 2


def test_declared_input_count_must_match_the_handler() -> None:
    assert_rejected(
        lambda a: a,
        "model 'm': 2 inputs are declared ('p', 'q'), the handler takes 1 (a)",
        name="m",
        inputs=[Tensor("p", F32), Tensor("q", F32)],
        outputs=[],
    )
    assert_rejected(
        lambda a, b: a,
        "model 'm': parameter 'b' is none of the declared inputs ('p'); declare it, or give it a default",
        name="m",
        inputs=[Tensor("p", F32)],
        outputs=[],
    )


def test_absent_optional_input_uses_the_parameters_default() -> None:
    def scale(x: Any, factor: Any = 3, bias: Any = None) -> Any:
        return x * factor, bias

    served = model(
        scale,
        inputs=[Tensor("x", F32), Tensor("factor", F32, optional=True), Tensor("bias", F32, optional=True)],
        outputs=[Tensor("y", F32), Tensor("z", F32)],
    )
    assert call_of(served)(2, None, None) == (6, None)
    assert call_of(served)(2, 5, 1) == (10, 1)


def test_invalid_declared_lists_are_rejected() -> None:
    assert_rejected(
        lambda x: x, "model 'm': inputs[0] needs a name", name="m", inputs=[Tensor(datatype=F32)], outputs=[]
    )
    assert_rejected(lambda: 0, "model 'm': outputs[0] is str, not a Tensor", name="m", inputs=[], outputs=["y"])
    single = Tensor("x", F32)
    assert_rejected(
        lambda x: x, "model 'm': inputs must be a list of Tensors, not Tensor", name="m", inputs=single, outputs=[]
    )
    twice = [Tensor("y", F32), Tensor("y", F32)]
    assert_rejected(lambda: 0, "model 'm': output 'y' is declared twice", name="m", inputs=[], outputs=twice)
    assert_rejected(lambda a, b: 0, "model 'm': input 'y' is declared twice", name="m", inputs=twice, outputs=[])
    assert_rejected(
        lambda: 0,
        "model 'm': batching= needs at least one input, whose first axis is the batch",
        name="m",
        inputs=[],
        outputs=[],
        batching=Batching(),
    )


# Annotated arrays


def test_annotated_arrays_are_named_by_their_parameters() -> None:
    def double(x: Row, bias: Row | None = None) -> Row:
        return x * 2

    served = model(double, batching=Batching(max_size=4))
    assert served.inputs == (Tensor("x", F32, [16]), Tensor("bias", F32, [16], optional=True))
    assert served.outputs == (Tensor("output", F32, [16]),)
    assert call_of(served) is double


def test_tensor_name_overrides_the_parameter_name() -> None:
    def f(x: Annotated[npt.NDArray[F32], Tensor("INPUT__0", F32)]) -> Annotated[Any, Tensor("OUTPUT__0", "BF16")]:
        return x

    served = model(f)
    assert (served.inputs, served.outputs) == ((Tensor("INPUT__0", F32),), (Tensor("OUTPUT__0", "BF16"),))


def test_none_inside_annotated_makes_an_input_optional() -> None:
    def f(
        a: Annotated[np.ndarray | None, Tensor(datatype=F32)],
        b: Annotated[np.ndarray, Tensor(datatype=F32, optional=True)],
        c: Annotated[np.ndarray | None, "a note", Tensor(datatype=F32)],
    ) -> None: ...

    assert [tensor.optional for tensor in model(f).inputs] == [True, True, True]


def test_tuple_of_arrays_declares_several_outputs() -> None:
    def split(x: Row) -> tuple[Row, Annotated[np.ndarray, Tensor("sum", F32)]]:
        return x, x.sum()

    served = model(split)
    assert served.outputs == (Tensor("output_0", F32, [16]), Tensor("sum", F32))
    assert call_of(served) is split


def test_array_without_a_tensor_is_rejected() -> None:
    def f(x: np.ndarray) -> None: ...
    def g(x: npt.NDArray[F32]) -> None: ...
    def h() -> np.float32: ...

    advice = "is an array of unknown datatype and shape; write Annotated[np.ndarray, Tensor(datatype=np.float32, "
    assert_rejected(f, f"model 'f': parameter 'x' {advice}")
    assert_rejected(g, f"model 'g': parameter 'x' {advice}")
    assert_rejected(h, f"model 'h': the return value {advice}")


def test_two_tensors_for_one_parameter_are_rejected() -> None:
    def f(x: Annotated[np.ndarray, Tensor(datatype=F32), Tensor(datatype=F32)]) -> None: ...

    assert_rejected(f, "model 'f': parameter 'x' has 2 Tensors in its Annotated; keep one")


# Plain values


def test_scalars_are_tensors_of_one_element() -> None:
    def f(a: bool, b: int, c: float, d: str, e: bytes) -> tuple[bool, int, float, str, bytes]:
        assert [type(value) for value in (a, b, c, d, e)] == [bool, int, float, str, bytes]
        return a, b, c, d, e

    served = model(f)
    assert [(tensor.datatype, tensor.shape) for tensor in served.inputs] == [
        ("BOOL", ()),
        ("INT64", ()),
        ("FP64", ()),
        ("BYTES", ()),
        ("BYTES", ()),
    ]
    assert [tensor.text for tensor in served.inputs] == [False, False, False, True, False]
    inputs = (np.array(True), np.array(-3), np.array(0.5), text("ü"), text(b"a\0"))
    # The native module converts numbers and texts to tensors.
    *numbers, d, e = call_of(served)(*inputs)
    arrays = [np.asarray(value) for value in numbers]
    assert [array.dtype for array in arrays] == [np.bool_, np.int64, np.float64]
    assert [array.shape for array in arrays] == [()] * 3
    assert [array.item() for array in arrays] == [True, -3, 0.5]
    assert (d, e) == ("ü", b"a\0")
    with Client(served) as client:
        a, b, c, d, e = client.infer("f", {"a": True, "b": -3, "c": 0.5, "d": "ü", "e": b"a\0"}).values()
        assert [array.item() for array in (a, b, c)] == [True, -3, 0.5]
        assert (d.item(), e.item()) == ("ü".encode(), b"a\0")


def test_lists_are_tensors_of_one_variable_axis() -> None:
    def f(a: list[int], b: list[str]) -> tuple[list[float], list[bytes], list[bool]]:
        assert (a, b) == ([1, 2], ["x", "yy"])
        return [1, 2.5], [b"a", b"a\0"], []

    served = model(f)
    assert [tensor.shape for tensor in (*served.inputs, *served.outputs)] == [(-1,)] * 5
    numbers, texts, empty = call_of(served)(np.array([1, 2]), np.array(["x", "yy"], dtype=object))
    assert (numbers.dtype, numbers.tolist()) == (np.float64, [1.0, 2.5])
    assert (texts.dtype, texts.tolist()) == (object, [b"a", b"a\0"])
    assert (empty.dtype, empty.shape) == (np.bool_, (0,))


def test_none_and_defaults_make_inputs_optional() -> None:
    def f(a: int | None, b: str | None = "b", c: float = 2.5, *, d: dict | None = None) -> Any:
        return [a, b, c, d]

    served = model(f)
    assert [tensor.optional for tensor in served.inputs] == [True] * 4
    assert json.loads(call_of(served)(None, None, None, None).item()) == [None, "b", 2.5, None]


def test_none_return_annotation_declares_no_outputs() -> None:
    def f(a: int) -> None: ...

    served = model(f)
    assert served.outputs == ()
    assert call_of(served)(np.array(1)) is None


@pytest.mark.parametrize(
    ("hint", "returned", "message"),
    [
        (int, 1.5, "output 'output': the handler returned float, it declares int"),
        (int, True, "output 'output': the handler returned bool, it declares int"),
        (int, 2**63, "output 'output': the handler returned a number beyond INT64"),
        (bool, 1, "output 'output': the handler returned int, it declares bool"),
        (str, b"x", "output 'output': the handler returned bytes, it declares str"),
        (float, None, "output 'output': the handler returned NoneType, it declares float"),
        (list[float], ["1"], "output 'output': the handler returned str, it declares list[float]"),
        (list[float], 1.0, "output 'output': the handler returned float, it declares list[float]"),
        (dict, [1], "output 'output': the handler returned list, it declares dict"),
        (User, {"name": "a"}, "output 'output': the handler returned dict, it declares User"),
        (dict, {"a": 1j}, "output 'output' cannot be written as JSON: complex is not a JSON value"),
        (tuple[int, int], (1,), "the handler returned a tuple of 1, it declares a tuple of 2 outputs"),
        (tuple[int, int], 1, "the handler returned a int, it declares a tuple of 2 outputs"),
    ],
)
def test_handler_error_names_returned_and_declared_types(hint: Any, returned: Any, message: str) -> None:
    def f():  # type: ignore[no-untyped-def]
        return returned

    f.__annotations__["return"] = hint
    with pytest.raises(HandlerError, match=f"^{re.escape(message)}$"):
        call_of(model(f))()


@pytest.mark.parametrize(
    ("hint", "returned", "expected"),
    [
        (int, np.int32(4), 4),
        (float, 3, 3.0),
        (list[float], np.array([1, 2], F32), [1.0, 2.0]),
        (list[int], (1, 2), [1, 2]),
    ],
)
def test_numpy_numbers_are_accepted_as_scalars(hint: Any, returned: Any, expected: Any) -> None:
    def f():  # type: ignore[no-untyped-def]
        return returned

    f.__annotations__["return"] = hint
    assert call_of(model(f))().tolist() == expected


# JSON documents


def test_documents_are_parsed_by_their_hints() -> None:
    received = []

    def f(user: User, users: list[User], options: Options, partial: Partial, point: Point, free: Any) -> dict:
        received.extend([user, users, options, partial, point, free])
        return {}

    served = model(f)
    assert {(tensor.datatype, tensor.shape) for tensor in served.inputs} == {("BYTES", ())}
    call_of(served)(
        document({"name": "Ada", "age": 36, "friend": {"name": "Bob", "age": 1}}),
        document([{"name": "Cy", "age": 2, "tags": ["x"]}]),
        document({"mode": "fast", "color": "red", "weights": {"a": 1}}),
        document({}),
        document({"x": 1}),
        document([1, None, "x"]),
    )
    assert received == [
        User("Ada", 36, [], User("Bob", 1)),
        [User("Cy", 2, ["x"])],
        {"mode": "fast", "color": Color.RED, "weights": {"a": 1.0}},
        {},
        Point(x=1),
        [1, None, "x"],
    ]


@pytest.mark.parametrize(
    ("hint", "raw", "message"),
    [
        (dict, b"{", "input 'a' must hold one JSON document: Expecting property name"),
        (dict, b"\xff", "input 'a' must hold one JSON document: 'utf-8' codec can't decode"),
        (dict, b"[" * 100_000, "input 'a' must hold one JSON document: maximum recursion depth exceeded"),
        (dict, b"[1]", "input 'a': got an array of 1, expected an object"),
        (list[dict], b'[{}, "x"]', "input 'a[1]': got \"x\", expected an object"),
        (User, b'{"age": 1}', "input 'a': field 'name' is missing"),
        (User, b'{"name": "x", "age": 1.5}', "input 'a.age': got 1.5, expected an integer"),
        (User, b'{"name": "x", "age": true}', "input 'a.age': got true, expected an integer"),
        (User, b'{"name": null, "age": 1}', "input 'a.name': got null, expected a string"),
        (
            User,
            b'{"name": "x", "age": 1, "size": 2}',
            "input 'a': unexpected field 'size', expected 'name', 'age', 'tags', 'friend'",
        ),
        (
            User,
            b'{"name": "x", "age": 1, "friend": {"age": 1}}',
            "input 'a.friend': field 'name' is missing",
        ),
        (Positive, b'{"value": -1}', "input 'a': value must be above 0"),
        (
            Positive,
            b'{"value": 1' + b"0" * 400 + b"}",
            "input 'a.value': got 1000000000000000000000000000000000000000..., number out of range",
        ),
        (Options, b'{"mode": "fast"}', "input 'a': field 'color' is missing"),
        (
            Options,
            b'{"mode": "x", "color": "red", "weights": {}}',
            'input \'a.mode\': got "x", expected one of "exact", "fast"',
        ),
        (
            Options,
            b'{"mode": "fast", "color": "red", "weights": {"k": "v"}}',
            "input 'a.weights.k': got \"v\", expected a number",
        ),
        (Point, b'{"x": 1, "y": -1}', "input 'a': y: Input should be greater than or equal to 0"),
        (Point, b"{}", "input 'a': x: Field required"),
    ],
)
def test_invalid_document_is_rejected_with_its_location(hint: Any, raw: bytes, message: str) -> None:
    def f(a):  # type: ignore[no-untyped-def]
        raise AssertionError("the handler must not run")

    f.__annotations__.update({"a": hint, "return": None})
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}"):
        call_of(model(f))(text(raw))


def test_returned_documents_are_encoded_as_json() -> None:
    def f() -> tuple[User, Point, dict, list[Point], Options, dict | None]:
        options: Options = {"mode": "fast", "color": Color.RED, "weights": {}}
        arrays = {"a": np.arange(2), "b": F32(0.5), "c": "ü"}
        return User("Ada", 36), Point(x=1), arrays, [Point(x=2)], options, None

    documents = [array.item() for array in call_of(model(f))()]
    assert all(isinstance(value, bytes) for value in documents)
    assert [json.loads(value) for value in documents] == [
        {"name": "Ada", "age": 36, "tags": [], "friend": None},
        {"x": 1, "y": 0},
        {"a": [0, 1], "b": 0.5, "c": "ü"},
        [{"x": 2, "y": 0}],
        {"mode": "fast", "color": "red", "weights": {}},
        None,
    ]


def test_bounds_of_a_whole_document_are_checked() -> None:
    def f(a: Annotated[list[dict], "rows", msgspec.Meta(min_length=1)]) -> Annotated[dict, "a row"]:
        return a[0]

    served = call_of(model(f))
    assert served(document([{"b": 1}])).item() == b'{"b":1}'
    with pytest.raises(InvalidInput, match=r"^input 'a': got an array of 0, expected an array of length >= 1$"):
        served(document([]))


def test_examples_are_valid_documents() -> None:
    class Strict(pydantic.BaseModel):
        code: str = pydantic.Field(pattern="^[0-9]{4}$")

    def f(user: User, options: Options, point: Point, strict: Any, plain: int) -> None: ...

    f.__annotations__["strict"] = Strict
    examples = model(f).examples()
    assert examples["user"] == '{"name": "text", "age": 1}'
    assert examples["options"] == '{"color": "red", "mode": "exact", "weights": {}}'
    assert examples["point"] == '{"x": 1}'
    assert examples["strict"] is None
    assert "plain" not in examples


# Unsupported hints


def test_unsupported_hints_are_rejected() -> None:
    def f(x: complex) -> None: ...
    def g(x: int | str) -> None: ...
    def h(x: NoSuchName) -> None: ...  # type: ignore[name-defined]  # noqa: F821
    def i(x: tuple[int, int]) -> None: ...
    def j(x: int) -> tuple[int, ...]: ...
    def k(x: dict[int, str]) -> None: ...
    def l(x: list[complex]) -> None: ...  # noqa: E743
    def m(x: dict[str, User | Positive]) -> None: ...
    def n(x: int) -> int | None: ...

    kinds = "use Annotated[np.ndarray, Tensor(...)], bool, int, float, str, bytes, list[...] of these, dict,"
    assert_rejected(f, f"model 'f': parameter 'x' is complex, which is not a tensor; {kinds}")
    assert_rejected(g, "model 'g': parameter 'x' is int | str, which is not a tensor")
    assert_rejected(
        h, "model 'h': parameter 'x' is 'NoSuchName' (a name that cannot be resolved), which is not a tensor"
    )
    assert_rejected(i, "model 'i': parameter 'x' is tuple[int, int], which is not a tensor")
    assert_rejected(
        j, "model 'j': the return value is a tuple of unknown length; write each member, as in tuple[int, str]"
    )
    assert_rejected(k, "model 'k': parameter 'x' is a dict with other keys than str: the keys of a JSON object are str")
    assert_rejected(
        l, "model 'l': parameter 'x' is complex, which JSON cannot hold: use bool, int, float, str, bytes, list"
    )
    assert_rejected(m, "model 'm': parameter 'x' is dict[str, ")
    assert_rejected(m, "which JSON cannot hold: Type unions may not contain more than one dataclass")
    assert_rejected(n, "model 'n': the return value is int | None, which is not a tensor")


def test_missing_annotations_are_rejected() -> None:
    def f(x) -> None: ...  # type: ignore[no-untyped-def]
    def g(x: int): ...  # type: ignore[no-untyped-def]
    def h(*xs: int) -> None: ...
    def i(self, x: int) -> None: ...  # type: ignore[no-untyped-def]

    assert_rejected(f, "model 'f': parameter 'x' has no annotation; annotate it, or declare inputs=")
    assert_rejected(g, "model 'g': the handler does not declare what it returns; annotate it, or declare outputs=")
    assert_rejected(h, "model 'h': parameter 'xs' stands for any number of inputs; declare them with inputs=")
    assert_rejected(
        i, "model 'i': parameter 'self' has no annotation; annotate it, or declare inputs=; decorate the class"
    )
    assert_rejected(max, "model 'max': its parameters are not known; declare inputs= and outputs=")


def test_batching_requires_arrays() -> None:
    def f(x: int) -> None: ...
    def h(x: Row) -> dict: ...

    reason = "one value per request, and batching= needs one row per request; write"
    more = "for a list of rows, or Annotated[np.ndarray, Tensor(datatype="
    end = "shape=[])], or leave batching= out"
    for handler, shown, name, datatype in [
        (f, "parameter 'x' is int", "int", "np.int64"),
        (h, "the return value is dict", "dict", "bytes"),
    ]:
        message = f"{shown}, {reason} list[{name}] {more}{datatype}, {end}"
        assert_rejected(handler, message, batching=Batching())


def test_generator_annotations_declare_outputs() -> None:
    async def f(x: int) -> AsyncIterator[str]:
        yield str(x)

    def g(x: int) -> Iterator[Annotated[np.ndarray, Tensor(datatype=np.int32, shape=[2])] | Final]:
        yield Final()

    def h(x: int) -> Any:
        yield x

    def i(x: int) -> Iterator[int]:
        return iter([x])

    def j(x: int) -> Iterator[tuple[int, str]]:
        yield x, ""

    assert model(f).streams
    assert model(f).outputs == (Tensor("output", str, []),)
    assert model(g).outputs == (Tensor("output", np.int32, [2]),)
    assert [output.name for output in model(j).outputs] == ["output_0", "output_1"]
    assert model(streams=True)(i).streams
    yields = "the handler yields, and its annotation does not declare what; write Iterator[...] or AsyncIterator[...]"
    assert_rejected(h, f"model 'h': {yields}, or declare outputs=")
    assert_rejected(g, "model 'g': the handler is a generator, so it streams; leave streams=False out", streams=False)


def test_async_handlers_are_detected() -> None:
    async def f(x: int) -> int:
        return x

    class Async:
        async def __call__(self, x: int) -> int:
            return x

    for value in (f, Async, Async(), functools.partial(f)):
        assert model(value, name="m").max_concurrency == 64
    assert model(lambda x: x, name="m", inputs=[Tensor("x", F32)], outputs=[Tensor("y", F32)]).max_concurrency is None


def test_trailing_context_needs_no_wrapper() -> None:
    def f(x: Row, ctx: Context) -> Row:
        return x

    served = model(f)
    assert served.definition().wants_context
    assert [tensor.name for tensor in served.inputs] == ["x"]
    assert call_of(served) is f


def test_context_is_passed_at_its_position() -> None:
    def first(context: Context, x: int, y: int) -> Any:
        return [context, x, y]

    def keyword(x: int, *, context: Context, y: int = 5) -> Any:
        return [context, x, y]

    for f in (first, keyword):
        assert json.loads(call_of(model(f))(np.array(1), np.array(2), "the context").item()) == ["the context", 1, 2]


def test_lambda_ctx_is_the_context_unless_an_input_has_that_name() -> None:
    served = model(lambda x, ctx: (x, ctx), name="m", inputs=[Tensor("x", F32)], outputs=[])
    assert served.definition().wants_context
    assert call_of(served)(1, "the context") == (1, "the context")
    inputs = [Tensor("x", F32), Tensor("ctx", F32)]
    assert not model(lambda x, ctx: (x, ctx), name="m", inputs=inputs, outputs=[]).definition().wants_context


def test_second_context_parameter_is_rejected() -> None:
    def f(a: Context, b: Context) -> None: ...

    assert_rejected(f, "model 'f': parameters 'a' and 'b' are both the Context; keep one")
