"""1.2, 1.4, 1.9: start, binding and stop of servers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from live import ROW, X, Y, bind, double, in_thread, infer_row, is_serving, once_in_serve, triton, url

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


def test_binding_does_not_start_the_server() -> None:
    server = triton()
    bind(server)
    assert (server.is_alive(), server.is_connected(), server.stop()) == (False, False, False)
    assert server._triton_server is None
    assert isinstance(server, TritonBase)


def test_positional_arguments_are_rejected() -> None:
    with pytest.raises(TypeError):
        Triton(TritonConfig())  # type: ignore[misc]


def test_run_serves_bound_models_until_stop() -> None:
    server = triton()
    bind(server)
    server.run()
    address = url(server)
    assert (server.is_alive(), server.is_connected(), is_serving(server)) == (True, True, True)
    assert server._triton_server is not None
    assert server._triton_server.is_alive()
    server.run()
    server.connect()
    assert url(server) == address
    assert (server.stop(), server.stop()) == (True, False)
    assert (server.is_alive(), server.is_connected(), server._triton_server.is_alive()) == (False, False, False)
    with pytest.raises(ConnectionRefusedError):
        get(address, "/v2/health/live")


def test_stopped_server_restarts_with_its_models() -> None:
    server = triton()
    bind(server)
    for _ in range(2):
        server.run()
        assert is_serving(server)
        assert server.stop()


def test_context_starts_on_entry_and_stops_on_exit() -> None:
    with triton() as server:
        assert (server.is_alive(), server.is_connected()) == (True, True)
        assert get(url(server), "/v2/health/ready").status == 200
        bind(server)
        server.run()
        assert is_serving(server)
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
        [first] = at_once([lambda: infer_row(server, "held").status])
        gate.await_entered()
        for number in range(3):
            bind(server, f"late{number}")
            assert is_serving(server, f"late{number}")
        bind(server, "late0", version=2)
        assert get(url(server), "/v2/models/late0").json()["versions"] == ["1", "2"]
        gate.open()
        assert first.result() == 200
        assert [one.model_name for one in server._model_manager.models] == ["held", "late0", "late1", "late2", "late0"]


def test_policy_prevents_the_start_on_entry() -> None:
    with triton(policy=LATE) as server:
        assert (server.is_alive(), server.is_connected()) == (False, False)
        bind(server)
        server.run()
        assert is_serving(server)


def test_vertex_ai_sets_lifecycle_policy_and_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform has a separate port, and an explicit policy takes precedence."""
    monkeypatch.setenv("AIP_HEALTH_ROUTE", "/health")
    monkeypatch.setenv("AIP_PREDICT_ROUTE", "/predict")
    with triton(allow_vertex_ai=True, vertex_ai_port=0) as server:
        assert not server.is_alive()
        bind(server)
        server.run()
        assert get(url(server), "/health").status == 200
        body = b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]}]}'
        assert post(url(server), "/predict", body).json()["outputs"][0]["data"] == [2.0, 4.0]
    with triton(allow_vertex_ai=True, vertex_ai_port=0, policy=DefaultTritonLifecyclePolicy) as server:
        assert server.is_alive()


def test_sagemaker_routes_are_served() -> None:
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
        assert (is_serving(one, "one"), is_serving(other, "other")) == (True, True)
        assert infer_row(one, "other").status == 404
        one.stop()
        assert (one.is_alive(), other.is_alive(), is_serving(other, "other")) == (False, True, True)


def test_server_runs_in_a_thread() -> None:
    server = triton()
    bind(server)
    thread = in_thread(lambda: server.serve(monitoring_period_s=60.0))
    until(server.is_connected)
    assert is_serving(server)
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


def test_serve_returns_when_another_thread_stops_the_server() -> None:
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
    [running] = at_once([lambda: infer_row(server).array("y").tolist()])
    gate.await_entered()
    [stopped] = at_once([server.stop])
    until(lambda: not server.is_connected())
    assert not stopped.done()
    gate.open()
    assert (running.result(), stopped.result()) == ([[2, 4]], True)


def test_unrecoverable_error_stops_the_server() -> None:
    """The client gets the error, `is_alive` becomes false at once, and `serve` returns."""
    alive_states = []

    @batch
    def broken(x: Any) -> Any:
        raise PyTritonUnrecoverableError("the GPU is lost")

    server = triton()
    bind(server, "broken", broken)
    bind(server, "healthy")
    server.run()
    address = url(server)
    thread = in_thread(server.serve)
    response = infer(address, "broken", {"x": ROW})
    alive_states.append(server.is_alive())
    assert (response.status, "the GPU is lost" in response.error()) == (500, True)
    assert alive_states == [False]
    thread.join()
    assert not server.stop()
    with pytest.raises(ConnectionRefusedError):
        infer(address, "healthy", {"x": ROW})


def test_other_errors_keep_the_server_running() -> None:
    @batch
    def fails(x: Any) -> Any:
        raise ValueError("no")

    with triton() as server:
        bind(server, "fails", fails)
        bind(server, "healthy")
        assert infer_row(server, "fails").status == 500
        assert (server.is_alive(), is_serving(server, "healthy")) == (True, True)


