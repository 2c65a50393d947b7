"""1.2, 1.4, 1.9: start, binding and stop of servers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live import ROW, X, Y, answers, ask, bind, double, in_thread, once_in_serve, triton, url

from http_by_hand import binary_body, get, infer, post
from penstock import BindError
from penstock.compat.pytriton.decorators import batch
from penstock.compat.pytriton.exceptions import (
    PyTritonBadParameterError,
    PyTritonInvalidOperationError,
    PyTritonUnrecoverableError,
    PyTritonValidationError,
)
from penstock.compat.pytriton.triton import (
    MONITORING_PERIOD_S,
    TRITONSERVER_DIST_DIR,
    WAIT_FORM_MODEL_TIMEOUT_S,
    DefaultTritonLifecyclePolicy,
    Triton,
    TritonBase,
    TritonConfig,
    TritonLifecyclePolicy,
    VertextAILifecyclePolicy,
)
from penstock.compat.pytriton.utils.workspace import Workspace
from waiting import Gate, at_once, until

LATE = TritonLifecyclePolicy(launch_triton_on_startup=False)


def test_constants_and_policies() -> None:
    assert (MONITORING_PERIOD_S, WAIT_FORM_MODEL_TIMEOUT_S) == (10.0, 60.0)
    assert TRITONSERVER_DIST_DIR.name == "tritonserver"
    assert TritonLifecyclePolicy() == DefaultTritonLifecyclePolicy == TritonLifecyclePolicy(True, False)
    assert VertextAILifecyclePolicy == TritonLifecyclePolicy(False, True)


def test_nothing_starts_by_itself() -> None:
    server = triton()
    bind(server)
    assert (server.is_alive(), server.is_connected(), server.stop()) == (False, False, False)
    assert server._triton_server is None
    assert isinstance(server, TritonBase)


def test_positional_arguments_are_rejected() -> None:
    with pytest.raises(TypeError):
        Triton(TritonConfig())  # type: ignore[misc]


def test_run_serves_what_is_bound_until_stop() -> None:
    server = triton()
    bind(server)
    server.run()
    address = url(server)
    assert (server.is_alive(), server.is_connected(), answers(server)) == (True, True, True)
    assert server._triton_server is not None
    assert server._triton_server.is_alive()
    server.run()
    server.connect()
    assert url(server) == address
    assert (server.stop(), server.stop()) == (True, False)
    assert (server.is_alive(), server.is_connected(), server._triton_server.is_alive()) == (False, False, False)
    with pytest.raises(ConnectionRefusedError):
        get(address, "/v2/health/live")


def test_a_stopped_server_runs_again_with_its_models() -> None:
    server = triton()
    bind(server)
    for _ in range(2):
        server.run()
        assert answers(server)
        assert server.stop()


def test_a_context_starts_on_entry_and_stops_on_exit() -> None:
    with triton() as server:
        assert (server.is_alive(), server.is_connected()) == (True, True)
        assert get(url(server), "/v2/health/ready").status == 200
        bind(server)
        server.run()
        assert answers(server)
    assert not server.is_alive()


def test_models_are_bound_while_others_serve() -> None:
    """A model serves when `bind` returns."""
    gate = Gate()

    @batch
    def held(x: Any) -> Any:
        gate.enter()
        return {"y": x}

    with triton() as server:
        bind(server, "held", held)
        [first] = at_once([lambda: ask(server, "held").status])
        gate.await_entered()
        for number in range(3):
            bind(server, f"late{number}")
            assert answers(server, f"late{number}")
        bind(server, "late0", version=2)
        assert get(url(server), "/v2/models/late0").json()["versions"] == ["1", "2"]
        gate.open()
        assert first.result() == 200
        assert [one.model_name for one in server._model_manager.models] == ["held", "late0", "late1", "late2", "late0"]


def test_a_policy_prevents_the_start_on_entry() -> None:
    with triton(policy=LATE) as server:
        assert (server.is_alive(), server.is_connected()) == (False, False)
        bind(server)
        server.run()
        assert answers(server)


def test_vertex_ai_has_that_policy_and_its_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform has its own port, and an explicit policy takes precedence."""
    monkeypatch.setenv("AIP_HEALTH_ROUTE", "/health")
    monkeypatch.setenv("AIP_PREDICT_ROUTE", "/predict")
    with triton(allow_vertex_ai=True, vertex_ai_port=0) as server:
        assert not server.is_alive()
        bind(server)
        server.run()
        assert get(url(server), "/health").status == 200
        said = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]}]}'
        assert post(url(server), "/predict", said).json()["outputs"][0]["data"] == [2.0, 4.0]
    with triton(allow_vertex_ai=True, vertex_ai_port=0, policy=DefaultTritonLifecyclePolicy) as server:
        assert server.is_alive()


