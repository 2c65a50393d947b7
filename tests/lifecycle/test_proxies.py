"""Clients behind proxies: headers of trusted ones, and the PROXY protocol, by hand, nginx and HAProxy."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from observe import free_ports
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from penstock import ConfigError, Context, Server, model
from serving_process import Serving
from waiting import until

WHO = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [], "data": [1]}]}
ENVOY = 'Hash=AB12;Subject="CN=batch,O=Example";URI=spiffe://example/batch'


@model
def who(x: float, ctx: Context) -> str:
    client = ctx.client
    certificate = client.certificate
    return json.dumps([client.address, client.name, certificate and certificate.subject])


def ask(url: str, headers: Mapping[str, str] | None = None, client: httpx.Client | None = None) -> list[Any]:
    response = (client or httpx).post(f"{url}/v2/models/who/infer", json=WHO, headers=headers)
    assert response.status_code == 200, response.text
    found: list[Any] = json.loads(response.json()["outputs"][0]["data"][0])
    return found


def forwarded(*addresses: str) -> dict[str, str]:
    return {"X-Forwarded-For": ", ".join(addresses)}


def test_header_of_a_trusted_proxy_names_the_client() -> None:
    with (
        Server(who, http="127.0.0.1:0", grpc=None, trusted_proxies="127.0.0.0/8,10.0.0.0/8") as server,
        httpx.Client() as client,
    ):
        # One connection has requests of many clients.
        for address in ("192.0.2.1", "192.0.2.2", "2001:db8::1"):
            assert ask(server.http_url, forwarded(address), client)[0] == address
        assert ask(server.http_url, forwarded("6.6.6.6", "192.0.2.1", "10.0.0.1"), client)[0] == "192.0.2.1"
        assert ask(server.http_url, {}, client)[0] == "127.0.0.1"
        assert ask(server.http_url, forwarded("192.0.2.1", "unknown"), client)[0] == "127.0.0.1"


def test_header_of_another_peer_is_ignored() -> None:
    for trusted in ((), ("10.0.0.0/8",), ("unix",)):
        with Server(who, http="127.0.0.1:0", grpc=None, trusted_proxies=trusted) as server:
            headers = {**forwarded("192.0.2.1"), "X-Forwarded-Client-Cert": ENVOY}
            assert ask(server.http_url, headers) == ["127.0.0.1", "127.0.0.1", None]


def test_peers_of_a_unix_socket_are_trusted_by_name(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with (
        Server(who, http=f"unix:{path}", grpc=None, trusted_proxies="unix"),
        httpx.Client(transport=httpx.HTTPTransport(uds=path)) as client,
    ):
        assert ask("http://localhost", forwarded("192.0.2.1"), client)[0] == "192.0.2.1"
        assert ask("http://localhost", {}, client)[0] is None


def test_metadata_of_a_trusted_proxy_names_the_client() -> None:
    with (
        Server(who, http=None, grpc="127.0.0.1:0", trusted_proxies="127.0.0.1") as server,
        grpc.insecure_channel(str(server.grpc_address)) as channel,
    ):
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        request = pb.ModelInferRequest(model_name="who")
        tensor = request.inputs.add(name="x", datatype="FP64", shape=[])
        tensor.contents.fp64_contents.append(1)
        for metadata, expected in [([("x-forwarded-for", "192.0.2.1")], "192.0.2.1"), ([], "127.0.0.1")]:
            response = stub.ModelInfer(request, timeout=20, metadata=metadata)
            assert json.loads(response.raw_output_contents[0][4:])[0] == expected


def test_envoys_header_names_the_certificate(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text("[[key]]\nname = 'batch'\nsubject = 'spiffe://example/batch'\n")
    with Server(who, http="127.0.0.1:0", grpc=None, trusted_proxies="127.0.0.1", keys_file=str(keys)) as server:
        headers = {**forwarded("192.0.2.1"), "X-Forwarded-Client-Cert": ENVOY}
        assert ask(server.http_url, headers) == ["192.0.2.1", "batch", "CN=batch,O=Example"]
        refused = httpx.post(f"{server.http_url}/v2/models/who/infer", json=WHO, headers=forwarded("192.0.2.1"))
        assert refused.status_code == 401
    with Server(who, http="127.0.0.1:0", grpc=None, keys_file=str(keys)) as server:
        assert httpx.post(f"{server.http_url}/v2/models/who/infer", json=WHO, headers=headers).status_code == 401


def test_limit_of_an_address_is_that_of_the_forwarded_client(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text("[anonymous]\nscopes = ['inference']\nrate = '1/h'\nburst = 1\n")
    with Server(who, http="127.0.0.1:0", grpc=None, trusted_proxies="127.0.0.1", keys_file=str(keys)) as server:

        def status(address: str) -> int:
            return httpx.post(
                f"{server.http_url}/v2/models/who/infer", json=WHO, headers=forwarded(address)
            ).status_code

        assert [status("192.0.2.1"), status("192.0.2.1"), status("192.0.2.2")] == [200, 429, 200]


def test_forwarded_clients_are_not_local() -> None:
    with Server(who, http="127.0.0.1:0", grpc=None, trusted_proxies="127.0.0.1") as server:
        assert httpx.get(f"{server.http_url}/debug/stacks").status_code == 200
        assert httpx.get(f"{server.http_url}/debug/stacks", headers=forwarded("192.0.2.1")).status_code == 403
        # A proxy between is one more reason.
        assert httpx.get(f"{server.http_url}/debug/stacks", headers=forwarded("127.0.0.1")).status_code == 403


def test_forwarded_loopback_address_opens_no_shared_memory() -> None:
    with Server(
        who, http="127.0.0.1:0", grpc=None, trusted_proxies="10.0.0.0/8,127.0.0.1", shared_memory="local"
    ) as server:
        url = f"{server.http_url}/v2/systemsharedmemory/status"
        assert httpx.get(url).status_code == 200
        # A client in a trusted network writes what it likes.
        assert httpx.get(url, headers=forwarded("127.0.0.2", "10.0.0.5")).status_code == 501


@pytest.mark.parametrize(
    ("networks", "problem"),
    [
        ("proxy.example", "'proxy.example' is not an address, a network such as 10.0.0.0/8, or unix"),
        ("10.0.0.0/33", "'10.0.0.0/33' is not an address, a network such as 10.0.0.0/8, or unix"),
        ("10.0.0.1/8", "'10.0.0.1/8' is an address within a network, expected 10.0.0.0/8"),
    ],
)
def test_wrong_networks_are_refused(networks: str, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Server(who, http="127.0.0.1:0", grpc=None, trusted_proxies=networks)
    assert str(raised.value) == f"trusted_proxies: {problem}"


REQUEST = b"POST /v2/models/who/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"


def exchange(address: str, start: bytes) -> bytes:
    """Sends bytes, then a request; the response, empty if the connection was closed without one."""
    body = json.dumps(WHO).encode()
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        try:
            connection.sendall(start + REQUEST % (len(body), body))
            received = b""
            while part := connection.recv(65536):
                received += part
        except ConnectionError:
            return b""
    return received


V2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c" + bytes([192, 0, 2, 7, 127, 0, 0, 1, 18, 103, 0, 80])


@pytest.mark.parametrize("http", ["proxy:127.0.0.1:0", "proxy:0", "proxy:plain:127.0.0.1:0"])
def test_proxy_protocol_names_the_client(http: str) -> None:
    with Server(who, http=http, grpc="same") as server:
        address = str(server.http_address)
        for start, expected in [
            (b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 80\r\n", b"192.0.2.7"),
            (b"PROXY TCP6 2001:db8::7 ::1 4711 80\r\n", b"2001:db8::7"),
            (V2, b"192.0.2.7"),
            (b"PROXY UNKNOWN\r\n", b"127.0.0.1"),
        ]:
            assert expected in exchange(address, start)


def test_connections_without_the_proxy_protocol_are_closed() -> None:
    port = free_ports(1)[0]
    with Serving("double.py", "--http", f"proxy:127.0.0.1:{port}", "--grpc", "off") as server:
        for start in (b"", b"PROXY TCP4 nonsense\r\n", V2[:12] + b"\x31" + V2[13:]):
            assert exchange(f"127.0.0.1:{port}", start) == b""
        closed = f"a connection to port {port} was closed, which expects the PROXY protocol: "
        server.await_stderr(closed)
    assert server.err.count(closed) == 1


def test_address_with_the_proxy_protocol_is_for_other_machines() -> None:
    with Server(who, http="proxy:127.0.0.1:0", grpc=None, shared_memory="local") as server:
        address = str(server.http_address)
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=20) as connection:
            connection.sendall(b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 80\r\nGET /debug/stacks HTTP/1.0\r\n\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.0 403")


def test_limit_of_connections_is_by_client_of_the_proxy() -> None:
    with Server(who, http="proxy:127.0.0.1:0", grpc=None, max_connections_per_address=1) as server:
        port = int(str(server.http_address).rpartition(":")[2])

        def responds(client: str) -> socket.socket | None:
            connection = socket.create_connection(("127.0.0.1", port), timeout=20)
            line = f"PROXY TCP4 {client} 127.0.0.1 4711 80\r\n".encode()
            connection.sendall(line + b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n")
            try:
                received = connection.recv(65536)
            except ConnectionError:
                received = b""
            if received:
                return connection
            connection.close()
            return None

        held = [responds("192.0.2.1"), responds("192.0.2.2")]
        assert all(held)
        assert responds("192.0.2.1") is None
        for connection in held:
            assert connection is not None
            connection.close()


@contextmanager
def running(*command: str, port: int) -> Iterator[None]:
    """A proxy, from the time on at which it listens."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:

        def listens() -> bool:
            assert process.poll() is None, f"{command[0]} has ended"
            with socket.socket() as connection:
                return connection.connect_ex(("127.0.0.1", port)) == 0

        try:
            until(listens, f"{command[0]} to listen")
            yield
        finally:
            process.terminate()
            process.wait(20)


