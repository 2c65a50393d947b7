"""Runs scripts under the real KServe of each dialect and under `penstock shim kserve`, and compares the results.

Deviations are listed in kserve_deviations.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import cases_grpc
import cases_http
import cases_pairs
import pytest
from kserve_deviations import table
from kserve_sides import HOMES, SCRIPTS, penstock, real, why_not_real
from normal import normal
from observe import free_ports
from requests_as_data import call_all, send_all

from differential import Observed, Side, compare

LOCAL = ("local_types.py", "local_helpers.py")
Seen = tuple["Future[Observed]", "Future[Observed]"]
"""The observations of KServe and of Penstock."""


@dataclass
class Runs:
    """Observations of both sides, started together: KServe's servers start slowly."""

    dialect: str
    seen: dict[str, Seen]

    def compare(self, part: str) -> None:
        theirs, ours = (future.result() for future in self.seen[part])
        compare(theirs, ours, table(part, self.dialect), normal)


def served(side: Side, new: bool) -> Observed:
    """Results of server.py."""
    with side.serving(SCRIPTS / "server.py") as address:
        ports = json.loads(address)
        return {**send_all(ports["http"], cases_http.cases(new)), **call_all(ports["grpc"], cases_grpc.cases(new))}


def merged(side: Side) -> Observed:
    """Results for events with CE_MERGE."""
    with side.serving(SCRIPTS / "server.py", CE_MERGE="true", CE_TYPE="own.type", CE_SOURCE="own/source") as address:
        return send_all(json.loads(address)["http"], cases_http.events())


def paired(side: Side, predictor: Side) -> Observed:
    """Results of transformers, by the predictor's protocol."""
    seen: Observed = {}
    with predictor.serving(SCRIPTS / "server.py") as address:
        ports = json.loads(address)
        for protocol in cases_pairs.PROTOCOLS:
            host = f"127.0.0.1:{ports['grpc' if protocol == 'grpc-v2' else 'http']}"
            http, grpc = free_ports(2)
            flags = {"http_port": http, "grpc_port": grpc, "predictor_host": host, "predictor_protocol": protocol}
            arguments = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
            with side.serving(SCRIPTS / "transformer.py", *arguments):
                seen |= send_all(http, cases_pairs.cases(protocol)) | call_all(grpc, cases_pairs.calls(protocol))
    return seen


@pytest.fixture(scope="module", params=HOMES)
def runs(request: pytest.FixtureRequest) -> Iterator[Runs]:
    dialect = request.param
    if reason := why_not_real(dialect):
        pytest.skip(reason)
    theirs, ours, new = real(dialect), penstock(dialect), dialect == "0.21"
    observers: dict[str, Callable[[Side], Any]] = {
        **{script: lambda side, script=script: side.observe(SCRIPTS / script) for script in LOCAL},
        "server": lambda side: served(side, new),
        "events": merged,
        # Both in front of the real KServe, so that only the transformers differ.
        "pairs": lambda side: paired(side, theirs),
    }
    with ThreadPoolExecutor(3) as pool:
        yield Runs(
            dialect,
            {part: (pool.submit(observe, theirs), pool.submit(observe, ours)) for part, observe in observers.items()},
        )


@pytest.mark.parametrize("script", LOCAL)
def test_local_results_are_equal(script: str, runs: Runs) -> None:
    runs.compare(script)


def test_server_responses_are_equal(runs: Runs) -> None:
    runs.compare("server")


def test_events_are_equal_with_merged_attributes(runs: Runs) -> None:
    runs.compare("events")


def test_transformer_responses_are_equal(runs: Runs) -> None:
    runs.compare("pairs")
