"""Listening addresses: TCP, Unix sockets, one port for both protocols; and several servers in one process."""

from __future__ import annotations

import gc
import shutil
import socket
import stat
import subprocess
import threading
from pathlib import Path
from time import sleep
from typing import Any

import grpc
import numpy as np
import pytest
from observe import free_ports
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import Connection, get, infer
from penstock import BindError, Server, Tensor, model
from waiting import until

X = np.array([1, 2], np.float32)


@model(inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])])
def double(x: Any) -> Any:
    return x * 2


# gRPC's C core derives the authority from the socket path; the HTTP/2 library rejects its escapes.
AUTHORITY = (("grpc.default_authority", "localhost"),)


def grpc_infer(target: str, options: tuple[tuple[str, str], ...] = AUTHORITY) -> list[float]:
    with grpc.insecure_channel(target, options=options) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = service_pb2.ModelInferRequest(model_name="double", raw_input_contents=[X.tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=[2])
        response = stub.ModelInfer(request, timeout=20)
    return np.frombuffer(response.raw_output_contents[0], np.float32).tolist()


def test_rest_and_grpc_on_separate_ports() -> None:
    with Server(double, http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        assert server.http_address != server.grpc_address
        assert server.http_url == f"http://{server.http_address}"
        assert server.grpc_url == server.grpc_address
        assert infer(server.http_url, "double", {"x": X}).array("y").tolist() == [2, 4]
        assert grpc_infer(server.grpc_url) == [2, 4]
        # Each port serves only its protocol.
        # The gRPC specification requires 415; a probe must not see 200.
        assert get(f"http://{server.grpc_address}", "/v2/health/live").status == 415
        with pytest.raises(grpc.RpcError):
            grpc_infer(str(server.http_address))


def test_one_port_serves_both_protocols(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    for shared in (address, f"unix:{tmp_path}/both.sock"):
        with Server(double, http=shared, grpc=shared) as server:
            assert server.http_address == server.grpc_address == shared
            assert infer(server.http_url, "double", {"x": X}).array("y").tolist() == [2, 4]
            assert grpc_infer(server.grpc_url) == [2, 4]


def test_grpc_shares_an_automatically_picked_http_port() -> None:
    with Server(double, http="127.0.0.1:0", grpc="same") as server:
        assert server.http_address == server.grpc_address
        assert infer(server.http_url, "double", {"x": X}).array("y").tolist() == [2, 4]
        assert grpc_infer(server.grpc_url) == [2, 4]


def test_both_protocols_over_unix_sockets(tmp_path: Path) -> None:
    with Server(double, http=f"unix:{tmp_path}/http.sock", grpc=f"unix:{tmp_path}/grpc.sock") as server:
        assert server.http_url == server.http_address == f"unix:{tmp_path}/http.sock"
        assert infer(server.http_url, "double", {"x": X}).array("y").tolist() == [2, 4]
        assert grpc_infer(server.grpc_url) == [2, 4]
        assert stat.S_ISSOCK((tmp_path / "http.sock").stat().st_mode)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.xfail(raises=grpc.RpcError, reason="the HTTP/2 library refuses the authority that gRPC's C core sends")
def test_unix_socket_with_the_default_grpc_authority(tmp_path: Path) -> None:
    with Server(double, http=None, grpc=f"unix:{tmp_path}/grpc.sock") as server:
        assert grpc_infer(server.grpc_url, ()) == [2, 4]


def test_stale_socket_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "left-over.sock"
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))
    with Server(double, http=f"unix:{path}", grpc=None) as server:
        assert get(server.http_url, "/v2/health/live").status == 200


def test_socket_file_in_use_is_not_replaced(tmp_path: Path) -> None:
    with Server(double, http=f"unix:{tmp_path}/s", grpc=None) as server:
        with pytest.raises(BindError, match=rf"cannot listen on unix:{tmp_path}/s: Address already in use"):
            Server(double, http=f"unix:{tmp_path}/s", grpc=None).start()
        assert get(server.http_url, "/v2/health/live").status == 200


def test_regular_file_at_the_socket_path_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("precious")
    with pytest.raises(BindError, match="cannot listen on unix:"):
        Server(double, http=f"unix:{tmp_path}/notes", grpc=None).start()
    assert (tmp_path / "notes").read_text() == "precious"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("version", ["--http1.0", "--http1.1", "--http2-prior-knowledge", "--http2"])
def test_curl_with_every_http_version(version: str) -> None:
    if (
        "http2" in version
        and "HTTP2" not in subprocess.run(["curl", "-V"], check=False, capture_output=True, text=True).stdout
    ):
        pytest.skip("this curl is built without HTTP/2")
    body = '{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1,2]}]}'
    with Server(double, http="127.0.0.1:0", grpc=None) as server:
        url = f"{server.http_url}/v2/models/double/infer"
        write_out = "\n%{http_version} %{http_code}"
        command = ["curl", "-sS", "--max-time", "20", version, "-d", body, "-w", write_out, url]
        printed = subprocess.run(command, check=False, capture_output=True, text=True)
    response, version_and_status = printed.stdout.rsplit("\n", 1)
    assert '"data":[2' in response, printed.stderr
    # Without TLS, HTTP/2 needs prior knowledge; otherwise curl uses HTTP/1.1.
    expected = {"--http1.0": ("1", "1.0", "1.1"), "--http2-prior-knowledge": ("2",)}.get(version, ("1.1",))
    assert version_and_status.split()[0] in expected
    assert version_and_status.split()[1] == "200"


def test_two_servers_in_one_process() -> None:
    triple = model(lambda x: x * 3, name="double", inputs=double.inputs, outputs=double.outputs)
    with Server(double, http="127.0.0.1:0", grpc=None) as first:
        with Server(triple, http="127.0.0.1:0", grpc=None) as second:
            assert infer(first.http_url, "double", {"x": X}).array("y").tolist() == [2, 4]
            assert infer(second.http_url, "double", {"x": X}).array("y").tolist() == [3, 6]
        assert infer(first.http_url, "double", {"x": X}).array("y").tolist() == [2, 4]


def test_stopped_server_releases_its_port() -> None:
    server = Server(double, http="127.0.0.1:0", grpc=None).start()
    address = server.http_address
    assert server.wait(0.0) is False
    assert server.stop() == []
    assert server.wait(0.0) is True
    with Server(double, http=address, grpc=None) as again:
        assert get(again.http_url, "/v2/health/ready").status == 200


def test_start_and_stop_are_idempotent() -> None:
    server = Server(double, http="127.0.0.1:0", grpc=None)
    assert server.stop() == []
    assert server.start() is server
    address = server.http_address
    assert server.start().http_address == address
    assert (server.stop(), server.stop()) == ([], [])


def test_context_manager_stops_the_server_after_an_error() -> None:
    server = Server(double, http="127.0.0.1:0", grpc=None)
    with pytest.raises(ZeroDivisionError), server:
        assert len(server.http_url) / 0
    url = server.http_url
    with pytest.raises(ConnectionRefusedError):
        get(url, "/v2/health/live")


def test_server_starts_and_stops_in_another_thread() -> None:
    results: list[Any] = []

    def run() -> None:
        with Server(double, http="127.0.0.1:0", grpc=None) as server:
            results.append(infer(server.http_url, "double", {"x": X}).array("y").tolist())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert results == [[2, 4]]


def test_stop_from_another_thread_ends_wait() -> None:
    server = Server(double, http="127.0.0.1:0", grpc=None).start()
    waits = threading.Thread(target=server.wait)
    waits.start()
    server.stop()
    waits.join(20)
    assert not waits.is_alive()


def test_threads_and_descriptors_are_not_leaked() -> None:
    def counts() -> tuple[int, int]:
        gc.collect()
        return len(list(Path("/proc/self/task").iterdir())), len(list(Path("/proc/self/fd").iterdir()))

    def settled() -> tuple[int, int]:
        # Waits until earlier tests and stopped servers have released their threads and descriptors.
        counts_seen = [counts()]

        def is_still() -> bool:
            sleep(0.1)
            counts_seen.append(counts())
            return counts_seen[-1] == counts_seen[-2]

        until(is_still, "threads and descriptors to stay what they are")
        return counts_seen[-1]

    def cycle() -> None:
        with Server(double, http="127.0.0.1:0", grpc=None) as server:
            infer(server.http_url, "double", {"x": X})

    cycle()
    before = settled()
    for _ in range(5):
        cycle()

    def given_back() -> bool:
        threads, descriptors = counts()
        return threads <= before[0] and descriptors <= before[1]

    until(given_back, "as few threads and descriptors as before the last servers")


def test_http_and_grpc_listen_on_extra_addresses(tmp_path: Path) -> None:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    path = f"unix:{tmp_path}/extra.sock"
    shared, grpc_only = addresses
    listeners = [f"http={shared}", f"http={path}", f"grpc={shared}", f"grpc={grpc_only}"]
    with Server(double, http="127.0.0.1:0", grpc="127.0.0.1:0", listeners=listeners) as server:
        for url in (server.http_url, f"http://{shared}", path):
            assert infer(url, "double", {"x": X}).array("y").tolist() == [2, 4]
        for address in (server.grpc_url, shared, grpc_only):
            with grpc.insecure_channel(address) as channel:
                stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
                assert stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=20).live


