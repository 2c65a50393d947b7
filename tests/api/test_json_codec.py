"""Codecs of type hints: supported hints, error messages with paths, schemas, examples, rejected hints."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import re
import types
import uuid
from collections.abc import Iterable
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar

import jsonschema
import msgspec
import numpy as np
import pydantic
import pydantic.dataclasses
import pytest

from penstock import HandlerError, InvalidInput, SignatureError
from penstock._handler import json_errors
from penstock._handler.json_codec import Codec, compile_codec

T = TypeVar("T")


@dataclasses.dataclass
class Row:
    a: int
    b: float = math.inf
    c: Any = None


class Pair(NamedTuple):
    first: Row
    n: int = 1


class Options(TypedDict, total=False):
    row: Row


@dataclasses.dataclass
class Box(Generic[T]):
    value: T


@dataclasses.dataclass
class Table:
    """Rows.

    And rows by name.
    """

    rows: list[Row]
    by: dict[str, dict[str, Row]] = dataclasses.field(default_factory=dict)
    one: Row | None = None
    two: tuple[Row, Row] | None = None
    pairs: list[Pair] = dataclasses.field(default_factory=list)
    numbers: set[int] = dataclasses.field(default_factory=set)
    options: Options = dataclasses.field(default_factory=Options)


class Circle(msgspec.Struct, tag="circle"):
    radius: float


class Square(msgspec.Struct, tag="square", forbid_unknown_fields=True):
    side: float
    names: dict[str, Literal["u", "v"]] = {}


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    ONE = 1


class Leaf(pydantic.BaseModel):
    weight: float = pydantic.Field(gt=1)
    below: list[Leaf] = []


class Odd(pydantic.BaseModel):
    value: int = pydantic.Field(multiple_of=2)


@dataclasses.dataclass
class Checked:
    value: float

    def __post_init__(self) -> None:
        if self.value < 0:
            raise ValueError("value must be above 0")
        if self.value == 7:
            raise TypeError("a defect")
        if self.value == 9:
            raise InvalidInput("refused by name")


def codec(hint: Any) -> Codec:
    return compile_codec(hint, "model 'm': parameter 'x'")


def raw(value: Any) -> bytes:
    return json.dumps(value).encode()


MOMENT = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)


@pytest.mark.parametrize(
    ("hint", "sent", "read"),
    [
        (dict[str, int | str | None], {"a": 1, "b": "x", "c": None}, {"a": 1, "b": "x", "c": None}),
        (dict[str, datetime.datetime], {"a": "2020-01-01T00:00:00Z"}, {"a": MOMENT}),
        (list[uuid.UUID], [str(uuid.UUID(int=1))], [uuid.UUID(int=1)]),
        (list[decimal.Decimal], ["1.5"], [decimal.Decimal("1.5")]),
        (list[list[bytes]], [["aGk="]], [[b"hi"]]),
        (dict[str, tuple[int, str]], {"a": [1, "x"]}, {"a": (1, "x")}),
        (dict[str, set[int]], {"a": [1]}, {"a": {1}}),
        (dict[str, object], {"a": [None]}, {"a": [None]}),
        (list[list[Level]], [[1]], [[Level.ONE]]),
        (list[Pair], [[{"a": 1}, 2]], [Pair(Row(1), 2)]),
        (list[Box[int]], [{"value": 1}], [Box(1)]),
        (Circle | Square, {"type": "square", "side": 1}, Square(1.0)),
        (Circle, {"type": "circle", "radius": 1, "more": 2}, Circle(1.0)),
        (dict[str, Leaf], {"a": {"weight": 2}}, {"a": Leaf(weight=2)}),
        (list[float], [1], [1.0]),
        (list[Row | None], [None, {"a": 1, "b": 2}], [None, Row(1, 2.0)]),
    ],
)
def test_documents_match_hint_and_schema(hint: Any, sent: Any, read: Any) -> None:
    compiled = codec(hint)
    got = compiled.decode(raw(sent), "x")
    assert got == read
    assert repr(got) == repr(read)
    jsonschema.Draft202012Validator(json.loads(compiled.schema)).validate(sent)
    assert compiled.decode(compiled.encode(got, "y"), "x") == read
    assert compiled.read(sent, "x") == read


ROW = {"a": 1}


@pytest.mark.parametrize(
    ("hint", "sent", "message"),
    [
        (Table, {"rows": [ROW, {"a": "x"}]}, """input 'x.rows[1].a': got "x", expected an integer"""),
        (Table, {"rows": [ROW, {**ROW, "z": 2}]}, "input 'x.rows[1]': unexpected field 'z', expected 'a', 'b', 'c'"),
        (Table, {"rows": [{}]}, "input 'x.rows[0]': field 'a' is missing"),
        (Table, {"rows": [], "one": {"a": 1, "z": 1}}, "input 'x.one': unexpected field 'z', expected 'a', 'b', 'c'"),
        (Table, {"rows": [], "one": 3}, "input 'x.one': got 3, expected an object or null"),
        (Table, {"rows": [], "two": [ROW]}, "input 'x.two': got an array of 1, expected an array of length 2"),
        (Table, {"rows": [], "two": [ROW, {"a": 1, "z": 1}]}, "input 'x.two[1]': unexpected field 'z', expected 'a'"),
        (Table, {"rows": [], "pairs": [[{"a": 1, "z": 1}]]}, "input 'x.pairs[0][0]': unexpected field 'z'"),
        (Table, {"rows": [], "pairs": [[ROW, None]]}, "input 'x.pairs[0][1]': got null, expected an integer"),
        (Table, {"rows": [], "numbers": [1, "x"]}, """input 'x.numbers[1]': got "x", expected an integer"""),
        (Table, {"rows": [], "options": {"z": 1}}, "input 'x.options': unexpected field 'z', expected 'row'"),
        (Table, {"rows": [], "options": {"row": {"a": 1, "z": 1}}}, "input 'x.options.row': unexpected field 'z'"),
        (Table, {"rows": [], "by": {"k": {"l": {"a": 1, "z": 1}}}}, "input 'x.by.k.l': unexpected field 'z'"),
        (
            Table,
            {"rows": [], "by": {"i": {"j": ROW}, "k": {"j": ROW, "l.m": {"a": True}, "n": ROW}, "o": {"p": {}}}},
            """input 'x.by.k["l.m"].a': got true, expected an integer""",
        ),
        (list[Box[int]], [{"value": "x"}], """input 'x[0].value': got "x", expected an integer"""),
        (Square, {"type": "square", "side": 1, "z": 1}, "input 'x': unexpected field 'z'"),
        (
            Circle | Square,
            {"type": "cube"},
            """input 'x.type': got "cube", expected one of "circle", "square\"""",
        ),
        (
            Circle | Square,
            {"type": "square", "side": 1, "names": {"a": "u", "b": "w"}},
            """input 'x.names.b': got "w", expected one of "u", "v\"""",
        ),
        (dict[str, Color], {"a": 1}, """input 'x.a': got 1, expected one of "blue", "red\""""),
        (list[list[Level]], [[True]], "input 'x[0][0]': got true, expected one of 1"),
        (list[list[Literal["a"] | int]], [[None]], "input 'x[0][0]': got null, expected an integer or a string"),
        (dict[str, int | str], {"a": [1]}, "input 'x.a': got an array of 1, expected an integer or a string"),
        (dict[str, Annotated[int, msgspec.Meta(ge=1)]], {"a": 0}, "input 'x.a': got 0, expected an integer >= 1"),
        (list[datetime.datetime], ["noon"], """input 'x[0]': got "noon", invalid RFC3339 encoded datetime"""),
        (list[str], [1.5], "input 'x[0]': got 1.5, expected a string"),
        (list[int], ["x" * 1000], f"""input 'x[0]': got "{"x" * 39}..., expected an integer"""),
        (dict[str, Leaf], {"k": {"weight": 2, "below": [{"weight": 0}]}}, "input 'x.k': below.0.weight: Input should"),
        (list[Checked], [{"value": 1}, {"value": -1}], "input 'x[1]': value must be above 0"),
        (list[Checked], [{"value": 9}], "refused by name"),
    ],
)
def test_error_names_path_value_and_expectation(hint: Any, sent: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}"):
        codec(hint).decode(raw(sent), "x")


