"""TLS: certificates by name, client certificates, reload, refusals."""

from __future__ import annotations

import datetime
import http.client
import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tritonclient.grpc import service_pb2, service_pb2_grpc

from certificates import Files
from http_by_hand import json_body
from penstock import Client, ConfigError, Server, Tensor, model
from serving_process import Serving
from waiting import until

BODY = json_body({"x": np.zeros(4, np.float32)})
CALL = service_pb2.ModelInferRequest(
    model_name="same",
    inputs=[{"name": "x", "datatype": "FP32", "shape": [1], "contents": {"fp32_contents": [1.0]}}],
)


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
def same(x: Any) -> Any:
    return x


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def options(files: Files) -> dict[str, Any]:
    certificate, key = files.issue("server", "localhost", "127.0.0.1")
    return {"tls_certificate": certificate, "tls_key": key, "http": "127.0.0.1:0", "grpc": "127.0.0.1:0"}


@pytest.fixture
def server(options: dict[str, Any]) -> Iterator[Server]:
    with Server(same, **options) as server:
        yield server


def port(address: str | None) -> int:
    assert address
    return int(address.rpartition(":")[2])


def peer(address: str | None, context: ssl.SSLContext, name: str = "localhost") -> ssl.SSLSocket:
    """A connection to an address."""
    raw = socket.create_connection(("127.0.0.1", port(address)), timeout=20)
    return context.wrap_socket(raw, server_hostname=name)


def names(address: str | None, context: ssl.SSLContext, name: str) -> set[str]:
    """The names of the certificate that a client gets which asks for a name."""
    context.check_hostname = False
    with peer(address, context, name) as sock:
        certificate = sock.getpeercert()
        assert certificate
        return {str(value) for _, value in certificate["subjectAltName"]}


def infer(server: Server, context: ssl.SSLContext) -> int:
    address = ("localhost", port(server.http_address))
    with closing(http.client.HTTPSConnection(*address, context=context, timeout=20)) as connection:
        connection.request("POST", "/v2/models/same/infer", BODY)
        return connection.getresponse().status


def plain_get(address: str | None, path: str) -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port(address), timeout=20)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_clients_of_other_products_call_over_tls(server: Server, files: Files) -> None:
    assert server.http_url.startswith("https://127.0.0.1:")
    assert infer(server, files.context()) == 200
    curl = ["curl", "-s", "--cacert", files.ca, f"https://localhost:{port(server.http_address)}/v2/health/live"]
    for version in ("--http1.1", "--http2"):
        shown = subprocess.run([*curl, version, "-w", " %{http_version}"], capture_output=True, text=True, check=True)
        assert shown.stdout == f'{{"live":true}} {"2" if version == "--http2" else "1.1"}'
    tensor = np.ones(4, np.float32)
    for library, address, extra in (
        (triton_http, server.http_address, {"ssl_options": {"ca_certs": files.ca}}),
        (triton_grpc, server.grpc_address, {"root_certificates": files.ca}),
    ):
        with library.InferenceServerClient(f"localhost:{port(address)}", ssl=True, **extra) as client:
            given = library.InferInput("x", [4], "FP32")
            given.set_data_from_numpy(tensor)
            assert (client.infer("same", [given]).as_numpy("y") == tensor).all()
    for url in (f"https://localhost:{port(server.http_address)}", f"grpcs://localhost:{port(server.grpc_address)}"):
        with Client(url, ca_file=files.ca) as own:
            assert (own.infer("same", x=tensor).value == tensor).all()


def test_addresses_offer_their_protocols(server: Server, files: Files) -> None:
    for address, offered, chosen in (
        (server.http_address, ["h2", "http/1.1"], "h2"),
        (server.http_address, ["http/1.1"], "http/1.1"),
        (server.grpc_address, ["h2", "http/1.1"], "h2"),
    ):
        context = files.context()
        context.set_alpn_protocols(offered)
        with peer(address, context) as sock:
            assert sock.selected_alpn_protocol() == chosen
    context = files.context()
    context.set_alpn_protocols(["http/1.1"])
    with pytest.raises(ssl.SSLError, match="no application protocol"):
        peer(server.grpc_address, context)


