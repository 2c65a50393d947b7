"""The same scripts under another product and under Penstock in its place: running them, and comparing what they saw.

A script says what came of each case with tests/observing/observe.py. Where Penstock may differ a table says so, row by
row; a row that allows nothing any more fails too.
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
"""Where scripts find `observe`."""

LONGEST = 240.0
"""Seconds for a whole script. Other products may take seconds for each model."""

Observed = dict[str, Any]
"""What each case gave or raised."""


class Side:
    """One of the two: how it runs a script."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._command = command
        path = os.pathsep.join(filter(None, [str(OBSERVING), environment.get("PYTHONPATH")]))
        self._environment = {**environment, "PYTHONPATH": path}

    def start(self, script: Path, *arguments: str, log: IO[str], **environment: str) -> subprocess.Popen[bytes]:
        """Starts a script; what it prints goes to the log."""
        command = [*self._command, str(script), *arguments]
        return subprocess.Popen(
            command, env={**self._environment, **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )

    @contextmanager
    def running(
        self, script: Path, *arguments: str, exits: int | None = None, **environment: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Runs a script that serves; at the end it is interrupted, as from a keyboard, and exits with that status."""
        with tempfile.TemporaryFile("w+") as log:
            process = self.start(script, *arguments, log=log, **environment)
            try:
                yield process
                assert process.poll() is None, "it has ended by itself"
                process.send_signal(signal.SIGINT)
                assert process.wait(LONGEST) == exits or exits is None
            except BaseException:
                log.seek(0)
                print(log.read()[-4000:])
                raise
            finally:
                process.kill()
                process.wait()

    def printed(self, script: Path, *arguments: str, patience: float, **environment: str) -> str:
        """What a script prints to standard output until its end, which must be a good one."""
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
        """Runs a script to its end, and gives what it said of its cases."""
        with tempfile.TemporaryDirectory() as folder:
            said = Path(folder) / "observed"
            done = subprocess.run(
                [*self._command, script.name, *arguments],
                env={**self._environment, "OBSERVED": str(said)},
                cwd=script.parent,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LONGEST,
                check=False,
            )
            assert done.returncode == 0, f"{script}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
            cases = [json.loads(line) for line in said.read_text().splitlines()]
        names = [one.pop("case") for one in cases]
        assert len(set(names)) == len(names), f"{script}: two cases of one name"
        return dict(zip(names, cases, strict=True))

    @contextmanager
    def serving(self, script: Path, *arguments: str, **environment: str) -> Iterator[str]:
        """Runs a script that serves, and gives what it said of where."""
        with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "log", "w+") as log:
            said = Path(folder) / "observed"
            process = subprocess.Popen(
                [*self._command, script.name, *arguments],
                env={**self._environment, **environment, "OBSERVED": str(said)},
                cwd=script.parent,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
            try:
                self._await(process, said, Path(log.name))
                yield said.read_text()
            finally:
                # The end of its input is the end of its service.
                assert process.stdin
                process.stdin.close()
                try:
                    process.wait(60)
                finally:
                    process.kill()

    def _await(self, process: subprocess.Popen[bytes], said: Path, log: Path) -> None:
        def up() -> bool:
            assert process.poll() is None, log.read_text(errors="replace")[-4000:]
            return said.exists() and said.read_text().endswith("\n")

        until(up, "the server to start", patience=LONGEST)


def answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Whether a process serves; it has to live."""
    assert process.poll() is None, "it has ended by itself"
    try:
        with urllib.request.urlopen(url, timeout=LONGEST) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@dataclass(frozen=True)
class Deviation:
    """Cases that may differ."""

    cases: str
    """Matches their names."""
    why: str
    """In one line; the page of the product says more."""
    ours: str = ".*"
    """Matches what Penstock gives or raises, as JSON."""
    always: bool = True
    """Whether they differ in each run: a row that allows nothing any more is to be struck."""

    def covers(self, case: str) -> bool:
        return re.fullmatch(self.cases, case) is not None


def explained(case: str, shown: str, table: list[Deviation]) -> Deviation | None:
    """The row that allows this difference."""
    return next((row for row in table if row.covers(case) and re.search(row.ours, shown, re.DOTALL)), None)


def compare(theirs: Observed, ours: Observed, table: list[Deviation], normal: Callable[[Any], Any]) -> None:
    """Fails where the two differ without a row that says why, and where a row has nothing to say."""
    assert list(theirs) == list(ours)
    wrong, used = [], set()
    for case, gave in theirs.items():
        expected, got = normal(gave), normal(ours[case])
        if expected == got:
            continue
        row = explained(case, json.dumps(got), table)
        if row is None:
            wrong.append(f"{case}\n    theirs: {json.dumps(expected)[:600]}\n    ours:   {json.dumps(got)[:600]}")
        else:
            used.add(row)
    assert not wrong, "\n".join([f"{len(wrong)} of {len(theirs)} cases differ:", *wrong])
    assert [row.cases for row in table if row.always and row not in used] == [], "these rows allow nothing any more"
