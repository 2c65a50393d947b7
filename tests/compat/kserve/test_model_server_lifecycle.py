"""`ModelServer.stop`, signals, exit statuses, drains, event loops: in this process and as scripts."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import Any

import pytest
from kserve_live import LOOPBACK, Double, Script, live

from http_by_hand import is_draining, post
from penstock import SignatureError
from penstock.compat.kserve import ModelServer, dialect
from waiting import PATIENCE, at_once, until

SCRIPT = """
import asyncio, os, signal, sys, threading, time
from kserve_live import LOOPBACK, announce, up
from waiting import until
from penstock.compat.kserve import Model, ModelServer

class Blocking(Model):
    def predict(self, payload, headers=None):
        if payload["instances"] == ["hold"]:
            print("entered", flush=True)
            while not os.path.exists(os.environ["RESUME_FILE"]):
                time.sleep(0.01)
        return {"predictions": [os.getpid()]}

    def stop(self):
        print("stopped", self.name, flush=True)

def model(name):
    created = Blocking(name)
    created.load()
    return created

if __name__ == "__main__":
    server = ModelServer(**LOOPBACK, workers=int(os.environ.get("WORKERS", "1")), grace_period=60)
    announce(server)
"""
START = "    server.start([model('a'), model('b')])\n    print('left', flush=True)\n"


def script(body: str = START, **environment: str) -> Script:
    return Script(SCRIPT + body, **environment)


def predict(url: str, *instances: Any, name: str = "a") -> tuple[int, Any]:
    import json

    response = post(url, f"/v1/models/{name}:predict", json.dumps({"instances": instances}).encode())
    return response.status, response.json()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_s07_signals_drain_requests_and_exit_with_status_0(number: signal.Signals, workers: int, tmp_path: Any) -> None:
    resume = tmp_path / "resume"
    with script(RESUME_FILE=str(resume), WORKERS=str(workers)) as running:
        url = running.url
        [blocked] = at_once([lambda: predict(url, "hold")])
        running.wait_for_line("entered")
        running.signal(number)
        until(lambda: predict(url, 1)[0] == 503, "the server to refuse")
        resume.touch()
        assert blocked.result(PATIENCE)[0] == 200
        assert running.status() == 0
        # Each model stops once, in this process, after the requests.
        assert sorted(line for line in running.lines if line.startswith("stopped")) == ["stopped a", "stopped b"]
        assert running.lines[-1] == "left"


def test_s07_second_signal_stops_immediately(tmp_path: Any) -> None:
    with script(RESUME_FILE=str(tmp_path / "never")) as running:
        url = running.url
        at_once([lambda: predict(url, "hold")])
        running.wait_for_line("entered")
        running.signal(signal.SIGTERM)
        until(lambda: predict(url, 1)[0] == 503, "the server to refuse")
        running.signal(signal.SIGTERM)
        assert running.status() == 0


def test_s07_grace_period_bounds_the_drain(tmp_path: Any) -> None:
    body = START.replace("server.start", "server.grace_period = 0.2; server.start")
    with script(body, RESUME_FILE=str(tmp_path / "never")) as running:
        url = running.url
        at_once([lambda: predict(url, "hold")])
        running.wait_for_line("entered")
        running.signal(signal.SIGTERM)
        assert running.status() == 0


@pytest.mark.fault("SIGTERM while held")
@pytest.mark.parametrize(("grace", "signals"), [(2, 1), (600, 2)], ids=["grace period", "second signal"])
def test_signals_are_handled_while_a_model_holds_the_gil(grace: int, signals: int) -> None:
    body = (
        "    import ctypes\n"
        "    class Holding(Model):\n"
        "        def predict(self, payload, headers=None):\n"
        "            print('entered', flush=True)\n"
        "            ctypes.PyDLL(None).sleep(1000)\n"
        "    holding = Holding('a')\n"
        "    holding.load()\n"
        f"    server.grace_period = {grace}\n"
        "    server.start([holding])\n"
    )
    with script(body) as running:
        url = running.url
        [blocked] = at_once([lambda: predict(url, 1)])
        running.wait_for_line("entered")
        running.signal(signal.SIGTERM)
        until(lambda: is_draining(url), "not to be ready")
        assert not blocked.done()
        for _ in range(signals - 1):
            running.signal(signal.SIGQUIT)
        assert running.status() == 3
        assert blocked.exception()
        assert running.wait_for_line("penstock: left") == "without waiting for what holds the interpreter"
        assert running.wait_for_line("penstock: cut off: ") == "a (version 1): 1 requests"


def test_s07_stop_can_be_called_and_awaited() -> None:
    for ending in ("server.stop()", "asyncio.run(server.stop())", "server.stop(15)", "asyncio.run(wait())"):
        body = (
            "    async def wait():\n"
            "        await asyncio.create_task(server.stop(sig=signal.SIGTERM))\n"
            "    def end():\n"
            f"        until(lambda: up(server)); {ending}; print('ended', flush=True)\n"
            "    threading.Thread(target=end).start()\n"
        )
        with script(body + START) as running:
            assert running.status() == 0
            # Two threads print.
            assert "ended" in running.text
            assert "left" in running.text


def test_s07_stop_works_outside_the_main_thread() -> None:
    model = Double()
    with live(model) as server:
        assert server.predict()[0] == 200

        async def stop() -> None:
            await server.server.stop()

        asyncio.run(stop())
        assert model.stopped == 1
        assert not model.ready
        assert server.server.registered_models.get_models() == {}


def test_s07_stop_without_start_stops_models() -> None:
    server, model = ModelServer(**LOOPBACK), Double()
    server.register_model(model)
    server.stop()
    assert model.stopped == 1
    asyncio.run(server.stop())
    assert model.stopped == 1


def test_s07_handlers_may_stop_the_server() -> None:
    class Ending(Double):
        def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:
            running.server.stop()
            return {"predictions": ["the end"]}

    model = Ending()
    with live(model) as running:
        assert running.predict() == (200, {"predictions": ["the end"]})
        until(lambda: model.stopped == 1, "the server to stop")


def test_s10_failing_stop_does_not_prevent_others(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Double):
        def stop(self) -> None:
            raise OSError("no")

    other = Double("z")
    with live(Failing(), other):
        pass
    assert other.stopped == 1
    assert "Model m could not be unloaded" in caplog.text


def test_s10_stop_may_be_async() -> None:
    ended = threading.Event()

    class Async(Double):
        async def stop(self) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            ended.set()

    with live(Async()):
        pass
    assert ended.is_set()


def test_servers_can_be_started_repeatedly() -> None:
    for _ in range(2):
        with live(Double()) as server:
            assert server.predict()[0] == 200


def test_signal_handlers_are_restored_after_stop() -> None:
    body = (
        "    def own(*_): pass\n"
        "    signal.signal(signal.SIGTERM, own)\n"
        + START
        + "    print(signal.getsignal(signal.SIGTERM) is own, flush=True)\n"
    )
    with script(body) as running:
        assert running.url
        running.signal(signal.SIGTERM)
        assert running.status() == 0
        assert running.lines[-1] == "True"


def failing_script(old: bool) -> str:
    return (
        f"    from penstock.compat.kserve import dialect; dialect.use('{'0.13' if old else '0.21'}')\n"
        "    class Failing(Model):\n"
        "        async def predict(self, payload, headers=None):\n"
        "            async def fail():\n"
        "                raise OSError('unawaited')\n"
        "            asyncio.get_running_loop().create_task(fail())\n"
        "            return {'predictions': []}\n"
        "    failing = Failing('a')\n"
        "    failing.load()\n"
    )


def test_s02_unawaited_exceptions_are_logged() -> None:
    with script(failing_script(old=False) + "    server.start([failing])\n") as running:
        assert predict(running.url)[0] == 200
        until(lambda: "Caught exception: unawaited" in running.text, "the log")
        # The server continues.
        assert predict(running.url)[0] == 200
        running.signal(signal.SIGTERM)
        assert running.status() == 0


def test_s02_unawaited_exceptions_stop_the_server_in_dialect_0_13() -> None:
    with script(failing_script(old=True) + "    server.start([failing])\n    print('left', flush=True)\n") as running:
        assert predict(running.url)[0] == 200
        assert running.status() == 0
        assert "Caught exception: unawaited" in running.text
        assert "left" in running.lines


def test_s02_default_handler_can_be_called_in_a_running_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect, "_chosen", "0.13")
    server, seen = ModelServer(**LOOPBACK), []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "default_exception_handler", seen.append)
        server.default_exception_handler(loop, {"message": "m", "exception": OSError("e")})

    asyncio.run(run())
    assert [one["message"] for one in seen] == ["m"]


def test_s03_registered_exception_handler_is_called() -> None:
    body = failing_script(old=True) + (
        "    def handler(loop, context):\n"
        "        print('handled:', context['exception'], flush=True)\n"
        "    server.register_exception_handler(handler)\n"
        "    server.start([failing])\n"
    )
    with script(body) as running:
        assert predict(running.url)[0] == 200
        assert running.wait_for_line("handled:") == "unawaited"
        running.signal(signal.SIGTERM)
        assert running.status() == 0


def test_max_asyncio_workers_sets_the_executor_size() -> None:
    names: set[str] = set()

    def name() -> str:
        time.sleep(0.01)
        return threading.current_thread().name

    class Async(Double):
        async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:  # type: ignore[override]
            names.update(await asyncio.gather(*[asyncio.to_thread(name) for _ in range(12)]))
            return {"predictions": []}

    with live(Async(), max_asyncio_workers=3) as server:
        assert server.predict()[0] == 200
    assert len(names) == 3


def test_engines_run_on_the_loop_of_their_requests() -> None:
    loops: dict[str, Any] = {}

    class Engine(Double):
        def __init__(self) -> None:
            super().__init__(ready=False)
            self.engine = True

        async def start_engine(self) -> None:
            loops["engine"] = asyncio.get_running_loop()
            self.ready = True
            try:
                await asyncio.Event().wait()
            finally:
                loops["ended"] = True

        async def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> Any:  # type: ignore[override]
            loops["predict"] = asyncio.get_running_loop()
            return {"predictions": []}

        def stop_engine(self) -> None:
            loops["stopped"] = True

    with live(Engine()) as server:
        until(lambda: server.predict()[0] == 200)
        assert loops["engine"] is loops["predict"]
    assert loops["ended"]
    assert loops["stopped"]


def test_engines_of_sync_models_run_on_the_background_loop() -> None:
    state: dict[str, bool] = {}

    class Engine(Double):
        def __init__(self) -> None:
            super().__init__(ready=False)
            self.engine = True

        async def start_engine(self) -> None:
            self.ready = True
            try:
                await asyncio.Event().wait()
            finally:
                state["ended"] = True

    with live(Engine()) as server:
        until(lambda: server.predict()[0] == 200)
        assert not state
    until(lambda: state.get("ended"))


def test_failing_engines_stop_the_server(caplog: pytest.LogCaptureFixture) -> None:
    class Engine(Double):
        def __init__(self) -> None:
            super().__init__()
            self.engine = True

        async def start_engine(self) -> None:
            await asyncio.to_thread(resume.wait, PATIENCE)
            raise OSError("no device")

    model, resume = Engine(), threading.Event()
    with live(model):
        resume.set()
        until(lambda: model.stopped == 1, "the server to stop")
    assert "The engine of model m failed, the server stops" in caplog.text


def test_engines_and_workers_exclude_each_other() -> None:
    class Engine(Double):
        engine = True

        def __init__(self) -> None:
            super().__init__()
            self.engine = True

    with pytest.raises(SignatureError, match=r"^model 'm' has an engine, which runs on the one event loop"):
        ModelServer(**LOOPBACK, workers=2).start([Engine()])
