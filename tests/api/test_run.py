"""A server in the foreground: signals, and the report of a stop. The server is a fake."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import LoadError, Server, ServerConfig
from penstock._serve import banner, run


class FakeServer:
    """Fake with the parts of a server that `run` uses and a controllable drain."""

    config = ServerConfig(drain_timeout=9)
    http_address = "127.0.0.1:1"
    grpc_address = None
    _core = None
    definitions: tuple[Any, ...] = ()

    def __init__(self, *, signals: int, cut: list[str], drains: bool = True) -> None:
        self.signals, self.cut, self.drains = signals, cut, drains
        self.stops: list[float | None] = []
        self.never = threading.Event()

    def start(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool:
        if not self.signals:
            return True
        os.kill(os.getpid(), signal.SIGTERM)
        return self.never.wait(timeout)

    def stop(self, timeout: float | None = None) -> list[str]:
        self.stops.append(timeout)
        if timeout is None and self.signals == 2:
            os.kill(os.getpid(), signal.SIGINT)
            self.never.wait(0.3 if self.drains else None)
        return self.cut if timeout is None else []


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(banner, "describe", lambda server, models, greetings: "described")
    monkeypatch.setattr(run, "_AT_ONCE_GRACE", 0.5)
    before = (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
    yield
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def run_server(server: Any) -> list[str]:
    return run.run(server, [])


def test_run_ends_when_the_server_stops(capsys: pytest.CaptureFixture[str]) -> None:
    server = FakeServer(signals=0, cut=[])
    assert (run_server(server), server.stops) == ([], [None])
    assert capsys.readouterr() == ("described\n", "")


def test_one_signal_drains_and_reports_unfinished_requests(capsys: pytest.CaptureFixture[str]) -> None:
    server = FakeServer(signals=1, cut=["r1"])
    assert (run_server(server), server.stops) == (["r1"], [None])
    assert capsys.readouterr().err == (
        "penstock: stopping: requests have 9 s to finish; signal again to stop at once\n"
    )


def test_second_signal_stops_immediately(capsys: pytest.CaptureFixture[str]) -> None:
    server = FakeServer(signals=2, cut=["r1"])
    assert (run_server(server), server.stops) == (["r1"], [None, 0.0])
    assert capsys.readouterr().err.endswith("penstock: stopping at once\n")


def test_unfinished_drain_is_not_a_clean_stop() -> None:
    server = FakeServer(signals=2, cut=[], drains=False)
    assert run_server(server) == ["requests that have not finished"]
    server.never.set()


def test_signal_during_load_is_not_an_error() -> None:
    server = FakeServer(signals=0, cut=[])
    server.start = lambda: signal.raise_signal(signal.SIGTERM)  # type: ignore[method-assign]
    assert (run_server(server), server.stops) == ([], [0.0])


def test_run_on_another_thread_does_not_handle_signals() -> None:
    server, results = FakeServer(signals=0, cut=["r1"]), []
    thread = threading.Thread(target=lambda: results.append(run_server(server)))
    thread.start()
    thread.join()
    assert results == [["r1"]]


@pytest.mark.parametrize(("cause", "raised"), [(KeyboardInterrupt(), KeyboardInterrupt), (OSError(), LoadError)])
def test_interrupt_during_load_is_reraised(
    cause: BaseException, raised: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = []

    class Core:
        def __init__(self, *_: Any) -> None: ...

        def start(self) -> None:
            raise LoadError("model 'f' could not be loaded") from cause

        def stop(self, timeout: float) -> None:
            stopped.append(timeout)

    def f(x: int) -> None: ...

    server = Server(f, config=ServerConfig())
    monkeypatch.setattr(server, "_make_core", Core)
    with pytest.raises(raised):
        server.start()
    assert stopped == [0.0]
    assert server.http_address is None
