"""Server-side part of a round: differences of a model's statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client import Client

__all__ = ["PARTS", "ServerPart", "difference", "snapshot"]

PARTS = ("queue", "compute_input", "compute_infer", "compute_output")
"""Parts of a request's time on the server, in their order."""

Snapshot = Mapping[str, Any]


class ServerPart(TypedDict):
    """The server's counts and times of one round."""

    succeeded: int
    failed: int
    executions: int
    """Calls of the model."""
    rows: int
    """Rows that these calls computed."""
    mean_batch: float | None
    """Rows for each call; None without calls."""
    split_ms: dict[str, float]
    """Mean time of a successful request in each of `PARTS`, in milliseconds."""
    batch_sizes: list[tuple[int, int]]
    """Sizes of batches, each with its number of calls."""


def snapshot(client: Client, model: str, version: str | None) -> Snapshot | None:
    """The model's statistics; None where the server has none."""
    try:
        models = client.statistics(model, version=version).get("model_stats")
    except (PenstockError, ValueError):
        return None
    if not isinstance(models, list) or not all(isinstance(one, dict) and "inference_stats" in one for one in models):
        return None
    total: Counter[str] = Counter()
    sizes: Counter[int] = Counter()
    for one in models:
        total["executions"] += int(one.get("execution_count", 0))
        total["rows"] += int(one.get("inference_count", 0))
        for part in ("success", "fail", *PARTS):
            duration = one["inference_stats"].get(part) or {}
            total[f"{part}.count"] += int(duration.get("count", 0))
            total[f"{part}.ns"] += int(duration.get("ns", 0))
        for batch in one.get("batch_stats") or []:
            sizes[int(batch["batch_size"])] += int((batch.get("compute_infer") or {}).get("count", 0))
    return {"total": total, "sizes": sizes} if models else None


def difference(before: Snapshot | None, after: Snapshot | None) -> ServerPart | None:
    """The part between two snapshots; None if one is missing, or the model was loaded again in between."""
    if before is None or after is None:
        return None
    total = {name: after["total"][name] - before["total"][name] for name in after["total"]}
    if any(value < 0 for value in total.values()):
        return None
    sizes = {size: count - before["sizes"][size] for size, count in after["sizes"].items()}
    return {
        "succeeded": total["success.count"],
        "failed": total["fail.count"],
        "executions": total["executions"],
        "rows": total["rows"],
        "mean_batch": total["rows"] / total["executions"] if total["executions"] else None,
        "split_ms": {part: _mean_ms(total, part) for part in PARTS},
        "batch_sizes": [(size, count) for size, count in sorted(sizes.items()) if count > 0],
    }


def _mean_ms(total: Mapping[str, int], part: str) -> float:
    count = total[f"{part}.count"]
    return total[f"{part}.ns"] / count / 1e6 if count else 0.0
