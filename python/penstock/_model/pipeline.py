"""`Pipeline`: models chained by named tensors, and served as one model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock._model.options import DEFAULT_MAX_QUEUE, checked_count, checked_name
from penstock._model.step import Step
from penstock.errors import SignatureError

if TYPE_CHECKING:
    from penstock._spec.definition import Definition

__all__ = ["Pipeline"]


class Pipeline:
    """Models chained by named tensors, and served as one model.

    A step begins when its input tensors exist; independent steps run concurrently. Each step goes through its model's
    queue and batches, so that steps of different requests overlap. The models must be served by the same server.

    Args:
        name: The name on the wire.
        steps: In any order.
        inputs: Names of the tensors in a request.
        outputs: Names of the tensors in the response.
        version: The version on the wire.
        description: Description in the API documentation.
        max_concurrency: Limit of concurrent requests.
        max_queue: Limit of requests that wait in addition.

    Raises:
        SignatureError: at the start: steps that wait for one another, or tensors that do not fit; with their names.

    Example:
        >>> Pipeline(
        ...     "search",
        ...     steps=[
        ...         Step("embed", {"text": "query"}, {"vector": "embedded"}),
        ...         Step("rank", {"x": "embedded"}, {"y": "ranks"}),
        ...     ],
        ...     inputs=["query"],
        ...     outputs=["ranks"],
        ... )
    """

    def __init__(
        self,
        name: str,
        steps: Iterable[Step],
        *,
        inputs: Sequence[str],
        outputs: Sequence[str],
        version: str | int = "1",
        description: str = "",
        max_concurrency: int = 1024,
        max_queue: int = DEFAULT_MAX_QUEUE,
    ) -> None:
        self.name = checked_name("name", name, "pipeline")
        where = f"pipeline {name!r}"
        self.version, self.description = checked_name("version", str(version), where), description
        self.steps = list(steps)
        self.inputs, self.outputs = _names(inputs, f"{where}: inputs"), _names(outputs, f"{where}: outputs")
        if not self.steps or not all(isinstance(step, Step) for step in self.steps):
            raise SignatureError(f"{where}: steps must be a list of one Step or more, not {self.steps!r}")
        self.max_concurrency = checked_count(max_concurrency, f"{where}: max_concurrency")
        self.max_queue = checked_count(max_queue, f"{where}: max_queue")

    def definition(self, known: Iterable[Definition]) -> Definition:
        """The definition of the pipeline, for a server with these models.

        Raises:
            SignatureError: the steps do not fit together.
        """
        from penstock._model.plan import Plan
        from penstock._spec.definition import BoundHandler, Definition

        plan = Plan(f"pipeline {self.name!r}", self.steps, self.inputs, self.outputs, known)
        return Definition(
            name=self.name,
            version=self.version,
            platform="penstock_pipeline",
            inputs=plan.inputs,
            outputs=plan.outputs,
            batching=None,
            instances=1,
            concurrency=self.max_concurrency,
            max_queue=self.max_queue,
            wants_context=True,
            streams=False,
            factory=lambda: BoundHandler(plan.run),
            description=self.description,
            calls=tuple(dict.fromkeys(step.model for step in self.steps)),
            opaque=True,
        )

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {self.steps})"


def _names(names: Sequence[str], where: str) -> list[str]:
    found = list(names)
    if isinstance(names, str) or not all(isinstance(name, str) and name for name in found):
        raise SignatureError(f"{where} must be a list of names of tensors, not {names!r}")
    if twice := [name for name in found if found.count(name) > 1]:
        raise SignatureError(f"{where} name {twice[0]!r} twice")
    return found