def test_metrics_on_a_separate_address() -> None:
    """The metrics address needs no secret, and serves nothing else."""
    restricted = "statistics:key=hush"
    with Server(
        double,
        http="127.0.0.1:0",
        grpc=None,
        listeners="metrics=127.0.0.1:0",
        restricted_access=restricted,
        api_key="top",
    ) as server:
        url = f"http://{server.metrics_address}"
        assert server.metrics_address != server.http_address
        response = get(url, "/metrics")
        assert (response.status, b"penstock_connections" in response.body) == (200, True)
        assert get(server.http_url, "/metrics").status == 403
        assert infer(url, "double", {"x": X}).status == 404
        assert [get(url, path).status for path in ("/v2", "/v2/models", "/v2/models/double")] == [404] * 3
        with Connection(url) as connection:
            assert connection.send_request("POST", "/metrics").status == 405
            assert connection.send_request("GET", "/metrics", headers={"a": "b" * 70_000}).status == 431


def test_metadata_has_the_configured_name_and_version() -> None:
    with Server(double, http="127.0.0.1:0", grpc="127.0.0.1:0", server_name="mine", server_version="7.1") as server:
        document = get(server.http_url, "/v2").json()
        with grpc.insecure_channel(server.grpc_url) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            also = stub.ServerMetadata(service_pb2.ServerMetadataRequest(), timeout=20)
    assert (document["name"], document["version"]) == (also.name, also.version) == ("mine", "7.1")