def test_type_error_of_a_class_is_not_invalid_input() -> None:
    with pytest.raises(TypeError, match=r"^a defect$"):
        codec(list[Checked]).decode(b'[{"value": 7}]', "x")


def test_search_for_a_dict_key_finds_it_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {f"k{i}": {f"j{j}": j if (i, j) != (17, 33) else "x" for j in range(50)} for i in range(50)}
    compiled = codec(dict[str, dict[str, int]])
    with pytest.raises(InvalidInput, match=r"""^input 'x.k17.j33': got "x", expected an integer$"""):
        compiled.decode(raw(values), "x")
    monkeypatch.setattr(json_errors, "_MAX_SECONDS", -1)
    with pytest.raises(InvalidInput, match=r"""^input 'x': got an object, expected an integer$"""):
        compiled.decode(raw(values), "x")


def test_nan_and_other_encodings_are_accepted() -> None:
    compiled = codec(list[float])
    assert math.isnan(compiled.decode("[NaN]", "x")[0])
    assert compiled.decode("[1e400]", "x") == [math.inf]
    assert compiled.decode(b"\xef\xbb\xbf[1]", "x") == [1]
    assert compiled.decode("[1]".encode("utf-16"), "x") == [1]
    assert codec(Any).decode(b"1" + b"0" * 30, "x") == 10**30


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({None: 1, True: 2, 1.5: 3}, '{"null":1,"true":2,"1.5":3}'),
        (types.MappingProxyType({"a": 1}), '{"a":1}'),
        (type("N", (int,), {})(1), "1"),
        (type("S", (str,), {})("x"), '"x"'),
        (type("F", (float,), {})(1.5), "1.5"),
        (enum.Enum("E", {"A": "a"}, type=str)["A"], '"a"'),
        (np.float32(0.5), "0.5"),
        (np.str_("x"), '"x"'),
        (np.arange(4).reshape(2, 2), "[[0,1],[2,3]]"),
        ([math.nan, math.inf], "[null,null]"),
        (2**70, str(2**70)),
        ([Leaf(weight=2)], '[{"weight":2.0,"below":[]}]'),
        (Row(1, 0.5), '{"a":1,"b":0.5,"c":null}'),
        (Circle(1), '{"type":"circle","radius":1}'),
        ((1, {2}, b"a", MOMENT), '[1,[2],"YQ==","2020-01-01T00:00:00Z"]'),
    ],
)
def test_values_are_written_as_json(value: Any, written: str) -> None:
    assert codec(Any).encode(value, "y").decode() == written


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": object()}, "object is not a JSON value"),
        ([Row], "type is not a JSON value"),
        ("\ud800", "'utf-8' codec can't encode"),
    ],
)
def test_values_without_json_form_raise_handler_error(value: Any, reason: str) -> None:
    with pytest.raises(HandlerError, match=f"^output 'y' cannot be written as JSON: {reason}"):
        codec(Any).encode(value, "y")