def test_sagemaker_has_its_routes() -> None:
    with triton(allow_sagemaker=True, sagemaker_port=0) as server:
        bind(server)
        assert get(url(server), "/ping").status == 200


def test_connect_needs_a_server() -> None:
    with pytest.raises(TimeoutError, match=r"^Triton Inference Server is not ready after timeout"):
        triton().connect()


def test_two_servers_in_one_process() -> None:
    with triton() as one, triton() as other:
        bind(one, "one")
        bind(other, "other")
        assert (answers(one, "one"), answers(other, "other")) == (True, True)
        assert ask(one, "other").status == 404
        one.stop()
        assert (one.is_alive(), other.is_alive(), answers(other, "other")) == (False, True, True)


def test_a_server_in_a_thread() -> None:
    server = triton()
    bind(server)
    thread = in_thread(lambda: server.serve(monitoring_period_s=60.0))
    until(server.is_connected)
    assert answers(server)
    assert server.stop()
    thread.join()
    assert not server.is_alive()


def test_serve_returns_after_an_earlier_stop() -> None:
    server = triton()
    start = server.run

    def run() -> None:
        start()
        server.stop()

    server.run = run  # type: ignore[method-assign]
    server.serve()
    assert not server.is_alive()


def test_serve_returns_when_the_server_is_stopped_elsewhere() -> None:
    with triton() as server:
        bind(server)
        once_in_serve(server.stop)
        server.serve()
        assert not server.is_alive()


def test_requests_finish_before_a_server_stops() -> None:
    gate = Gate()

    @batch
    def held(x: Any) -> Any:
        gate.enter()
        return {"y": x * 2}

    server = triton()
    bind(server, "m", held)
    server.run()
    [answer] = at_once([lambda: ask(server).array("y").tolist()])
    gate.await_entered()
    [stopped] = at_once([server.stop])
    until(lambda: not server.is_connected())
    assert not stopped.done()
    gate.open()
    assert (answer.result(), stopped.result()) == ([[2, 4]], True)


def test_an_unrecoverable_callable_stops_the_server() -> None:
    """The request gets the error, `is_alive` is false at once, and `serve` returns."""
    alive_then = []

    @batch
    def broken(x: Any) -> Any:
        raise PyTritonUnrecoverableError("the GPU is gone")

    server = triton()
    bind(server, "broken", broken)
    bind(server, "well")
    server.run()
    address = url(server)
    thread = in_thread(server.serve)
    answer = infer(address, "broken", {"x": ROW})
    alive_then.append(server.is_alive())
    assert (answer.status, "the GPU is gone" in answer.error()) == (500, True)
    assert alive_then == [False]
    thread.join()
    assert not server.stop()
    with pytest.raises(ConnectionRefusedError):
        infer(address, "well", {"x": ROW})


def test_other_errors_of_a_callable_stop_nothing() -> None:
    @batch
    def fails(x: Any) -> Any:
        raise ValueError("no")

    with triton() as server:
        bind(server, "fails", fails)
        bind(server, "well")
        assert ask(server, "fails").status == 500
        assert (server.is_alive(), answers(server, "well")) == (True, True)


def test_a_port_in_use_is_reported_at_once() -> None:
    with triton() as server:
        port = int(url(server).rpartition(":")[2])
        other = triton(http_port=port)
        with pytest.raises(BindError, match="cannot listen on"):
            other.run()
        assert not other.is_alive()
    other.run()
    assert other.stop()


def test_only_grpc() -> None:
    import grpc
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    with triton(allow_http=False, allow_metrics=False) as server:
        bind(server)
        assert server._url.startswith("grpc://127.0.0.1:")
        with grpc.insecure_channel(server._url.removeprefix("grpc://")) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            told = stub.ServerMetadata(service_pb2.ServerMetadataRequest(), timeout=20)
        assert (told.name, told.version) == ("triton", "2.51.0")