HAPROXY = """
global
defaults
  mode tcp
  timeout connect 20s
  timeout client 20s
  timeout server 20s
listen one
  bind 127.0.0.1:{port}
  server one {address} {option}
"""


@pytest.mark.parametrize("option", ["send-proxy", "send-proxy-v2"])
def test_haproxy_names_its_client(option: str, tmp_path: Path) -> None:
    if shutil.which("haproxy") is None:
        pytest.skip("haproxy is not installed")
    (port,) = free_ports(1)
    with Server(who, http="proxy:127.0.0.1:0", grpc="same") as server:
        config = tmp_path / "haproxy.cfg"
        config.write_text(HAPROXY.format(port=port, address=server.http_address, option=option))
        # The client and the proxy have different addresses of this machine.
        with (
            running("haproxy", "-db", "-f", str(config), port=port),
            httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.77")) as client,
        ):
            assert ask(f"http://127.0.0.1:{port}", {}, client)[0] == "127.0.0.77"


NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder};
  scgi_temp_path {folder};
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://{address};
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }}
  }}
}}
"""


def test_nginx_names_its_client(tmp_path: Path) -> None:
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed")
    (port,) = free_ports(1)
    with Server(who, http="127.0.0.1:0", grpc=None, trusted_proxies="127.0.0.1") as server:
        config = tmp_path / "nginx.conf"
        config.write_text(NGINX.format(folder=tmp_path, port=port, address=server.http_address))
        with (
            running("nginx", "-c", str(config), "-e", str(tmp_path / "error"), port=port),
            httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.77")) as client,
        ):
            # What the client writes itself has no effect.
            assert ask(f"http://127.0.0.1:{port}", forwarded("6.6.6.6"), client)[0] == "127.0.0.77"
