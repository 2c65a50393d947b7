"""Functions of plain Python types: arguments, return values and errors."""

from __future__ import annotations

import dataclasses
import enum
import json
from typing import Any, Optional, TypedDict

import numpy as np
import pytest

from penstock import HandlerError, InvalidInput, SignatureError, Tensor, model
from penstock.testing import Client


def call_served(handler: Any, inputs: dict[str, Any], *, binary: bool = True) -> Any:
    """The single output of a function, as a Python value."""
    served = model(handler)
    with Client(served) as client:
        outputs = client.infer(served.name, inputs, binary=binary)
    (array,) = outputs.values()
    return array.item() if array.ndim == 0 else array.tolist()


RECEIVED: list[Any] = []


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.5
    label: str = "none"


class Box(TypedDict):
    width: int
    name: str


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(
    ("python_type", "value_sent", "expected"),
    [
        (int, -(2**62), -(2**62)),
        (float, 0.1, 0.1),
        (bool, True, True),
        (str, "ü\0☃", "ü\0☃"),
        (bytes, b"a\0b", b"a\0b"),
    ],
)
def test_scalars_round_trip(python_type: type, value_sent: Any, expected: Any, binary: bool) -> None:
    def same(value: Any) -> Any:
        RECEIVED.append(value)
        return value

    same.__annotations__ = {"value": python_type, "return": python_type}
    RECEIVED.clear()
    outputs = call_served(same, {"value": value_sent}, binary=binary)
    assert [expected] == RECEIVED
    assert type(RECEIVED[0]) is python_type
    assert outputs == (expected.encode() if isinstance(expected, str) else expected)


@pytest.mark.parametrize("python_type", [list[int], list[float], list[bool], list[str], list[bytes]])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_lists_keep_their_element_type(python_type: Any, count: int) -> None:
    (item,) = python_type.__args__
    value_sent = [item(1) if item is not bytes else b"1"] * count

    def same(values: Any) -> Any:
        RECEIVED.append(values)
        return values

    same.__annotations__ = {"values": python_type, "return": python_type}
    RECEIVED.clear()
    array = np.array(
        [str(one) if item is str else one for one in value_sent], dtype=object if item in (str, bytes) else item
    )
    outputs = call_served(same, {"values": array})
    assert [value_sent] == RECEIVED
    assert [type(one) for one in RECEIVED[0]] == [item] * count
    assert outputs == [one.encode() if item is str else one for one in value_sent]


def test_absent_inputs_use_defaults() -> None:
    def greet(name: str, times: int = 2, punctuation: Optional[str] = None, *, loud: bool = False) -> str:  # noqa: UP045
        text = f"{name} " * times + repr(punctuation)
        return text.upper() if loud else text

    assert call_served(greet, {"name": "ada"}) == b"ada ada None"
    assert call_served(greet, {"name": "ada", "times": 1, "punctuation": "!"}) == b"ada '!'"
    assert call_served(greet, {"name": "ada", "loud": True}) == b"ADA ADA NONE"
    with pytest.raises(InvalidInput, match="input 'name' is missing, model 'greet' expects 'name'"):
        call_served(greet, {"times": 1})


def test_optional_arrays_are_none_or_the_default() -> None:
    options: dict[str, Any] = {
        "inputs": [Tensor("x", np.float32, [2]), Tensor("scale", np.float32, [], optional=True)],
        "outputs": [Tensor("y", np.float32, [2])],
    }
    x = np.ones(2, np.float32)
    without_default = model(lambda x, scale: x * (7 if scale is None else scale), name="m", **options)
    three = np.float32(3)
    with_default = model(lambda x, scale=three: x * scale, name="m", **options)
    for served, absent in ((without_default, 7), (with_default, 3)):
        with Client(served) as client:
            assert client.infer("m", {"x": x})["y"].tolist() == [absent] * 2
            assert client.infer("m", {"x": x, "scale": np.float32(4)})["y"].tolist() == [4, 4]
            with pytest.raises(InvalidInput, match="'x' is missing"):
                client.infer("m", {"scale": np.float32(4)})


def test_dict_is_sent_as_json_both_ways() -> None:
    document = {"text": "ü☃", "nested": {"list": [1, 2.5, None, True]}, "empty": {}}

    def same(document: dict[str, Any]) -> dict[str, Any]:
        RECEIVED.append(document)
        return {**document, "count": len(document)}

    RECEIVED.clear()
    for binary in (True, False):
        assert json.loads(call_served(same, {"document": document}, binary=binary)) == {**document, "count": 3}
    assert [document, document] == RECEIVED


def test_dataclass_is_built_from_json() -> None:
    def move(point: Point, by: float = 1.0) -> Point:
        assert type(point) is Point
        return Point(point.x + by, point.y, "moved")

    assert json.loads(call_served(move, {"point": {"x": 2}})) == {"x": 3.0, "y": 0.5, "label": "moved"}
    assert json.loads(call_served(move, {"point": {"x": 2.5, "y": 1.5, "label": "a"}, "by": 0.5})) == {
        "x": 3.0,
        "y": 1.5,
        "label": "moved",
    }


def test_typed_dict_is_a_dict() -> None:
    def grow(box: Box) -> Box:
        return {"width": box["width"] + 1, "name": box["name"]}

    assert json.loads(call_served(grow, {"box": {"width": 1, "name": "b"}})) == {"width": 2, "name": "b"}