def test_circular_value_raises_handler_error() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(HandlerError, match=r"^output 'y' cannot be written as JSON: maximum recursion depth"):
        codec(Any).encode(value, "y")


def test_schema_describes_accepted_documents() -> None:
    schema = json.loads(codec(Table).schema)
    classes = schema["$defs"]
    assert schema["$ref"] == "#/$defs/Table"
    assert classes["Table"]["description"] == "Rows.\n\nAnd rows by name."
    assert classes["Row"]["additionalProperties"] is False
    assert classes["Row"]["required"] == ["a"]
    # Infinity is not JSON.
    assert classes["Row"]["properties"] == {"a": {"type": "integer"}, "b": {"type": "number"}, "c": {"default": None}}
    assert "additionalProperties" not in json.loads(codec(list[Circle]).schema)["$defs"]["Circle"]


def test_classes_of_equal_names_have_separate_schemas() -> None:
    other = pydantic.create_model("Row", x=(int, ...))
    schema = json.loads(codec(tuple_of(Row, other)).schema)
    assert schema["prefixItems"] == [{"$ref": "#/$defs/Row"}, {"$ref": "#/$defs/Row_"}]
    assert schema["$defs"]["Row_"]["required"] == ["x"]


def tuple_of(*hints: Any) -> Any:
    return tuple.__class_getitem__(hints)


