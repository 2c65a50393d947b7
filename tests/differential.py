"""Differential tests: runs scripts under another product and under Penstock, and compares their observations.

A script records the outcome of each case with tests/observing/observe.py. A table lists the allowed differences; an
unused row fails too.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from waiting import until

REPOSITORY = Path(__file__).resolve().parents[1]
TOOLS = Path(os.environ.get("PENSTOCK_TEST_TOOLS") or REPOSITORY / ".tools").absolute()
OBSERVING = Path(__file__).parent / "observing"
"""The folder of the module `observe`."""

LONGEST = 240.0
"""Seconds for a whole script, because other products may need seconds for each model."""

Observed = dict[str, Any]
"""The result or exception of each case."""


class Side:
    """One of the two products, with its command to run a script."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._command = command
        path = os.pathsep.join(filter(None, [str(OBSERVING), environment.get("PYTHONPATH")]))
        self._environment = {**environment, "PYTHONPATH": path}

    def start(self, script: Path, *arguments: str, log: IO[str], **environment: str) -> subprocess.Popen[bytes]:
        """Starts a script with its output in the log."""
        command = [*self._command, str(script), *arguments]
        return subprocess.Popen(
            command, env={**self._environment, **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )

    @contextmanager
    def running(
        self, script: Path, *arguments: str, exits: int | None = None, **environment: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Runs a serving script; at the end it is interrupted with SIGINT and must exit with that status."""
        with tempfile.TemporaryFile("w+") as log:
            process = self.start(script, *arguments, log=log, **environment)
            try:
                yield process
                assert process.poll() is None, "the process has exited"
                process.send_signal(signal.SIGINT)
                assert process.wait(LONGEST) == exits or exits is None
            except BaseException:
                log.seek(0)
                print(log.read()[-4000:])
                raise
            finally:
                process.kill()
                process.wait()

    def output_of(self, script: Path, *arguments: str, patience: float, **environment: str) -> str:
        """The standard output of a script, which must succeed."""
        done = subprocess.run(
            [*self._command, str(script), *arguments],
            env={**self._environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
        assert done.returncode == 0, f"{script}: {done.stdout}\n{done.stderr[-4000:]}"
        return done.stdout

    def observe(self, script: Path, *arguments: str) -> Observed:
        """Runs a script to its end, and returns the outcomes of its cases."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "observed"
            done = subprocess.run(
                [*self._command, script.name, *arguments],
                env={**self._environment, "OBSERVED": str(report)},
                cwd=script.parent,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LONGEST,
                check=False,
            )
            assert done.returncode == 0, f"{script}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
            cases = [json.loads(line) for line in report.read_text().splitlines()]
        names = [one.pop("case") for one in cases]
        assert len(set(names)) == len(names), f"{script}: duplicate case names"
        return dict(zip(names, cases, strict=True))

    @contextmanager
    def serving(self, script: Path, *arguments: str, **environment: str) -> Iterator[str]:
        """Runs a serving script, and yields the address that it reported."""
        with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "log", "w+") as log:
            report = Path(folder) / "observed"
            process = subprocess.Popen(
                [*self._command, script.name, *arguments],
                env={**self._environment, **environment, "OBSERVED": str(report)},
                cwd=script.parent,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
            try:
                self._await(process, report, Path(log.name))
                yield report.read_text()
            finally:
                # The script serves until its standard input is closed.
                assert process.stdin
                process.stdin.close()
                try:
                    process.wait(60)
                finally:
                    process.kill()

    def _await(self, process: subprocess.Popen[bytes], report: Path, log: Path) -> None:
        def up() -> bool:
            assert process.poll() is None, log.read_text(errors="replace")[-4000:]
            return report.exists() and report.read_text().endswith("\n")

        until(up, "the server to start", patience=LONGEST)


def is_serving(url: str, process: subprocess.Popen[bytes]) -> bool:
    """True if the process serves; it must be alive."""
    assert process.poll() is None, "the process has exited"
    try:
        with urllib.request.urlopen(url, timeout=LONGEST) as response:
            return bool(response.status == 200)
    except OSError:
        return False


@dataclass(frozen=True)
class Deviation:
    """Cases that may differ."""

    cases: str
    """Pattern of case names."""
    why: str
    """One-line reason; the product's page has the details."""
    ours: str = ".*"
    """Pattern of Penstock's outcome, as JSON."""
    always: bool = True
    """True if the cases differ in every run, so that an unused row is an error."""

    def covers(self, case: str) -> bool:
        return re.fullmatch(self.cases, case) is not None


def matching_row(case: str, outcome: str, table: list[Deviation]) -> Deviation | None:
    """The row that allows this difference."""
    return next((row for row in table if row.covers(case) and re.search(row.ours, outcome, re.DOTALL)), None)


def compare(theirs: Observed, ours: Observed, table: list[Deviation], normal: Callable[[Any], Any]) -> None:
    """Fails on a difference without a row, and on an unused row."""
    assert list(theirs) == list(ours)
    wrong, used = [], set()
    for case, theirs_outcome in theirs.items():
        expected, got = normal(theirs_outcome), normal(ours[case])
        if expected == got:
            continue
        row = matching_row(case, json.dumps(got), table)
        if row is None:
            wrong.append(f"{case}\n    theirs: {json.dumps(expected)[:600]}\n    ours:   {json.dumps(got)[:600]}")
        else:
            used.add(row)
    assert not wrong, "\n".join([f"{len(wrong)} of {len(theirs)} cases differ:", *wrong])
    assert [row.cases for row in table if row.always and row not in used] == [], "these rows are unused"
