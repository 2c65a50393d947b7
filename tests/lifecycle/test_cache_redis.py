"""Responses that servers share through Redis: hits on other servers, validated entries, outages without failures."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from observe import free_ports

from http_by_hand import json_body, metric_at, post
from penstock import Batching, Cache, ConfigError, Server, Tensor, model
from serving_process import Serving
from waiting import until

pytestmark = pytest.mark.skipif(
    shutil.which("redis-server") is None or shutil.which("redis-cli") is None,
    reason="redis-server is not installed; apt-get install redis-server",
)

FLOATS = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [1])]}


class Redis:
    """A private Redis on a Unix socket in the test's folder."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.path, self.arguments = folder / "redis.sock", arguments
        self.url = f"redis+unix://{self.path}"
        self.start()

    def start(self) -> None:
        command = ["redis-server", "--port", "0", "--unixsocket", str(self.path), "--save", "", *self.arguments]
        self.process = subprocess.Popen(command, cwd=self.path.parent, stdout=subprocess.DEVNULL)
        until(lambda: self("PING") == "PONG", "Redis to be up")

    def __call__(self, *command: str, stdin: bytes | None = None) -> str:
        done = subprocess.run(
            ["redis-cli", "-s", str(self.path), *command], input=stdin, capture_output=True, check=False, timeout=20
        )
        return done.stdout.decode(errors="replace").strip()

    def count(self) -> int:
        """The number of stored responses."""
        return int(self("DBSIZE") or -1)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    first = Redis(tmp_path)
    yield first
    first.stop()


class Served:
    """A separate server with a model that counts its calls."""

    def __init__(self, stack: ExitStack, url: str, **cache: Any) -> None:
        self.calls = 0

        def plain(x: Any) -> Any:
            self.calls += 1
            return x * 2

        options: dict[str, Any] = {"batching": Batching(max_size=8), **FLOATS}
        first = model(name="m", cache=Cache(**{"revision": "1", **cache}), **options)(plain)
        self.server = stack.enter_context(Server(first, http="127.0.0.1:0", grpc=None, cache_redis=url))

    def infer(self, value: float = 1, headers: dict[str, str] | None = None) -> list[float]:
        body = json_body({"x": np.full((2, 1), value, np.float32)})
        response = post(self.server.http_url, "/v2/models/m/infer", body, headers)
        assert response.status == 200, response.body
        return list(response.json()["outputs"][0]["data"])

    def metric(self, name: str) -> float:
        return metric_at(self.server.http_url, f"penstock_cache_{name}_total")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as first:
        yield first


def test_servers_share_cached_responses(stack: ExitStack, redis: Redis) -> None:
    first, other = Served(stack, redis.url), Served(stack, redis.url)
    assert first.infer() == [2, 2]
    until(lambda: redis.count() == 1, "the response to be stored")
    assert [other.infer() for _ in range(2)] == [[2, 2], [2, 2]]
    assert (first.calls, other.calls) == (1, 0)
    # The second hit is from its own memory.
    assert [other.metric(name) for name in ("hits", "shared_hits", "misses", "failures")] == [2, 1, 0, 0]
    # The entry outlives both servers.
    third = Served(stack, redis.url)
    assert (third.infer(), third.calls) == ([2, 2], 0)


def test_revision_client_and_server_are_part_of_the_cache_key(stack: ExitStack, redis: Redis) -> None:
    first = Served(stack, redis.url)
    first.infer(headers={"authorization": "Bearer a"})
    until(lambda: redis.count() == 1, "the response to be stored")
    stranger, newer, alone = Served(stack, redis.url), Served(stack, redis.url, revision="2"), None
    stranger.infer(headers={"authorization": "Bearer b"})
    newer.infer(headers={"authorization": "Bearer a"})
    assert (stranger.calls, newer.calls) == (1, 1)
    until(lambda: redis.count() == 3, "the responses to be stored")
    alone = Served(stack, redis.url, revision=None)
    alone.infer(headers={"authorization": "Bearer a"})
    assert alone.calls == 1
    assert redis.count() == 3


