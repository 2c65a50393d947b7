"""Model descriptions of attached processes: complete round trip, and rejection of malformed messages."""

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
    """A search query."""

    question: str
    limit: int = 3


def documents(queries: list[Document]) -> list[str]:
    return [query.question for query in queries]


def unused(*_: Any) -> Any:
    raise AssertionError("the handler is never called")


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


def round_trip(definition: Definition) -> Definition:
    """The definition after serialization and parsing."""
    parts: list[bytes] = []
    text = json.dumps(definition_json.to_json(definition, parts))
    return definition_json.from_json(json.loads(text), parts, NONE)


def shared_fields(definition: Definition) -> Definition:
    """The definition without fields that are not serialized."""
    return replace(definition, factory=unused, processes=None, concurrency=None, warmup=None)


def test_fallback_round_trips() -> None:
    def raw_handler(request: Request) -> Any:
        raise AssertionError("the handler is never called")

    fallback = Fallback("b", after=2.5, match_body=(b"\xff", b"c"))
    definition = model(raw_handler, name="m", routes=["POST /a"], fallback=fallback).bare_definition()
    assert round_trip(definition).fallback == fallback
    assert round_trip(replace(definition, fallback=Fallback(":b"))).fallback == Fallback(":b")
    parts: list[bytes] = []
    description = definition_json.to_json(definition, parts)
    for wrong in ("b", ["b"], [1, None, []], ["a/b", None, []], ["b", 0, []], ["b", None, [""]], ["b", None, [1]]):
        with pytest.raises(InvalidInput, match="invalid model description"):
            definition_json.from_json({**description, "fallback": wrong}, parts, NONE)


@pytest.mark.parametrize("options", DECLARED.values(), ids=DECLARED)
def test_every_declared_option_round_trips(options: dict[str, Any]) -> None:
    definition = declared(options)
    parsed = shared_fields(round_trip(definition))
    for name in FIELDS:
        expected = getattr(shared_fields(definition), name)
        if name == "batching" and isinstance(getattr(expected, "cost", None), Cost):
            assert parsed.batching is not None
            assert parsed.batching.cost is not None
            assert parsed.batching.cost.terms == expected.cost.terms
            expected = replace_cost(expected, parsed.batching.cost)
        assert getattr(parsed, name) == expected, name


def replace_cost(batching: Batching, cost: Cost) -> Batching:
    # Equal except for its class: a Dim is a Cost too.
    same = object.__new__(Batching)
    for name in Batching.__slots__:
        object.__setattr__(same, name, cost if name == "cost" else getattr(batching, name))
    return same


def test_description_contains_every_field_of_a_definition() -> None:
    local = {"factory", "processes", "concurrency", "explainer", "calls", "opaque", "version_policy", "warmup"}
    local |= {"stall_timeout", "iterative"}
    parsed = definition_json.to_json(theirs.summing.with_options(resources={"gpu0": 1}).bare_definition(), [])
    assert parsed.keys() - {"samples"} == set(FIELDS) - local
    tensor = set(Tensor.__slots__) - {"dtype"}
    assert parsed["inputs"][0].keys() == tensor


def test_streams_sequences_contexts_and_documents_round_trip() -> None:
    for declared_model in (theirs.counts, theirs.summing, theirs.texts, model(documents)):
        definition = declared_model.bare_definition()
        assert shared_fields(round_trip(definition)) == shared_fields(definition)
    assert round_trip(model(documents).bare_definition()).input_documents["queries"].schema
    unchecked = model(unused, name="m", batching=Batching(2), check_shapes=False, **theirs.FLOATS).bare_definition()
    assert not round_trip(unchecked).check_shapes
    assert round_trip(theirs.summing.bare_definition()).sequences == Sequences()


def test_repeated_warmup_samples_are_sent_once() -> None:
    warm = model(unused, name="m", warmup=Warmup(repeat=50, batch_sizes=[1, 2]), batching=Batching(2), **theirs.FLOATS)
    definition = warm.bare_definition() if warm.inputs else None
    assert definition is not None
    assert definition.warmup is not None
    parts: list[bytes] = []
    text = json.dumps(definition_json.to_json(definition, parts))
    assert len(parts) == 2
    restored = definition_json.from_json(json.loads(text), parts, NONE)
    assert restored.warmup is not None
    assert list(restored.warmup.requests(restored)) == list(definition.warmup.requests(definition))


def test_duplicate_tensor_names_are_rejected() -> None:
    parsed = definition_json.to_json(declared({}), [])
    parsed["inputs"] *= 2
    with pytest.raises(InvalidInput, match="model 'm': two tensors have one name"):
        definition_json.from_json(parsed, [], NONE)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_mutated_descriptions_are_parsed_or_rejected(data: st.DataObject) -> None:
    parts: list[bytes] = []
    options = data.draw(st.sampled_from(sorted(DECLARED)))
    parsed = json.loads(json.dumps(definition_json.to_json(declared(DECLARED[options]), parts)))
    container: Any = {"all": parsed}
    key: Any = "all"
    while (
        isinstance(container[key], (dict, list))
        and container[key]
        and (container[key] is parsed or data.draw(st.booleans()))
    ):
        container = container[key]
        key = data.draw(st.sampled_from(sorted(container) if isinstance(container, dict) else range(len(container))))
    if isinstance(container, dict) and data.draw(st.booleans()):
        del container[key]
    else:
        container[key] = data.draw(JSON)
    with contextlib.suppress(InvalidInput):
        assert isinstance(definition_json.from_json(parsed, parts, NONE), Definition)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | JSON.map(lambda value: _framed(json.dumps(value).encode())))
def test_arbitrary_bytes_are_parsed_or_rejected(message: bytes) -> None:
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
def test_malformed_message_header_is_rejected(text: bytes) -> None:
    with pytest.raises(ValueError, match="a message"):
        messages._unpack(_framed(text))