def test_port_in_use_is_reported() -> None:
    with triton() as server:
        port = int(url(server).rpartition(":")[2])
        other = triton(http_port=port)
        with pytest.raises(BindError, match="cannot listen on"):
            other.run()
        assert not other.is_alive()
    other.run()
    assert other.stop()


def test_http_can_be_disabled() -> None:
    import grpc
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    with triton(allow_http=False, allow_metrics=False) as server:
        bind(server)
        assert server._url.startswith("grpc://127.0.0.1:")
        with grpc.insecure_channel(server._url.removeprefix("grpc://")) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            metadata = stub.ServerMetadata(service_pb2.ServerMetadataRequest(), timeout=20)
        assert (metadata.name, metadata.version) == ("triton", "2.51.0")


def test_server_metadata_is_tritons() -> None:
    with triton() as server:
        metadata = get(url(server), "/v2").json()
        assert (metadata["name"], metadata["version"]) == ("triton", "2.51.0")
    with triton(id="custom") as server:
        assert get(url(server), "/v2").json()["name"] == "custom"


def test_forwarded_headers_become_parameters() -> None:
    def divisor(requests: Any) -> Any:
        return [{"y": np.array([[float(one.parameters["header_divisor"])]], np.float32)} for one in requests]

    with triton(http_header_forward_pattern="header.*") as server:
        bind(server, "m", divisor)
        body, headers = binary_body({"x": ROW})
        response = post(url(server), "/v2/models/m/infer", body, {**headers, "header_divisor": "4"})
        assert response.array("y").tolist() == [[4.0]]


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
                assert infer_row(server).status == 200
        assert len(calls) == expected


def test_models_are_loaded_and_unloaded_with_the_token() -> None:
    with triton() as server:
        bind(server)
        token = {"triton-access-token": str(server.get_access_token())}
        assert post(url(server), "/v2/repository/models/m/unload", b"{}").status == 403
        assert post(url(server), "/v2/repository/models/m/unload", b"{}", token).status == 200
        assert infer_row(server).status != 200
        assert post(url(server), "/v2/repository/models/m/load", b"{}", token).status == 200
        assert is_serving(server)


def test_stop_removes_the_workspace(tmp_path: Path) -> None:
    existing = Workspace(tmp_path / "existing")
    for workspace in (tmp_path / "path", str(tmp_path / "text"), existing, None):
        server = triton(workspace=workspace)
        with server:
            assert server._workspace.exists()
            (server._workspace.path / "file").write_text("left")
        assert not server._workspace.exists()


def test_log_lists_the_models(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pytriton"), triton() as server:
        bind(server, "named")
    for text in ("/v2/models/named/ready", "/v2/models/named/config", "/v2/models/named/infer", "Press CTRL+C"):
        assert text in caplog.text
    assert str(server.get_access_token()) not in caplog.text


@pytest.mark.parametrize("level", [None, 0, 1])
def test_verbose_log_causes_warnings_at_start_and_stop(level: int | None, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "pytriton"):
        server = triton(log_verbose=level)
        server.run()
        warning = "running with enabled verbose logs (log_verbose_level=1). It may affect inference performance."
        assert caplog.text.count(warning) == bool(level)
        server.stop()
        assert caplog.text.count(warning) == 2 * bool(level)


def test_duplicate_and_invalid_names_are_rejected() -> None:
    server = triton()
    bind(server, "Name")
    with pytest.raises(PyTritonInvalidOperationError, match=r"^Cannot add model with the same name twice\.$"):
        bind(server, "nAME")
    bind(server, "Name", version=2)
    for name in ("", "a b", "a/b", "\u00fc"):
        with pytest.raises(PyTritonValidationError):
            bind(server, name)


def test_late_model_that_fails_to_load_is_removed() -> None:
    with triton() as server:
        with pytest.raises(PyTritonBadParameterError):
            bind(server, "m", max_batch_size=0)
        assert server.is_alive()
        bind(server)
        assert is_serving(server)


def test_early_model_that_fails_to_load_prevents_the_start() -> None:
    server = triton()
    bind(server, "m", max_batch_size=0)
    with pytest.raises(PyTritonBadParameterError):
        server.run()
    assert (server.is_alive(), server.stop()) == (False, False)


def test_lists_are_instances_and_unnamed_tensors_get_names() -> None:
    with triton() as server:
        unnamed = [type(X)(shape=(-1,), dtype=np.float32)]
        server.bind("many", [double, double], [X], [Y])
        server.bind("unnamed", batch(lambda INPUT_1: [INPUT_1 * 2]), unnamed, unnamed)
        config = get(url(server), "/v2/models/many/config").json()
        assert sum(group.get("count", 1) for group in config["instance_group"]) == 2
        response = infer(url(server), "unnamed", {"INPUT_1": ROW})
        assert response.array("OUTPUT_1").tolist() == [[2, 4]]
