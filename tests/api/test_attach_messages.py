"""What a process says of the models that it attaches: all of a declaration crosses, and nothing else gets in."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import attached_models as theirs
from penstock import (
    Batching,
    Cache,
    Cost,
    Dim,
    Fallback,
    InvalidInput,
    Level,
    Queueing,
    Request,
    Resources,
    Sequences,
    Tensor,
    Warmup,
    model,
)
from penstock._attach import definition_json, messages
from penstock._spec.definition import Definition
from penstock._spec.placement import Channels

TOKENS = Tensor("tokens", np.int64, [-1], ragged=True)
OUT = Tensor("out", np.float32, [2], labels=["no", "yes"])
NONE = Channels([])
FIELDS = [field.name for field in fields(Definition)]


@dataclass
class Document:
    """What is asked."""

    question: str
    most: int = 3


def documents(asked: list[Document]) -> list[str]:
    return [one.question for one in asked]


def nothing(*_: Any) -> Any:
    raise AssertionError("it is only described")


DECLARED: dict[str, Any] = {
    "plain": {},
    "named": {"version": "2024-05", "description": "Ünïcode\n", "max_queue": 7, "instances": 3},
    "costs": {
        "inputs": [TOKENS],
        "batching": Batching(128, cost=Dim("tokens") ** 2 + 16 * Dim("tokens") + 3, max_cost=4096, window=1.5),
    },
    "edges": {"inputs": [TOKENS], "batching": Batching(window=[16, 64], max_delay=0.25, oversize="split")},
    "padded": {"inputs": [Tensor("x", np.float32, [-1, 3], pad=float("-inf"))], "batching": Batching(4)},
    "padded texts": {"inputs": [Tensor("x", bytes, [-1], pad=b"\x00\xff")], "batching": Batching(4)},
    "padded words": {"inputs": [Tensor("x", str, [-1], pad="<pad>")], "batching": Batching(4)},
    "sizes": {"batching": Batching(sizes=[1, 4, 8], pad="zeros", preferred_sizes=[4], hold=False, dynamic=False)},
    "memory": {"batching": Batching(8, retry_on_oom=True)},
    "latency": {"batching": Batching(8, target_p99=0.05, reject_late=True, max_duration=0.01)},
    "waits": {
        "queueing": Queueing(
            4,
            default_priority=2,
            timeout=1.5,
            max_rows=9,
            max_bytes=1 << 40,
            fair_by="header:X-Tenant",
            max_rows_per_client=3,
            levels={1: Level(max_size=4), 3: Level(timeout=0.5)},
        )
    },
    "late": {"queueing": Queueing(2, levels={2: Level(timeout=2.0, on_timeout="delay")})},
    "keeps": {
        "cache": Cache(1 << 20, ttl=5.0, vary=["X-Tenant"], revision="r1", per_caller=False),
        "batching": Batching(4),
    },
    "any shape": {"check_shapes": False},
    "needs": {"resources": Resources({"gpu0": 1, "disk": 2}, weight=0.5)},
    "kinds": {
        "inputs": [
            Tensor("half", "BF16", [2, -1], optional=True),
            Tensor("scalar", bool),
            Tensor("bytes", bytes, [1]),
            Tensor("text", str, [1]),
        ]
    },
    "counts": {"buckets": {"length": [1, 2.5, 1000], "size": [0.001]}},
}


def declared(options: dict[str, Any]) -> Definition:
    given = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [OUT], **options}
    names = ", ".join(tensor.name for tensor in given["inputs"])
    handler = eval(f"lambda {names}: None")
    return model(handler, name="m", **given).bare_definition()


def crossed(definition: Definition) -> Definition:
    """What the other side makes of a definition."""
    parts: list[bytes] = []
    text = json.dumps(definition_json.to_json(definition, parts))
    return definition_json.from_json(json.loads(text), parts, NONE)


def bare(definition: Definition) -> Definition:
    """Without what lies on one side only."""
    return replace(definition, factory=nothing, processes=None, concurrency=None, warmup=None)


def test_a_fallback_crosses() -> None:
    def takes(request: Request) -> Any:
        raise AssertionError("it is only described")

    fallback = Fallback("b", after=2.5, match_body=(b"\xff", b"c"))
    definition = model(takes, name="m", routes=["POST /a"], fallback=fallback).bare_definition()
    assert crossed(definition).fallback == fallback
    assert crossed(replace(definition, fallback=Fallback(":b"))).fallback == Fallback(":b")
    parts: list[bytes] = []
    told = definition_json.to_json(definition, parts)
    for wrong in ("b", ["b"], [1, None, []], ["a/b", None, []], ["b", 0, []], ["b", None, [""]], ["b", None, [1]]):
        with pytest.raises(InvalidInput, match="invalid model description"):
            definition_json.from_json({**told, "fallback": wrong}, parts, NONE)


@pytest.mark.parametrize("options", DECLARED.values(), ids=DECLARED)
def test_all_of_a_declaration_crosses(options: dict[str, Any]) -> None:
    definition = declared(options)
    found = bare(crossed(definition))
    for name in FIELDS:
        expected = getattr(bare(definition), name)
        if name == "batching" and isinstance(getattr(expected, "cost", None), Cost):
            assert found.batching is not None
            assert found.batching.cost is not None
            assert found.batching.cost.terms == expected.cost.terms
            expected = replace_cost(expected, found.batching.cost)
        assert getattr(found, name) == expected, name


def replace_cost(batching: Batching, cost: Cost) -> Batching:
    # Alike but for its class: a Dim is a Cost too.
    same = object.__new__(Batching)
    for name in Batching.__slots__:
        object.__setattr__(same, name, cost if name == "cost" else getattr(batching, name))
    return same


def test_no_part_of_a_declaration_is_forgotten() -> None:
    local = {"factory", "processes", "concurrency", "explainer", "calls", "opaque", "version_policy", "warmup"}
    found = definition_json.to_json(theirs.summing.with_options(resources={"gpu0": 1}).bare_definition(), [])
    assert found.keys() - {"samples"} == set(FIELDS) - local
    tensor = set(Tensor.__slots__) - {"dtype"}
    assert found["inputs"][0].keys() == tensor


def test_streams_sequences_contexts_and_documents_cross() -> None:
    for one in (theirs.counts, theirs.summing, theirs.texts, model(documents)):
        definition = one.bare_definition()
        assert bare(crossed(definition)) == bare(definition)
    assert crossed(model(documents).bare_definition()).input_documents["asked"].schema
    loose = model(nothing, name="m", batching=Batching(2), check_shapes=False, **theirs.FLOATS).bare_definition()
    assert not crossed(loose).check_shapes
    assert crossed(theirs.summing.bare_definition()).sequences == Sequences()


def test_samples_cross_once_however_often_they_are_repeated() -> None:
    warm = model(nothing, name="m", warmup=Warmup(repeat=50, batch_sizes=[1, 2]), batching=Batching(2), **theirs.FLOATS)
    definition = warm.bare_definition() if warm.inputs else None
    assert definition is not None
    assert definition.warmup is not None
    parts: list[bytes] = []
    text = json.dumps(definition_json.to_json(definition, parts))
    assert len(parts) == 2
    read = definition_json.from_json(json.loads(text), parts, NONE)
    assert read.warmup is not None
    assert list(read.warmup.requests(read)) == list(definition.warmup.requests(definition))


def test_two_tensors_of_one_name_are_refused() -> None:
    found = definition_json.to_json(declared({}), [])
    found["inputs"] *= 2
    with pytest.raises(InvalidInput, match="model 'm': two tensors have one name"):
        definition_json.from_json(found, [], NONE)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_whatever_is_described_is_a_model_or_refused(data: st.DataObject) -> None:
    parts: list[bytes] = []
    options = data.draw(st.sampled_from(sorted(DECLARED)))
    found = json.loads(json.dumps(definition_json.to_json(declared(DECLARED[options]), parts)))
    place: Any = {"all": found}
    key: Any = "all"
    while isinstance(place[key], (dict, list)) and place[key] and (place[key] is found or data.draw(st.booleans())):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
    if isinstance(place, dict) and data.draw(st.booleans()):
        del place[key]
    else:
        place[key] = data.draw(JSON)
    with contextlib.suppress(InvalidInput):
        assert isinstance(definition_json.from_json(found, parts, NONE), Definition)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | JSON.map(lambda value: _framed(json.dumps(value).encode())))
def test_any_bytes_are_a_message_or_refused(message: bytes) -> None:
    try:
        head, parts = messages._unpack(message)
    except ValueError:
        return
    assert isinstance(head, dict)
    assert all(isinstance(part, bytes) for part in parts)


def _framed(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"parts": [3]}',
        b'{"parts": [-1]}',
        b'{"parts": [true]}',
        b'{"parts": {}}',
        b"[]",
        b'{"parts": [100000000000000000000]}',
    ],
)
def test_a_message_that_is_not_what_it_says_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="a message"):
        messages._unpack(_framed(text))