def test_damaged_entries_are_recomputed(stack: ExitStack, redis: Redis) -> None:
    Served(stack, redis.url).infer()
    until(redis.count, "the response to be stored")
    length = lambda: redis("EVAL", "return redis.call('STRLEN', redis.call('KEYS', '*')[1])", "0")  # noqa: E731
    whole = length()
    for value in (b"", b"PSC1", b"\x00" * 200):
        # The server that recomputed it stores it again.
        until(lambda: length() == whole, "the entry to be stored again")
        # The key has bytes that an argument cannot hold.
        assert redis(
            "EVAL",
            f"return #redis.call('KEYS', '*') == 1 and redis.call('SET', redis.call('KEYS', '*')[1], '{lua(value)}')",
            "0",
        )
        other = Served(stack, redis.url)
        assert (other.infer(), other.calls, other.metric("failures")) == ([2, 2], 1, 0)


def lua(value: bytes) -> str:
    """A Lua string literal."""
    return "".join(f"\\{byte:03d}" for byte in value)


def test_entry_age_is_shared_with_the_response(stack: ExitStack, redis: Redis) -> None:
    Served(stack, redis.url, ttl=1000.0).infer()
    until(redis.count)
    remaining_ms = int(redis("EVAL", "return redis.call('PTTL', redis.call('KEYS', '*')[1])", "0"))
    assert 0 < remaining_ms <= 1_000_000
    # A server with a shorter ttl ignores older entries.
    other = Served(stack, redis.url, ttl=1e-6)
    assert (other.infer(), other.calls) == ([2, 2], 1)


def test_redis_outage_hang_or_refusal_fails_no_request(redis: Redis, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import numpy as np\n"
        "from penstock import Cache, Tensor, model\n"
        "@model(inputs=[Tensor('x', np.float32, [2, 1])], outputs=[Tensor('y', np.float32, [2, 1])],\n"
        "       cache=Cache(revision='1'))\n"
        "def m(x):\n"
        "    return x * 2\n"
    )
    ports = ("--http", "127.0.0.1:0", "--grpc", "off")
    environment = {"CACHE_URL": redis.url}
    with Serving(
        "app.py", *ports, "--cache-redis", "env:CACHE_URL", folder=tmp_path, environment=environment
    ) as serving:
        values = iter(range(100_000))

        def infer() -> None:
            body = json_body({"x": np.full((2, 1), next(values), np.float32)})
            assert post(serving.http, "/v2/models/m/infer", body).status == 200

        failures = lambda: metric_at(serving.http, "penstock_cache_failures_total")  # noqa: E731
        infer()
        until(redis.count)
        for fail, mend in (
            (redis.stop, redis.start),
            (lambda: redis.process.send_signal(signal.SIGSTOP), lambda: redis.process.send_signal(signal.SIGCONT)),
            (lambda: redis("CONFIG", "SET", "requirepass", "secret"), lambda: redis("-a", "secret", "FLUSHALL")),
        ):
            before = failures()
            fail()
            until(lambda before=before: (infer(), failures() > before)[1], "a failure to be counted")  # type: ignore[misc]
            mend()
            if fail == redis.stop:
                stored = redis.count()
                until(lambda stored=stored: (infer(), redis.count() > stored)[1], "Redis to be used again")  # type: ignore[misc]
        until(lambda: "the shared cache fails" in serving.err, "the log to say so")
        assert len(re.findall("the shared cache fails", serving.err)) == 1
        assert str(redis.path) not in serving.err


def test_redis_over_tcp_with_a_password(tmp_path: Path, stack: ExitStack) -> None:
    (port,) = free_ports(1)
    redis = Redis(tmp_path, "--port", str(port), "--bind", "127.0.0.1")
    stack.callback(redis.stop)
    assert redis("CONFIG", "SET", "requirepass", "hush") == "OK"
    first = Served(stack, f"redis://:hush@127.0.0.1:{port}/0")
    assert first.infer() == [2, 2]
    until(lambda: redis("-a", "hush", "DBSIZE") == "1", "the response to be stored")
    assert first.metric("failures") == 0


@pytest.mark.parametrize("url", ["http://top-secret", "top-secret", "rediss://:top-secret@here:1"])
def test_invalid_redis_url_is_rejected_without_being_printed(url: str) -> None:
    first = model(name="m", **FLOATS)(lambda x: x)
    with pytest.raises(ConfigError, match=r"^cache_redis: expected redis://") as refused:
        Server(first, http="127.0.0.1:0", grpc=None, cache_redis=url).start()
    assert "top-secret" not in str(refused.value)