def test_pydantic_model_is_validated() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Order(pydantic.BaseModel):  # type: ignore[misc, name-defined]
        item: str
        count: int = pydantic.Field(ge=1)

    def price(order: Any) -> Any:
        return Order(item=order.item.upper(), count=order.count * 2)

    price.__annotations__ = {"order": Order, "return": Order}
    assert json.loads(call_served(price, {"order": {"item": "tea", "count": 2}})) == {"item": "TEA", "count": 4}
    with pytest.raises(InvalidInput) as raised:
        call_served(price, {"order": {"item": "tea", "count": 0}})
    assert "input 'order'" in str(raised.value)
    assert "count" in str(raised.value)


@pytest.mark.parametrize(
    ("value_sent", "message"),
    [
        ('{"x": ', "input 'point' must hold one JSON document"),
        ("[1]", "input 'point'"),
        ('{"y": 1}', "x"),
        ('{"x": "far"}', "x"),
        ("[" * 100_000, "input 'point'"),
    ],
)
def test_invalid_document_is_invalid_input(value_sent: str, message: str) -> None:
    def same(point: Point) -> Point:
        raise AssertionError("the handler must not be called")

    with pytest.raises(InvalidInput) as raised:
        call_served(same, {"point": value_sent})
    assert message in str(raised.value)
    assert "Traceback" not in str(raised.value)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("text", "output 'output': the handler returned str, it declares int"),
        (None, "output 'output': the handler returned NoneType, it declares int"),
        (True, "output 'output': the handler returned bool, it declares int"),
        (2.0, "output 'output': the handler returned float, it declares int"),
        (2**63, "output 'output': the handler returned a number beyond INT64"),
    ],
)
def test_wrong_return_type_is_a_handler_error(returned: Any, message: str) -> None:
    def wrong(x: int) -> int:
        return returned  # type: ignore[no-any-return]

    with pytest.raises(HandlerError) as raised:
        call_served(wrong, {"x": 1})
    assert str(raised.value) == message


def test_unserializable_document_is_a_handler_error() -> None:
    def wrong(x: int) -> dict[str, Any]:
        return {"self": object()}

    with pytest.raises(HandlerError, match="output 'output' cannot be written as JSON: object is not a JSON value"):
        call_served(wrong, {"x": 1})


def test_numpy_values_in_a_document_are_plain_json() -> None:
    def numbers(x: int) -> dict[str, Any]:
        return {"scalar": np.float32(0.5), "array": np.arange(3), "flag": np.bool_(True)}

    assert json.loads(call_served(numbers, {"x": 1})) == {"scalar": 0.5, "array": [0, 1, 2], "flag": True}


def test_tuple_of_plain_values_declares_several_outputs() -> None:
    def split(text: str) -> tuple[int, list[str], dict[str, int]]:
        return len(text), text.split(), {word: len(word) for word in text.split()}

    with Client(split) as client:
        outputs = client.infer("split", {"text": "ab c"})
    assert outputs["output_0"].item() == 4
    assert outputs["output_1"].tolist() == [b"ab", b"c"]
    assert json.loads(outputs["output_2"].item()) == {"ab": 2, "c": 1}


def test_enum_without_members_is_rejected() -> None:
    class Empty(enum.Enum):
        pass

    def pick(choice: Any) -> int:
        return 1

    pick.__annotations__["choice"] = dataclasses.make_dataclass("Choice", [("kind", Empty)])
    with pytest.raises(SignatureError, match="parameter 'choice' is Choice, which JSON cannot hold: Enum types must"):
        model(pick)


def test_invalid_utf8_is_rejected_for_str_and_accepted_for_bytes() -> None:
    broken = np.array([b"ok", b"\xff\xfe"], dtype=object)

    def texts(values: list[str]) -> int:
        return len(values)

    def raw(values: list[bytes]) -> list[bytes]:
        return values

    with pytest.raises(InvalidInput, match="input 'values': element 1 is not valid UTF-8 text"):
        call_served(texts, {"values": broken})
    assert call_served(raw, {"values": broken}) == [b"ok", b"\xff\xfe"]


class Text(str):
    """A text that is not exactly a `str`."""

    __slots__ = ()


@pytest.mark.parametrize("returned", ["", "ü\0", "x" * 5000, b"", b"\xff\0", Text("sub"), np.str_("numpy")])
def test_bare_text_is_an_output_of_one_element(returned: str | bytes) -> None:
    def texts(x: Any) -> Any:
        return returned

    served = model(name="m", inputs=[Tensor("x", np.int32, [])], outputs=[Tensor("y", bytes, [])])(texts)
    with Client(served) as client:
        (output,) = client.infer("m", {"x": np.int32(1)}).values()
    expected = returned if isinstance(returned, bytes) else returned.encode()
    assert (output.shape, output.item()) == ((), expected)


def test_bare_text_that_is_not_utf_8_is_a_handler_error() -> None:
    def texts(x: int) -> str:
        return "a\ud800"

    with Client(model(name="m")(texts)) as client, pytest.raises(HandlerError) as raised:
        client.infer("m", {"x": 1})
    assert "returned an element of type a str for output 'output', declared BYTES" in str(raised.value)
