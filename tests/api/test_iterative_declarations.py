"""Declarations of iterative models, and their refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from penstock import Cache, Iterative, Processes, Row, Sequences, SignatureError, Tensor, Threads, model

ONE: Any = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}


class Steps:
    def step(self, rows: list[Row]) -> Any:
        return [row["x"] for row in rows]


def refusal(target: Any, **options: Any) -> str:
    with pytest.raises(SignatureError) as caught:
        model(name="m", **{"batching": Iterative(), **ONE, **options})(target)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"instances": Processes(2)}, "Processes(...)"),
        ({"max_concurrency": 2}, "max_concurrency="),
        ({"streams": False}, "streams=False"),
        ({"sequences": Sequences()}, "sequences="),
        ({"resources": {"gpu0": 1}}, "resources="),
    ],
)
def test_other_options_are_refused(options: dict[str, Any], name: str) -> None:
    assert refusal(Steps, **options) == f"model 'm': {name} does not go with batching=Iterative(...)"


def test_explainers_caches_and_inline_instances_are_refused() -> None:
    class Explains(Steps):
        def explain(self, x: Any) -> Any:
            return x

    assert refusal(Explains) == "model 'm': a method `explain` does not go with batching=Iterative(...)"
    assert "the answers of a model that streams are not kept" in refusal(Steps, cache=Cache())
    assert "it does not go with a handler that streams" in refusal(Steps, instances=Threads(1, inline=True))


def test_only_classes_with_step_are_accepted() -> None:
    class Nothing:
        def predict(self, x: Any) -> Any:
            return x

    class Async:
        async def step(self, rows: list[Row]) -> Any:
            return rows

    class Yields:
        def step(self, rows: list[Row]) -> Iterator[Any]:
            yield rows

    class TakesNothing:
        def step(self) -> Any:
            return []

    class TakesMore:
        def step(self, rows: list[Row], ctx: Any) -> Any:
            return rows

    class Leaves(Steps):
        def leave(self) -> None:
            pass

    class Needs(Steps):
        def __init__(self, path: str) -> None:
            pass

    assert refusal(lambda rows: rows) == "model 'm': Iterative is for a class with a method `step(self, rows)`"
    assert refusal(Nothing) == "model 'm': class Nothing has no method `step(self, rows)`, which Iterative calls"
    assert refusal(Async) == "model 'm': Async.step is async; Iterative takes a plain method"
    assert refusal(Yields) == "model 'm': Yields.step has a yield; it returns a list with an entry for each row"
    for target in (TakesNothing, TakesMore):
        text = f"model 'm': {target.__name__}.step is called with one argument, `rows`, and does not take it"
        assert refusal(target) == text
    assert refusal(Leaves) == "model 'm': Leaves.leave is called with one argument, `row`, and does not take it"
    assert refusal(Needs).startswith("model 'm': Needs() needs 'path'")


def test_tensors_are_declared() -> None:
    padded, ragged = Tensor("x", np.int64, [-1], pad=0), Tensor("x", np.int64, [-1], ragged=True)
    for name in ("inputs", "outputs"):
        assert refusal(Steps, **{name: None}) == f"model 'm': `step` takes rows, so {name}= must be declared"
    assert refusal(Steps, inputs=[]) == "model 'm': Iterative needs at least one input, whose first axis is the batch"
    assert refusal(Steps, inputs=[*ONE["inputs"], *ONE["inputs"]]) == "model 'm': input 'x' is declared twice"
    rest = "=, which is for joined rows; the rows of `step` may differ without it"
    assert refusal(Steps, inputs=[padded]) == f"model 'm': 'x' has pad{rest}"
    assert refusal(Steps, inputs=[ragged]) == f"model 'm': 'x' has ragged{rest}"


def test_options_are_checked() -> None:
    assert repr(Iterative()) == "Iterative(max_rows=16, max_steps=4096)"
    for name in ("max_rows", "max_steps"):
        for value in (0, 1.5, True, 2**31):
            text = f"Iterative: {name} must be an integer of 1 or more, not {value!r}"
            with pytest.raises(ValueError, match="^" + text.replace(".", r"\.") + "$"):
                Iterative(**{name: value})
    with pytest.raises(TypeError, match="Iterative has no option 'max_batch_size', did you mean 'max_rows'"):
        Iterative(max_batch_size=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"has no option 'max_steps', write batching=Iterative\(max_steps=...\)"):
        model(max_steps=2)  # type: ignore[call-overload]
    assert refusal(Steps, batching=3) == "model 'm': batching must be a Batching or an Iterative, not 3"


def test_descriptions_name_it() -> None:
    from penstock._model.settings import settings_of

    served = model(batching=Iterative(8), **ONE)(Steps)
    assert "up to 8 rows, step by step" in served._repr_html_()
    assert (served.batching is not None, served.streams) == (True, True)
    (row,) = (row for row in settings_of(served, None).rows if row.name == "batching")
    assert row.text == "Iterative(max_rows=8)"
    assert row.value == {"max_rows": 8, "max_steps": 4096}


def test_it_cannot_be_attached_nor_batched_by_a_configuration() -> None:
    from penstock._attach.workers import attachable
    from penstock._repository.overrides import Overrides
    from penstock.errors import InvalidInput

    served = model(name="m", batching=Iterative(8), **ONE)(Steps)
    with pytest.raises(SignatureError, match="model 'm': an attached model does not go with batching=Iterative"):
        attachable([served])
    definition = served.definition()
    changed = Overrides.parse('{"max_batch_size": 4}').apply(definition).batching
    assert changed is not None
    assert changed.max_size == 4
    with pytest.raises(InvalidInput, match="config 'dynamic_batching' cannot be set: model 'm' computes its rows step"):
        Overrides.parse('{"dynamic_batching": {}}').apply(definition)
