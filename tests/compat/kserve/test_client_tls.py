"""R6: client certificates, checked by servers."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import httpx
import pytest
import trustme

from penstock.compat.kserve.inference_client import (
    InferenceGRPCClient,
    InferenceRESTClient,
    InferenceServerClient,
    RESTConfig,
)
from penstock.compat.kserve.protocol.infer_type import InferRequest


class Files(NamedTuple):
    authority: str
    certificate: str
    key: str
    both: str


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def files(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("tls")
    files = Files(*(str(folder / name) for name in ("ca.pem", "client.pem", "client.key", "both.pem")))
    client = authority.issue_cert("client@models.test")
    authority.cert_pem.write_to_path(files.authority)
    client.cert_chain_pems[0].write_to_path(files.certificate)
    client.private_key_pem.write_to_path(files.key)
    client.private_key_and_cert_chain_pem.write_to_path(files.both)
    return files


@pytest.fixture(scope="module")
def url(authority: trustme.CA) -> Iterator[str]:
    """Starts a TLS server that requires client certificates."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"status":"alive"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """Ignores handshakes that fail on purpose."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    server = Quiet(("127.0.0.1", 0), Handler)
    # Each connection's own thread performs the handshake.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


def is_live(url: str, **options: Any) -> bool:
    async def check() -> bool:
        async with InferenceRESTClient(RESTConfig(retries=0, **options)) as client:
            return await client.is_server_live(url)

    return asyncio.run(check())


def test_r6_rest_client_certificates_are_used(url: str, files: Files) -> None:
    assert is_live(url, verify=files.authority, cert=(files.certificate, files.key))
    assert is_live(url, verify=files.authority, cert=files.both)
    assert is_live(url, verify=files.authority, cert=(files.certificate, files.key, None))
    assert is_live(url, verify=False, cert=(files.certificate, files.key))
    assert is_live(url, verify=files.authority, cert=(files.certificate, files.key, "not needed"))


def test_r6_rest_ssl_context_is_used(url: str, files: Files) -> None:
    context = ssl.create_default_context(cafile=files.authority)
    context.load_cert_chain(files.certificate, files.key)
    assert is_live(url, verify=context)


def test_r6_rest_unknown_certificate_authorities_are_not_trusted(url: str, files: Files, tmp_path: Path) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    with pytest.raises(httpx.ConnectError, match="cannot connect to https://localhost"):
        is_live(url, verify=str(tmp_path / "other.pem"), cert=(files.certificate, files.key))
    # Without a client certificate the server refuses; with TLS 1.3 only after the request.
    with pytest.raises(httpx.TransportError):
        is_live(url, verify=files.authority)


@pytest.fixture(scope="module")
def address(authority: trustme.CA) -> Iterator[str]:
    """Starts a gRPC server that requires client certificates and reports everything as ready."""

    class Ready(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(lambda *_: b"\x08\x01")

    own = authority.issue_cert("localhost")
    pair = (own.private_key_pem.bytes(), own.cert_chain_pems[0].bytes())
    credentials = grpc.ssl_server_credentials([pair], authority.cert_pem.bytes(), require_client_auth=True)
    server = grpc.server(ThreadPoolExecutor(2), handlers=[Ready()])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    yield f"localhost:{port}"
    server.stop(None).wait()


def test_r6_grpc_client_certificates_are_used(address: str, files: Files) -> None:
    paths = {"root_certificates": files.authority, "private_key": files.key, "certificate_chain": files.certificate}
    contents = [Path(path).read_bytes() for path in (files.authority, files.key, files.certificate)]

    async def is_live(address: str, **options: Any) -> bool:
        async with InferenceGRPCClient(address, retries=0, timeout=20, **options) as client:
            return await client.is_server_live()

    assert asyncio.run(is_live(address, use_ssl=True, **paths))
    assert asyncio.run(is_live(address, creds=grpc.ssl_channel_credentials(*contents)))
    target_override = [("grpc.ssl_target_name_override", "localhost")]
    assert asyncio.run(
        is_live(address.replace("localhost", "127.0.0.1"), use_ssl=True, channel_args=target_override, **paths)
    )
    with pytest.raises(grpc.RpcError) as caught:
        asyncio.run(is_live(address, use_ssl=True, root_certificates=files.authority))
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_r6_synchronous_client_certificates_are_used(address: str, files: Files) -> None:
    paths = {"root_certificates": files.authority, "private_key": files.key, "certificate_chain": files.certificate}
    with InferenceServerClient(address, ssl=True, **paths) as client:
        # Any response shows that the request arrived.
        assert client.infer(InferRequest("m", [])) is not None
