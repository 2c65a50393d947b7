"""A server in the foreground: signals, and what a stop reports. The server itself is a stand-in here."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from penstock import LoadError, Server, ServerConfig
from penstock._serve import banner, run


class StandIn:
    """What `run` needs of a server, with a drain that ends when it is told to."""

    config = ServerConfig(drain_timeout=9)
    http_address = "127.0.0.1:1"
    grpc_address = None
    _core = None

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


def served(server: Any) -> list[str]:
    return run.run(server, [])


def test_a_server_that_stops_by_itself_ends_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    server = StandIn(signals=0, cut=[])
    assert (served(server), server.stops) == ([], [None])
    assert capsys.readouterr() == ("described\n", "")


def test_one_signal_drains_and_reports_what_was_cut(capsys: pytest.CaptureFixture[str]) -> None:
    server = StandIn(signals=1, cut=["r1"])
    assert (served(server), server.stops) == (["r1"], [None])
    assert capsys.readouterr().err == (
        "penstock: stopping: requests have 9 s to finish; signal again to stop at once\n"
    )


def test_a_second_signal_stops_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    server = StandIn(signals=2, cut=["r1"])
    assert (served(server), server.stops) == (["r1"], [None, 0.0])
    assert capsys.readouterr().err.endswith("penstock: stopping at once\n")


def test_a_drain_that_does_not_end_is_not_taken_for_a_clean_stop() -> None:
    server = StandIn(signals=2, cut=[], drains=False)
    assert served(server) == ["requests that have not finished"]
    server.never.set()


def test_a_signal_while_models_load_is_no_error() -> None:
    server = StandIn(signals=0, cut=[])
    server.start = lambda: signal.raise_signal(signal.SIGTERM)  # type: ignore[method-assign]
    assert (served(server), server.stops) == ([], [0.0])


def test_from_another_thread_signals_are_left_alone() -> None:
    server, results = StandIn(signals=0, cut=["r1"]), []
    thread = threading.Thread(target=lambda: results.append(served(server)))
    thread.start()
    thread.join()
    assert results == [["r1"]]


@pytest.mark.parametrize(("cause", "raised"), [(KeyboardInterrupt(), KeyboardInterrupt), (OSError(), LoadError)])
def test_an_interrupt_while_models_load_stays_an_interrupt(
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
