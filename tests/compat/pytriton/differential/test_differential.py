"""Scripts under the real PyTriton and under `penstock shim pytriton` make equal observations.

deviations.py lists the allowed differences; an unused row is a failure. Both sides run here, so no observation of the
real PyTriton is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from deviations import BIND, CROSSED, LOCAL, SERVED
from messages import normal
from sides import SCRIPTS, penstock, real, why_not_real

from differential import Observed, Side, compare


@dataclass
class Runs:
    """Starts all observations of the two sides at once, because the real server is slow to start."""

    local: dict[str, tuple[Future[Observed], Future[Observed]]]
    served: tuple[Future[Observed], Future[Observed]]
    crossed: Future[Observed]
    """Observes the real clients with Penstock's server."""


def observe(server: Side, *clients: Side) -> list[Observed]:
    """Returns the observations of clients with one new server each, because servers count requests."""
    observed = []
    for client in clients:
        with server.serving(SCRIPTS / "server.py") as address:
            observed.append(client.observe(SCRIPTS / "client.py", address))
    return observed


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    if reason := why_not_real():
        pytest.skip(reason)
    theirs, ours = real(), penstock()
    with ThreadPoolExecutor(3) as pool:
        both = (pool.submit(observe, theirs, theirs), pool.submit(observe, ours, ours, theirs))
        local = {
            script: (pool.submit(theirs.observe, SCRIPTS / script), pool.submit(ours.observe, SCRIPTS / script))
            for script in ("bind.py", "local_types.py", "local_decorators.py")
        }
        first: Any = lambda future, place=0: pool.submit(lambda: future.result()[place])  # noqa: E731
        yield Runs(local, (first(both[0]), first(both[1])), first(both[1], 1))


@pytest.mark.parametrize("script", ["local_types.py", "local_decorators.py"])
def test_scripts_without_a_server_observe_the_same(script: str, runs: Runs) -> None:
    theirs, ours = (side.result() for side in runs.local[script])
    compare(theirs, ours, LOCAL[script], normal)


def test_binding_and_lifecycle_are_the_same(runs: Runs) -> None:
    theirs, ours = (side.result() for side in runs.local["bind.py"])
    compare(theirs, ours, BIND, normal)


def test_clients_and_plain_requests_observe_the_same(runs: Runs) -> None:
    theirs, ours = (side.result() for side in runs.served)
    compare(theirs, ours, SERVED, normal)


def test_real_clients_observe_the_same_of_penstock(runs: Runs) -> None:
    theirs, crossed = runs.served[0].result(), runs.crossed.result()
    compare(theirs, crossed, CROSSED, normal)