@pytest.mark.parametrize("header", [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")])
def test_web_pages_cannot_imitate_grpc_over_tls(server: Server, files: Files, header: tuple[str, str]) -> None:
    root = grpc.ssl_channel_credentials(Path(files.ca).read_bytes())
    with grpc.secure_channel(f"localhost:{port(server.grpc_address)}", root) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for call, message in ((stub.ServerLive, service_pb2.ServerLiveRequest()), (stub.ModelInfer, CALL)):
            assert call(message)
            with pytest.raises(grpc.RpcError) as refusal:
                call(message, metadata=[header])
            assert refusal.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert "only inference is open to web pages of other origins" in refusal.value.details()


def test_old_versions_are_refused(options: dict[str, Any], files: Files) -> None:
    with Server(same, **options, tls_min_version="1.3") as server:
        context = files.context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError):
            peer(server.http_address, context)
        assert infer(server, files.context()) == 200


def test_certificate_is_chosen_by_requested_name(options: dict[str, Any], files: Files) -> None:
    for name, host in (("two", "*.b.test"), ("three", "c.test")):
        certificate, key = files.issue(name, host)
        options["tls_certificate"] = f"{options['tls_certificate']},{certificate}"
        options["tls_key"] = f"{options['tls_key']},{key}"
    with Server(same, **options) as server:
        for asked, expected in (("x.b.test", "*.b.test"), ("c.test", "c.test"), ("other.test", "localhost")):
            assert expected in names(server.http_address, files.context(), asked)


def test_plain_http_is_refused(server: Server) -> None:
    assert plain_get(server.http_address, "/v2/health/live") == (400, '{"error":"this address speaks https"}')


def test_addresses_can_be_left_plain(options: dict[str, Any], files: Files) -> None:
    options |= {"grpc": "plain:127.0.0.1:0", "listeners": "metrics=plain:127.0.0.1:0"}
    with Server(same, **options) as server:
        assert infer(server, files.context()) == 200
        with grpc.insecure_channel(server.grpc_url) as channel:
            assert service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(CALL).raw_output_contents
        _, exposition = plain_get(server.metrics_address, "/metrics")
    assert 'penstock_tls_handshakes_total{outcome="ok",version="1.3"} 1' in exposition
    assert 'penstock_tls_certificate_expiry_timestamp_seconds{name="server.pem"} ' in exposition


@pytest.mark.parametrize("mode", ["optional", "required"])
def test_client_certificates_are_checked(options: dict[str, Any], files: Files, mode: str) -> None:
    own, foreign = files.issue("client", "client.test"), Files(files.folder / "..").issue("foreign", "client.test")
    with Server(same, **options, tls_client=mode, tls_client_ca=files.ca) as server:
        assert infer(server, files.context(*own)) == 200
        if mode == "optional":
            assert infer(server, files.context()) == 200
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                infer(server, files.context())
        with pytest.raises((ssl.SSLError, ConnectionError)):
            infer(server, files.context(*foreign))
        key, chain = (Path(path).read_bytes() for path in (own[1], own[0]))
        credentials = grpc.ssl_channel_credentials(Path(files.ca).read_bytes(), key, chain)
        with grpc.secure_channel(f"localhost:{port(server.grpc_address)}", credentials) as channel:
            assert service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(CALL).raw_output_contents


def revocations(files: Files, certificate: str) -> str:
    """The file of a list in which a certificate of the authority is revoked."""
    key = serialization.load_pem_private_key(files.authority.private_key_pem.bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(files.authority.cert_pem.bytes())
    revoked = x509.load_pem_x509_certificate(Path(certificate).read_bytes())
    now = datetime.datetime.now(datetime.timezone.utc)
    entry = x509.RevokedCertificateBuilder().serial_number(revoked.serial_number).revocation_date(now).build()
    listed = x509.CertificateRevocationListBuilder().issuer_name(issuer.subject).add_revoked_certificate(entry)
    listed = listed.last_update(now).next_update(now + datetime.timedelta(days=1))
    listed = listed.add_extension(x509.CRLNumber(1), critical=False)
    listed = listed.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()),  # type: ignore[arg-type]
        critical=False,
    )
    path = files.path("revoked.pem")
    Path(path).write_bytes(listed.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return path


def test_revoked_client_is_refused(options: dict[str, Any], files: Files) -> None:
    good, bad = files.issue("good", "good.test"), files.issue("bad", "bad.test")
    crl = revocations(files, bad[0])
    clients = {"tls_client": "required", "tls_client_ca": files.ca, "tls_client_crl": crl}
    with Server(same, **options, **clients) as server:
        assert infer(server, files.context(*good)) == 200
        with pytest.raises((ssl.SSLError, ConnectionError)):
            infer(server, files.context(*bad))


def test_new_certificate_is_used_without_a_restart(options: dict[str, Any], files: Files) -> None:
    with Server(same, **options, tls_reload=0.1) as server, peer(server.http_address, files.context()) as old:
        files.issue("server", "new.test", "localhost")
        until(lambda: "new.test" in names(server.http_address, files.context(), "localhost"), "the new certificate")
        request = f"POST /v2/models/same/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n\r\n"
        old.sendall(request.encode() + BODY)
        assert old.recv(15) == b"HTTP/1.1 200 OK"


def test_unusable_files_leave_the_old_certificate(
    options: dict[str, Any], files: Files, capfd: pytest.CaptureFixture[str]
) -> None:
    key = Path(options["tls_key"])
    whole = key.read_bytes()
    with Server(same, **options, tls_reload=0.0) as server:
        key.write_bytes(whole[: len(whole) // 2])
        server.reload_files()
        assert infer(server, files.context()) == 200
        key.write_bytes(whole)
        server.reload_files()
        assert infer(server, files.context()) == 200
    err = capfd.readouterr().err
    assert "the certificates stay as they are: tls_key: " in err
    assert err.count("the certificates stay as they are") == 1


def test_no_call_is_lost_while_certificates_are_renewed(options: dict[str, Any], files: Files) -> None:
    failures: list[object] = []
    stop = threading.Event()
    with Server(same, **options, tls_reload=0.05) as server:
        context = files.context()
        root = grpc.ssl_channel_credentials(Path(files.ca).read_bytes())

        def call() -> None:
            while not stop.is_set():
                try:
                    assert infer(server, context) == 200
                    with grpc.secure_channel(f"localhost:{port(server.grpc_address)}", root) as channel:
                        service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(CALL, timeout=20)
                except Exception as error:
                    failures.append(error)

        callers = [threading.Thread(target=call) for _ in range(4)]
        for caller in callers:
            caller.start()
        for _ in range(20):
            files.issue("server", "localhost", "127.0.0.1")
            stop.wait(0.1)
        stop.set()
        for caller in callers:
            caller.join()
    assert failures == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tls_key": "other.key"}, r"tls_key: '\S*other.key' does not belong to the certificate '\S*server.pem'"),
        ({"tls_key": "missing.key"}, r"tls_key: '\S*missing.key' cannot be read: No such file or directory"),
        ({"tls_key": "server.pem"}, r"tls_key: '\S*server.pem' holds no private key \(PEM, 'BEGIN PRIVATE KEY'\)"),
        (
            {"tls_certificate": "server.key"},
            r"tls_certificate: '\S*server.key' holds no certificate \(PEM, 'BEGIN CERTIFICATE'\)",
        ),
        (
            {"tls_key": "encrypted.key"},
            r"tls_key: '\S*' is encrypted; decrypt it with 'openssl pkey -in \S* -out FILE'",
        ),
        (
            {"tls_client": "required", "tls_client_ca": "server.key"},
            r"tls_client_ca: '\S*server.key' holds no certificate",
        ),
    ],
)
def test_unusable_files_prevent_the_start(
    options: dict[str, Any], files: Files, change: dict[str, str], message: str
) -> None:
    files.issue("other", "other.test")
    encrypt = ["openssl", "pkey", "-in", options["tls_key"], "-aes256", "-passout", "pass:a"]
    Path(files.path("encrypted.key")).write_bytes(subprocess.run(encrypt, capture_output=True, check=True).stdout)
    paths = {name: value if name == "tls_client" else files.path(value) for name, value in change.items()}
    with pytest.raises(ConfigError, match=message):
        Server(same, **options | paths).start()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tls_key": ()}, "tls_certificate: 1 certificate and 0 keys"),
        ({"tls_certificate": ("a", "b", "c")}, "tls_certificate: 3 certificates and 1 key"),
        ({"tls_client": "required"}, "tls_client: 'required' needs tls_client_ca"),
        ({"tls_client_crl": "a"}, "tls_client_crl: has no meaning unless tls_client is optional or required"),
        ({"tls_min_version": "1.1"}, "tls_min_version: '1.1' is not one of 1.2, 1.3"),
    ],
)
def test_settings_that_contradict_are_refused(options: dict[str, Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Server(same, **options | change)


def test_warnings_and_the_printed_line(options: dict[str, Any], files: Files, tmp_path: Path) -> None:
    os.chmod(options["tls_key"], 0o644)
    (tmp_path / "app.py").write_text("import penstock\n@penstock.model\ndef double(x: int) -> int:\n    return 2 * x\n")
    arguments = ["--http", "127.0.0.1:0", "--grpc", "off"]
    for name in ("tls_certificate", "tls_key"):
        arguments += [f"--{name.replace('_', '-')}", options[name]]
    with Serving("app.py", *arguments, folder=tmp_path) as server:
        assert server.http.startswith("https://127.0.0.1:")
        with Client(server.http, ca_file=files.ca) as client:
            assert client.infer("double", x=3).json() == 6
    assert f"tls_key: '{options['tls_key']}' can be read by everyone (mode 0644)" in server.err


def test_tls_to_an_address_without_a_certificate_is_logged_once(capfd: pytest.CaptureFixture[str]) -> None:
    with Server(same, http="127.0.0.1:0", grpc="off") as server:
        host, _, port = (server.http_address or "").rpartition(":")
        for _ in range(2):
            with socket.create_connection((host, int(port)), timeout=20) as plain, pytest.raises(ssl.SSLError):
                ssl.create_default_context().wrap_socket(plain, server_hostname="localhost")
        line = f"a client spoke TLS to port {port}, which has no certificate (tls_certificate)"
        logged = [capfd.readouterr().err]

        def is_logged() -> bool:
            logged.append(capfd.readouterr().err)
            return line in "".join(logged)

        until(is_logged, "the log line")
    assert ("".join(logged) + capfd.readouterr().err).count(line) == 1
