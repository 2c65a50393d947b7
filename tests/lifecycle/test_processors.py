"""The number of usable processors, from affinity and cgroup quota, and the settings derived from it."""

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


def output_of(*command: str, group: Path | None = None, **environment: str) -> str:
    """The output of a program, which may run in a control group."""
    into = "" if group is None else f"echo $$ > {group}/cgroup.procs && "
    inherited = {name: value for name, value in os.environ.items() if name not in NAMES}
    shell = ["sh", "-c", f'{into}exec "$@"', "sh", sys.executable, *command]
    return subprocess.run(shell, env={**inherited, **environment}, capture_output=True, text=True, check=False).stdout


@pytest.fixture
def one_and_a_half() -> Iterator[Path]:
    """A control group with a quota of one and a half processors."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a quota of 1.5 processors is none on one processor; run it on two or more")
    group = f"penstock-test-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        for parent, files in (
            (ROOT / "cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000"}),
            (ROOT, {"cpu.max": "150000 100000"}),
        ):
            place = parent / group
            with contextlib.suppress(OSError):
                place.mkdir()
                stack.callback(place.rmdir)
                for name, text in files.items():
                    # A file that does not exist is not created.
                    with open(place / name, "r+", encoding="utf-8") as file:
                        file.write(text)
                yield place
                return
    pytest.skip("no control group with a quota can be made here: run it as root with /sys/fs/cgroup writable")


def test_affinity_limits_the_processor_count() -> None:
    one = min(os.sched_getaffinity(0))
    assert output_of("-c", f"import os; os.sched_setaffinity(0, {{{one}}}); {TELL}") == "1\n"
    assert 1 <= processors() <= len(os.sched_getaffinity(0))


def test_cgroup_quota_is_rounded_down(one_and_a_half: Path) -> None:
    assert output_of("-c", TELL, group=one_and_a_half) == "1\n"


def test_command_sets_library_threads_from_the_quota(one_and_a_half: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    serve = ("-m", "penstock", "serve", str(tmp_path / "app.py"))
    assert "seen 1 1 1 1\n" in output_of(*serve, group=one_and_a_half)
    assert "seen 1 7 1 1\n" in output_of(*serve, group=one_and_a_half, MKL_NUM_THREADS="7")


def test_library_threads_are_unset_without_a_quota(tmp_path: Path) -> None:
    if processors() < len(os.sched_getaffinity(0)):
        pytest.skip("there is a quota here already; run it outside of the container that has one")
    (tmp_path / "app.py").write_text(APP)
    assert "seen none none none none\n" in output_of("-m", "penstock", "serve", str(tmp_path / "app.py"))


def test_processes_divide_a_quota(one_and_a_half: Path) -> None:
    code = (
        "from penstock import Processes; from penstock._runtime.threads import thread_settings; "
        "print(dict(thread_settings(Processes(1), 'm')))"
    )
    assert output_of("-c", code, group=one_and_a_half) == f"{dict.fromkeys(NAMES, '1')}\n"


def test_processes_divide_the_threads_set_by_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"MKL_NUM_THREADS": "3"})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(threads, "processors", lambda: 4)
    monkeypatch.setattr(threads, "_SET", {})
    threads.bound_threads()
    assert [os.environ[name] for name in NAMES] == ["4", "3", "4", "4"]
    shared = dict(threads.thread_settings(Processes(2), "m"))
    assert shared == {name: "2" for name in NAMES if name != "MKL_NUM_THREADS"}
