"""Checks of a model's batching against its inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable

from penstock._spec.batching import Batching
from penstock._spec.tensor import Tensor
from penstock.errors import SignatureError


def check_batching(
    batching: Batching | None,
    tensors: tuple[Iterable[Tensor], Iterable[Tensor]],
    where: str,
    *,
    streams: bool = False,
    processes: bool = False,
) -> None:
    """Checks the cost of rows, and rows of different lengths, against the rest of a model.

    Args:
        batching: Its batching.
        tensors: Its inputs, and its outputs.
        where: Prefix of messages.
        streams: Whether it streams.
        processes: Whether its instances are processes.

    Raises:
        SignatureError: they do not fit.
    """
    _check_cost(batching, tensors[0], where)
    _check_ragged(batching, tensors, where, streams=streams, processes=processes)


def _check_cost(batching: Batching | None, inputs: Iterable[Tensor], where: str) -> None:
    if batching is None or batching.cost is None:
        return
    axes = {tensor.name: len(tensor.shape) for tensor in inputs}
    for name, axis in (one for _, sizes in batching.cost.terms for one in sizes):
        if name not in axes:
            raise SignatureError(f"{where}: cost has Dim({name!r}), which is none of the inputs ({', '.join(axes)})")
        if axis >= axes[name]:
            raise SignatureError(
                f"{where}: cost has Dim({name!r}, {axis}), and input {name!r} has {axes[name]} axes without the batch's"
            )


def _check_ragged(
    batching: Batching | None,
    tensors: tuple[Iterable[Tensor], Iterable[Tensor]],
    where: str,
    *,
    streams: bool,
    processes: bool,
) -> None:
    ragged = [one.name for one in tensors[0] if one.ragged or one.pad is not None]
    for one in tensors[1]:
        if one.pad is not None:
            raise SignatureError(f"{where}: output {one.name!r} has pad; only inputs are filled up")
        if one.ragged and (batching is None or streams):
            why = "streams its rows one by one" if streams else "has no batching="
            raise SignatureError(f"{where}: output {one.name!r} is ragged, and the model {why}")
    if not ragged:
        if batching is not None and batching.window is not None:
            raise SignatureError(f"{where}: window needs an input whose rows may differ in length: ragged=True or pad=")
        return
    if batching is None:
        raise SignatureError(f"{where}: rows of input {ragged[0]!r} differ in length, which needs batching=")
    if batching.sizes:
        raise SignatureError(
            f"{where}: Batching(sizes=...) does not go with rows that differ in length ({ragged[0]!r})"
        )
    if processes and batching.retry_on_oom:
        raise SignatureError(
            f"{where}: Processes go with retry_on_oom=True or rows that differ in length ({ragged[0]!r}), not both"
        )
