"""Validation of pipeline declarations, before a model is loaded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from penstock import Batching, Pipeline, SignatureError, Step, Tensor, model
from penstock._model.resolve import definitions_of


def stage(name: str, input_tensor: Tensor, output_tensor: Tensor, **options: Any) -> Any:
    return model(name=name, inputs=[input_tensor], outputs=[output_tensor], **options)(lambda x: x)


def fp32(name: str, *shape: int) -> Tensor:
    return Tensor(name, np.float32, shape)


A = stage("a", fp32("x", 4), fp32("y", 8), batching=Batching(max_size=8))
B = stage("b", fp32("x", 8), fp32("y", 2), batching=Batching(max_size=8))
C = stage("c", fp32("x", -1, -1), fp32("y", 1))
WIDE = stage("wide", fp32("x", 9), fp32("y", 2), batching=Batching(max_size=8))
WHOLE = stage("whole", Tensor("x", np.int64, [-1, 8]), fp32("y", 2))


def test_pipeline_signature_is_that_of_its_ends() -> None:
    steps = [
        Step(B, {"x": "middle"}, {"y": "out"}),
        Step(A, {"x": "in"}, {"y": "middle"}),
        Step("c", {"x": "middle"}, {}),
    ]
    definitions = {
        one.name: one for one in definitions_of([A, B, C, Pipeline("p", steps, inputs=["in"], outputs=["out"])])
    }
    pipeline = definitions["p"]
    # Shapes include the batch axis, as in the steps.
    assert pipeline.inputs == (fp32("in", -1, 4),)
    assert pipeline.outputs == (fp32("out", -1, 2),)
    assert pipeline.batching is None
    assert pipeline.calls == ("b", "a", "c")


CHAIN = [Step(A, {"x": "in"}, {"y": "middle"})]

INVALID = {
    "no model": ([Step("z", {}, {})], "there is no model 'z'; give it to the server beside the pipeline"),
    "no input": ([Step(A, {"q": "in"}, {"y": "out"})], "step 'a' has no input 'q', it has 'x'"),
    "no output": ([Step(A, {"x": "in"}, {"q": "out"})], "step 'a' has no output 'q', it has 'y'"),
    "missing": ([Step(A, {}, {"y": "out"})], "step 'a' is not given its input 'x'"),
    "unknown": (
        [*CHAIN, Step(B, {"x": "unknown"}, {"y": "out"})],
        "step 'b' takes 'unknown', which is no input and which no step gives",
    ),
    "shape": (
        [*CHAIN, Step(WIDE, {"x": "middle"}, {"y": "out"})],
        "step 'a' gives 'middle' as FP32 [-1, 8], and step 'wide' takes it as FP32 [-1, 9]",
    ),
    "datatype": (
        [*CHAIN, Step(WHOLE, {"x": "middle"}, {"y": "out"})],
        "step 'a' gives 'middle' as FP32 [-1, 8], and step 'whole' takes it as INT64 [-1, 8]",
    ),
    "circle": (
        [
            Step(C, {"x": "two"}, {"y": "out"}),
            Step(B, {"x": "two"}, {"y": "one"}),
            Step("back", {"x": "one"}, {"y": "two"}),
        ],
        "the steps 'c', 'b', 'back' wait for one another in a circle",
    ),
    "twice": ([*CHAIN, Step(A, {"x": "in"}, {"y": "middle"})], "tensor 'middle' has two sources"),
    "two shapes": (
        [Step(A, {"x": "in"}, {"y": "out"}), Step(B, {"x": "in"}, {"y": "other"})],
        "steps take the input 'in' as FP32 [-1, 4] and as FP32 [-1, 8]",
    ),
    "no end": (CHAIN, "no step gives the output 'out'"),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_steps_are_rejected_by_name(case: str) -> None:
    steps, message = INVALID[case]
    back = stage("back", fp32("x", 2), fp32("y", 8), batching=Batching(max_size=8))
    with pytest.raises(SignatureError) as raised:
        definitions_of([A, B, C, WIDE, WHOLE, back, Pipeline("p", steps, inputs=["in"], outputs=["out"])])
    assert str(raised.value).startswith("pipeline 'p': ")
    assert message in str(raised.value)


def test_pipeline_may_be_a_step_but_not_of_itself() -> None:
    inner = Pipeline("inner", CHAIN, inputs=["in"], outputs=["middle"])
    outer = Pipeline("outer", [Step("inner"), Step(B, {"x": "middle"}, {"y": "out"})], inputs=["in"], outputs=["out"])
    definitions = {one.name: one for one in definitions_of([outer, inner, A, B])}
    assert definitions["outer"].inputs == (fp32("in", -1, 4),)
    one, other = (
        Pipeline(name, [Step(step)], inputs=["in"], outputs=["in2"]) for name, step in (("p", "q"), ("q", "p"))
    )
    with pytest.raises(SignatureError, match=r"call each other in a circle.*: 'p' -> 'q' -> 'p'"):
        definitions_of([one, other])


def test_pipeline_arguments_are_validated_at_construction() -> None:
    def make(**changes: Any) -> Pipeline:
        return Pipeline(**{"name": "p", "steps": CHAIN, "inputs": ["in"], "outputs": ["middle"], **changes})

    assert repr(make()) == "Pipeline('p', [Step('a', inputs={'x': 'in'}, outputs={'y': 'middle'})])"
    for changes, message in (
        ({"name": "a/b"}, "pipeline: name 'a/b' must be 1 to 128 characters"),
        ({"version": ""}, "pipeline 'p': version '' must be 1 to 128 characters"),
        ({"steps": []}, "pipeline 'p': steps must be a list of one Step or more, not []"),
        ({"steps": ["a"]}, "pipeline 'p': steps must be a list of one Step or more, not ['a']"),
        ({"inputs": "in"}, "pipeline 'p': inputs must be a list of names of tensors, not 'in'"),
        ({"outputs": ["y", "y"]}, "pipeline 'p': outputs name 'y' twice"),
        ({"max_concurrency": 0}, "pipeline 'p': max_concurrency must be an integer of 1 or more, not 0"),
        ({"max_queue": True}, "pipeline 'p': max_queue must be an integer of 1 or more, not True"),
    ):
        with pytest.raises(SignatureError) as raised:
            make(**changes)
        assert str(raised.value).startswith(message)
    with pytest.raises(SignatureError, match="a step's model is a @model, a Pipeline or a name, not <function"):
        Step(test_pipeline_signature_is_that_of_its_ends)  # type: ignore[arg-type]
