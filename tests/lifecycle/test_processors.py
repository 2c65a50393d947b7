"""The processors that there are: by affinity, by a container's quota; and who is told of them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Processes
from penstock._runtime import threads
from penstock._spec.instances import processors

TELL = "from penstock._spec.instances import processors; print(processors())"
NAMES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
APP = f"""
import os
print("seen", *[os.environ.get(name, "none") for name in {NAMES!r}], flush=True)
raise SystemExit("that is all")
"""
ROOT = Path("/sys/fs/cgroup")


def told(*command: str, group: Path | None = None, **environment: str) -> str:
    """What a program prints, which may run in a control group."""
    into = "" if group is None else f"echo $$ > {group}/cgroup.procs && "
    known = {name: value for name, value in os.environ.items() if name not in NAMES}
    shell = ["sh", "-c", f'{into}exec "$@"', "sh", sys.executable, *command]
    return subprocess.run(shell, env={**known, **environment}, capture_output=True, text=True, check=False).stdout


@pytest.fixture
def one_and_a_half() -> Iterator[Path]:
    """A control group whose processes get as much time as one and a half processors have."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a quota of 1.5 processors is none on one processor; run it on two or more")
    group = f"penstock-test-{os.getpid()}"
    with contextlib.ExitStack() as made:
        for parent, files in (
            (ROOT / "cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"}),
            (ROOT, {"cpu.max": "150000 100000"}),
        ):
            place = parent / group
            with contextlib.suppress(OSError):
                place.mkdir()
                made.callback(place.rmdir)
                for name, text in files.items():
                    # One that is not there is not made.
                    with open(place / name, "r+", encoding="utf-8") as file:
                        file.write(text)
                yield place
                return
    pytest.skip("no control group with a quota can be made here: run it as root with /sys/fs/cgroup writable")


def test_affinity_is_seen() -> None:
    one = min(os.sched_getaffinity(0))
    assert told("-c", f"import os; os.sched_setaffinity(0, {{{one}}}); {TELL}") == "1\n"
    assert 1 <= processors() <= len(os.sched_getaffinity(0))


def test_a_quota_is_rounded_down(one_and_a_half: Path) -> None:
    assert told("-c", TELL, group=one_and_a_half) == "1\n"


def test_the_command_tells_numeric_libraries_of_a_quota(one_and_a_half: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    serve = ("-m", "penstock", "serve", str(tmp_path / "app.py"))
    assert "seen 1 1 1 1\n" in told(*serve, group=one_and_a_half)
    assert "seen 1 7 1 1\n" in told(*serve, group=one_and_a_half, MKL_NUM_THREADS="7")


def test_without_a_quota_they_count_for_themselves(tmp_path: Path) -> None:
    if processors() < len(os.sched_getaffinity(0)):
        pytest.skip("there is a quota here already; run it outside of the container that has one")
    (tmp_path / "app.py").write_text(APP)
    assert "seen none none none none\n" in told("-m", "penstock", "serve", str(tmp_path / "app.py"))


def test_processes_share_a_quota(one_and_a_half: Path) -> None:
    tell = (
        "from penstock import Processes; from penstock._runtime.threads import thread_settings; "
        "print(dict(thread_settings(Processes(1), 'm')))"
    )
    assert told("-c", tell, group=one_and_a_half) == f"{dict.fromkeys(NAMES, '1')}\n"


def test_processes_share_what_the_command_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"MKL_NUM_THREADS": "3"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(threads, "processors", lambda: 4)
    monkeypatch.setattr(threads, "_SET", {})
    threads.bound_threads()
    assert [os.environ[name] for name in NAMES] == ["4", "3", "4", "4"]
    shared = dict(threads.thread_settings(Processes(2), "m"))
    assert shared == {name: "2" for name in NAMES if name != "MKL_NUM_THREADS"}