@pytest.mark.parametrize(
    ("hint", "example"),
    [
        (Table, {"rows": [{"a": 1}]}),
        (tuple_of(Row, Color, bool, str, float), [{"a": 1}, "blue", True, "text", 1.0]),
        (Circle, {"type": "circle", "radius": 1.0}),
        (tuple_of(uuid.UUID, bytes, datetime.date), ["00000000-0000-0000-0000-000000000000", "", "2000-01-01"]),
        (list[Leaf], [{"weight": 2.0}]),
        (list[list[int]], [[1]]),
        (Checked, {"value": 1.0}),
        (Odd, None),
        (Row | None, None),
        (Pair, [{"a": 1}]),
    ],
)
def test_example_follows_the_schema(hint: Any, example: Any) -> None:
    compiled = codec(hint)
    assert compiled.example == (None if hint is Odd else json.dumps(example))


def test_default_without_json_form_only_omits_the_schema() -> None:
    # Made here: the class is not found by name.
    sentinel = dataclasses.make_dataclass("Sentinel", [("a", Any, dataclasses.field(default=object()))])
    compiled = codec(sentinel)
    assert compiled.schema == "{}"
    assert compiled.decode(b'{"a": 3}', "x").a == 3
    with pytest.raises(InvalidInput, match=r"^input 'x': unexpected field 'b', expected 'a'$"):
        compiled.decode(b'{"b": 3}', "x")


class Constructed:
    def __init__(self, v: int) -> None:
        self.v = v


OWN = dataclasses.make_dataclass("Own", [("v", int)], bases=(Constructed,), init=False)
KEPT_BY_CLASS = dataclasses.make_dataclass("Kept", [("w", int, dataclasses.field(init=False, default=1))])
WITH_ARGUMENT = dataclasses.make_dataclass("WithArgument", [("v", dataclasses.InitVar[int])])
CHECKED_BY_PYDANTIC = pydantic.dataclasses.dataclass(dataclasses.make_dataclass("Other", [("v", int)]))


@dataclasses.dataclass
class Derived:
    v: int
    w: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.w = self.v + 1


class Mixed(enum.Enum):
    A = 1
    B = "b"


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (OWN, ": Own has a constructor, which JSON does not call; use __post_init__, or make it a pydantic model"),
        (CHECKED_BY_PYDANTIC, ": Other has a constructor, which JSON does not call; use __post_init__, or make it a"),
        (Derived, ": Derived.w has init=False, so JSON cannot fill it; use a property, or make it a pydantic model"),
        (
            WITH_ARGUMENT,
            " is WithArgument, which JSON cannot hold: dataclasses with `InitVar` fields are not supported",
        ),
        (list[OWN], ": Own has a constructor"),  # type: ignore[valid-type]
        (Box[complex], ": Box.value is complex, which JSON cannot hold: use bool, int, float, str, bytes, list"),
        (dict[str, np.ndarray], " is ndarray, which JSON cannot hold: use bool, int"),
        (dict[str, Iterable[int]], " is Iterable, which JSON cannot hold: use bool, int"),
        (dict[str, dict[int, str]], " is a dict with other keys than str: the keys of a JSON object are str"),
        (list[Mixed], "which JSON cannot hold: Enums must contain either all str or all int values"),
        (list[Row | Options], "which JSON cannot hold: Type unions may not contain more than one dict-like type"),
        (
            dataclasses.make_dataclass("Unresolved", [("a", "NoSuch")]),
            ": Unresolved has an annotation that cannot be resolved: name 'NoSuch' is not defined",
        ),
    ],
)
def test_unsupported_hints_are_rejected_at_load(hint: Any, message: str) -> None:
    with pytest.raises(SignatureError, match=re.escape(message)) as refused:
        codec(hint)
    assert str(refused.value).startswith("model 'm': parameter 'x'")


def test_outputs_do_not_need_a_generated_constructor() -> None:
    assert compile_codec(OWN, "m", reads=False).encode(OWN(1), "y") == b'{"v":1}'
    assert compile_codec(Derived, "m", reads=False).encode(Derived(1), "y") == b'{"v":1,"w":2}'
    with pytest.raises(
        SignatureError, match=r"^m: Kept.w has init=False and a default, which JSON does not get; leave"
    ):
        compile_codec(KEPT_BY_CLASS, "m", reads=False)
