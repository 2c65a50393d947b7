"""The memory limit of the control group: the default of `max_inflight_bytes`, and shedding."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from configured_server import configured
from http_by_hand import connect, get, infer, metric_at
from serving_process import Serving
from waiting import until

LIMIT = 400 << 20
APP = textwrap.dedent(
    """
    import os
    from pathlib import Path
    import penstock

    Path(os.environ["GROUP"], "cgroup.procs").write_text(str(os.getpid()))
    held = []

    @penstock.model
    def hold(mib: list[int]) -> int:
        held.clear()
        held.append(b"x" * (mib[0] << 20))
        return mib[0]
    """
)


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with a memory limit. Its processes must have ended with the test."""
    name = f"penstock-{os.getpid()}"
    for root, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        path = Path(root, name)
        try:
            path.mkdir()
        except OSError:
            continue
        try:
            if (path / file).exists():
                (path / file).write_text(str(LIMIT))
                yield path
                return
        finally:
            until(lambda path=path: removed(path), "the processes of the group to end")
    pytest.skip("this machine has no control group that may be created")


def removed(path: Path) -> bool:
    try:
        path.rmdir()
    except OSError:
        return False
    return True


def test_requests_are_shed_while_memory_is_short(group: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    arguments = ("--http", "127.0.0.1:0", "--grpc", "off", "--memory-shed", "0.6")
    with Serving("app.py", *arguments, folder=tmp_path, environment={"GROUP": str(group)}) as server:
        until(lambda: metric_at(server.http, "penstock_memory_limit_bytes") == LIMIT, "the limit to be read")
        assert infer(server.http, "hold", {"mib": np.array([260])}).status == 200
        until(lambda: metric_at(server.http, "penstock_memory_used_bytes") > 0.6 * LIMIT, "the memory to be used")
        refused = infer(server.http, "hold", {"mib": np.array([1])})
        expected = "the server is at memory_shed of its memory limit, retry later"
        assert (refused.status, refused.error()) == (429, expected)
        assert refused.headers["retry-after"] == "1"
        assert get(server.http, "/v2/health/ready").status == 200
    assert re.search(r"new requests are refused: memory is short \(memory_shed\) used=\d+ limit=419430400", server.err)


@pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")
def test_a_quarter_of_the_limit_is_for_requests(group: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    arguments = ("--http", "127.0.0.1:0", "--grpc", "off", "--max-body-bytes", "1GiB", "--log-level", "debug")
    with Serving("app.py", *arguments, folder=tmp_path, environment={"GROUP": str(group)}) as server:
        size = LIMIT // 4 + 8
        with connect(server.http) as sock, suppress(BrokenPipeError, ConnectionResetError):
            head = f"POST /v2/models/hold/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
            sock.sendall(head.encode() + b" " * LIMIT)
        until(lambda: "429: the server is at max_inflight_bytes" in server.err, "the request to be refused")


@pytest.mark.live_setting("memory_shed")
def test_share_that_is_shed_changes_while_the_server_runs(group: Path, tmp_path: Path) -> None:
    with configured(tmp_path, APP, environment={"GROUP": str(group)}, memory_shed=0.95) as one:
        one.reload(memory_shed=0.6)
        # The code is loaded again too: what it held before the reload would stay for a while.
        until(lambda: infer(one.url, "hold", {"mib": np.array([260])}).status == 429, "requests to be refused")
        one.reload(memory_shed=0)
        until(lambda: infer(one.url, "hold", {"mib": np.array([1])}).status == 200, "requests to be accepted again")