def test_metadata_is_tritons() -> None:
    with triton() as server:
        told = get(url(server), "/v2").json()
        assert (told["name"], told["version"]) == ("triton", "2.51.0")
    with triton(id="mine") as server:
        assert get(url(server), "/v2").json()["name"] == "mine"


def test_forwarded_headers_become_parameters() -> None:
    def shown(requests: Any) -> Any:
        return [{"y": np.array([[float(one.parameters["header_divisor"])]], np.float32)} for one in requests]

    with triton(http_header_forward_pattern="header.*") as server:
        bind(server, "m", shown)
        body, headers = binary_body({"x": ROW})
        answer = post(url(server), "/v2/models/m/infer", body, {**headers, "header_divisor": "4"})
        assert answer.array("y").tolist() == [[4.0]]


def test_responses_are_cached_if_the_server_has_a_cache() -> None:
    calls: list[int] = []

    @batch
    def counted(x: Any) -> Any:
        calls.append(len(x))
        return {"y": x}

    for cache, expected in ((None, 3), (["local,size=1048576"], 1)):
        calls.clear()
        with triton(cache_config=cache) as server:
            bind(server, "m", counted, response_cache=True)
            for _ in range(3):
                assert ask(server).status == 200
        assert len(calls) == expected


def test_clients_with_the_token_unload_and_load_a_model() -> None:
    with triton() as server:
        bind(server)
        token = {"triton-access-token": str(server.get_access_token())}
        assert post(url(server), "/v2/repository/models/m/unload", b"{}").status == 403
        assert post(url(server), "/v2/repository/models/m/unload", b"{}", token).status == 200
        assert ask(server).status != 200
        assert post(url(server), "/v2/repository/models/m/load", b"{}", token).status == 200
        assert answers(server)


def test_stop_removes_the_workspace(tmp_path: Path) -> None:
    given = Workspace(tmp_path / "given")
    for workspace in (tmp_path / "path", str(tmp_path / "text"), given, None):
        server = triton(workspace=workspace)
        with server:
            assert server._workspace.exists()
            (server._workspace.path / "file").write_text("left")
        assert not server._workspace.exists()


def test_the_log_lists_the_models(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pytriton"), triton() as server:
        bind(server, "named")
    for said in ("/v2/models/named/ready", "/v2/models/named/config", "/v2/models/named/infer", "Press CTRL+C"):
        assert said in caplog.text
    assert str(server.get_access_token()) not in caplog.text


@pytest.mark.parametrize("level", [None, 0, 1])
def test_a_verbose_log_causes_warnings_at_start_and_stop(level: int | None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "pytriton"):
        server = triton(log_verbose=level)
        server.run()
        said = "running with enabled verbose logs (log_verbose_level=1). It may affect inference performance."
        assert caplog.text.count(said) == bool(level)
        server.stop()
        assert caplog.text.count(said) == 2 * bool(level)


def test_invalid_bindings() -> None:
    server = triton()
    bind(server, "Name")
    with pytest.raises(PyTritonInvalidOperationError, match=r"^Cannot add model with the same name twice\.$"):
        bind(server, "nAME")
    bind(server, "Name", version=2)
    for name in ("", "a b", "a/b", "\u00fc"):
        with pytest.raises(PyTritonValidationError):
            bind(server, name)


def test_a_late_model_that_fails_to_load_is_removed() -> None:
    with triton() as server:
        with pytest.raises(PyTritonBadParameterError):
            bind(server, "m", max_batch_size=0)
        assert server.is_alive()
        bind(server)
        assert answers(server)


def test_an_early_model_that_fails_to_load_prevents_the_start() -> None:
    server = triton()
    bind(server, "m", max_batch_size=0)
    with pytest.raises(PyTritonBadParameterError):
        server.run()
    assert (server.is_alive(), server.stop()) == (False, False)


def test_instances_and_default_names() -> None:
    with triton() as server:
        unnamed = [type(X)(shape=(-1,), dtype=np.float32)]
        server.bind("many", [double, double], [X], [Y])
        server.bind("unnamed", batch(lambda INPUT_1: [INPUT_1 * 2]), unnamed, unnamed)
        config = get(url(server), "/v2/models/many/config").json()
        assert sum(group.get("count", 1) for group in config["instance_group"]) == 2
        answer = infer(url(server), "unnamed", {"INPUT_1": ROW})
        assert answer.array("OUTPUT_1").tolist() == [[2, 4]]
