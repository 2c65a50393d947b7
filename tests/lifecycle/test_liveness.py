"""Liveness that means progress: a server whose work has stalled is not live, and heals."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import grpc
import pytest

from http_by_hand import get, metric_at, post
from serving_process import MODELS, Serving
from stuck_server import GUARD, LONG, call, line_of, live, ready, serve
from waiting import at_once, until


@pytest.mark.parametrize(
    ("model", "line", "problem"),
    [
        ("held", "# held: the GIL too", r"model 'held' instance 0: one batch for \d+ s"),
        ("locked", "# locked: for ever", r"model 'locked' instance \d: one batch for \d+ s"),
        ("spinning", "# spinning", r"model 'spinning' instance 0: one batch for \d+ s"),
        ("blocked", "# blocked: the loop too", r"model 'blocked' instance 0: no step of its event loop for \d+ s"),
    ],
)
def test_stuck_handler_ends_liveness_and_is_logged_with_its_line(model: str, line: str, problem: str) -> None:
    with serve(model, "--stall-timeout", "2s") as server:
        assert call(server, model, 0)().status == 200
        assert get(server.http, "/v2/health/live").json() == {"live": True}
        at_once([call(server, model, LONG)])
        until(lambda: not ready(server), "not to be ready", GUARD)
        until(lambda: not live(server), "not to be live", GUARD)
        body = get(server.http, "/v2/health/live").json()
        assert body["live"] is False
        # A held interpreter may be noticed first.
        assert re.fullmatch(rf"{problem}|the interpreter: no thread could take it for \d+ s", body["reason"])
        body = get(server.http, "/v2/health/ready").json()
        assert (body["ready"], body["live"]) == (False, False)
        assert get(server.http, "/").status == 503
        until(lambda: sum(metric_value(server, model)) == 1, "the metric", GUARD)
        server.await_stderr(f'stuck.py", line {line_of(line)} in {model}')
        until(lambda: re.search(rf"error the server is not live: {problem}", server.err), "the log", GUARD)
        assert len(re.findall(rf"not live: model '{model}' instance", server.err)) == 1


def metric_value(server: Serving, model: str) -> list[float]:
    text = get(server.http, "/metrics").body.decode()
    prefix = f'penstock_stalled{{model="{model}"'
    return [float(one.split()[-1]) for one in text.splitlines() if one.startswith(prefix)]


def test_liveness_heals_and_is_reported_over_grpc() -> None:
    health = "/grpc.health.v1.Health/Check"
    with serve("locked", "--stall-timeout", "2s", grpc="same") as server, grpc.insecure_channel(server.grpc) as channel:
        check = channel.unary_unary(health, request_serializer=bytes, response_deserializer=bytes)
        server_live = channel.unary_unary(
            "/inference.GRPCInferenceService/ServerLive", request_serializer=bytes, response_deserializer=bytes
        )
        serving, not_serving, is_live, is_not_live = b"\x08\x01", b"\x08\x02", b"\x08\x01", b""
        assert (check(b""), server_live(b"")) == (serving, is_live)
        (stuck,) = at_once([call(server, "locked", 6)])
        until(lambda: not live(server), "not to be live", GUARD)
        assert (check(b""), server_live(b"")) == (not_serving, is_not_live)
        # The other instance still serves.
        assert call(server, "locked", 0)().status == 200
        assert stuck.result().status == 200
        until(lambda: live(server) and ready(server), "to be live", GUARD)
        until(lambda: check(b"") == serving, "to serve", GUARD)
        assert sum(metric_value(server, "locked")) == 0
        server.await_stderr("info model 'locked' instance")


@pytest.mark.parametrize("model", ["patient", "pieces", "allowed", "child"])
def test_progress_and_own_timeouts_keep_a_server_live(model: str) -> None:
    with serve(model, "--stall-timeout", "1s") as server:
        if model == "pieces":
            body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[4]}]}'
            (running,) = at_once([lambda: post(server.http, "/v2/models/pieces/infer_stream", body)])
        else:
            (running,) = at_once([call(server, model, 4)])
        while not running.done():
            assert ready(server)
            assert live(server)
            time.sleep(0.05)
        assert running.result().status == 200


def test_model_has_a_timeout_on_a_server_without_one(tmp_path: Path) -> None:
    text = "import penstock, stuck\nwaits = stuck.locked.with_options(stall_timeout=1.5, name='waits')\n"
    (tmp_path / "app.py").write_text(text)
    environment = {"PYTHONPATH": os.pathsep.join([str(MODELS), os.environ.get("PYTHONPATH", "")])}
    arguments = ("app.py:waits", "--http", "127.0.0.1:0", "--grpc", "off")
    with Serving(*arguments, folder=tmp_path, environment=environment) as server:
        assert "penstock_interpreter_wait_seconds_count 0" in get(server.http, "/metrics").body.decode()
        at_once([call(server, "waits", LONG)])
        until(lambda: not live(server), "not to be live", GUARD)
        assert "model 'waits' instance" in get(server.http, "/v2/health/live").json()["reason"]


def test_short_holds_of_the_interpreter_under_load_never_end_liveness() -> None:
    """Holds of 2 s, with other requests under way, for about 20 s."""
    with serve("", "--stall-timeout", "5s") as server:
        end = time.monotonic() + 20
        waits = [2.0, 0.0, 1.0, 2.0, 0.5]
        done = 0
        while time.monotonic() < end:
            running = at_once([call(server, "held", int(waits[done % len(waits)])), *[call(server, "locked", 0.1)] * 4])
            done += 1
            while not all(one.done() for one in running):
                assert live(server)
                time.sleep(0.02)
            assert {one.result().status for one in running} == {200}
        assert ready(server)
        assert "not live" not in server.err
        assert metric_at(server.http, "penstock_interpreter_wait_seconds_count") > 0
