"""Export of spans over TLS and gRPC, to servers of OpenSSL and gRPC's C core."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
import trustme
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc

from certificates import Files
from collector import collecting
from http_by_hand import infer, metric_at
from penstock import ConfigError, Server, Tensor, model
from waiting import until

X = {"x": np.ones(2, np.float32)}


@model(inputs=[Tensor("x", np.float32, [-1])], outputs=[Tensor("y", np.float32, [-1])])
def same(x: Any) -> Any:
    return x


class CollectorFiles(NamedTuple):
    """PEM files of an authority, of the collector, and of the server's client certificate."""

    ca: str
    certificate: str
    key: str
    client_certificate: str
    client_key: str


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CollectorFiles:
    files = Files(tmp_path_factory.mktemp("tls"))
    return CollectorFiles(files.ca, *files.issue("own", "localhost"), *files.issue("client", "penstock"))


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_TRACES_SAMPLER"):
        monkeypatch.delenv(name, raising=False)


class TraceService(trace_service_pb2_grpc.TraceServiceServicer):
    """A collector over gRPC: names of spans, metadata and peers of exports."""

    def __init__(self) -> None:
        self.spans: list[str] = []
        self.metadata: list[dict[str, str]] = []
        self.peers: set[str] = set()
        self.certificates: list[Any] = []
        self.refusals: list[grpc.StatusCode] = []

    def Export(self, request: Any, context: Any) -> Any:
        self.metadata.append(dict(context.invocation_metadata()))
        self.peers.add(context.peer())
        self.certificates.append(context.auth_context().get("x509_common_name") or context.auth_context())
        if self.refusals:
            context.abort(self.refusals.pop(0), "no")
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans += [span.name for span in scope.spans]
        return pb.ExportTraceServiceResponse()


@contextmanager
def grpc_collector(
    files: CollectorFiles | None = None, *, wants_certificate: bool = False
) -> Iterator[tuple[TraceService, int]]:
    service = TraceService()
    server = grpc.server(ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(service, server)
    if files is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        key, chain, ca = (Path(name).read_bytes() for name in (files.key, files.certificate, files.ca))
        credentials = grpc.ssl_server_credentials([(key, chain)], ca, wants_certificate)
        port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield service, port
    finally:
        server.stop(0).wait()


def serving(endpoint: str, **settings: Any) -> Server:
    return Server(same, http="127.0.0.1:0", grpc=None, otlp_endpoint=endpoint, **settings)


def test_spans_arrive_over_grpc() -> None:
    with grpc_collector() as (service, port), serving(f"grpc://127.0.0.1:{port}", otlp_headers="x-a=b%20c") as server:
        for _ in range(2):
            count = len(service.spans)
            infer(server.http_url, "same", X)
            until(lambda count=count: len(service.spans) > count, "another export")
        assert "infer same" in service.spans
        assert service.metadata[0]["x-a"] == "b c"
        # The connection is kept.
        assert len(service.peers) == 1
        assert metric_at(server.http_url, "penstock_spans_dropped_total") == 0


def test_export_over_grpc_is_retried_or_dropped_by_its_code(capfd: pytest.CaptureFixture[str]) -> None:
    with grpc_collector() as (service, port), serving(f"grpc://127.0.0.1:{port}") as server:
        service.refusals = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED]
        infer(server.http_url, "same", X)
        until(lambda: "infer same" in service.spans, "the span after two refusals")
        assert metric_at(server.http_url, "penstock_spans_dropped_total") == 0
        service.refusals = [grpc.StatusCode.PERMISSION_DENIED]
        infer(server.http_url, "same", X)
        until(lambda: metric_at(server.http_url, "penstock_spans_dropped_total") > 0, "dropped spans")
        assert service.refusals == []
    assert f"spans do not reach grpc://127.0.0.1:{port}: it answers with gRPC code 7" in capfd.readouterr().err


def test_lost_connection_is_replaced() -> None:
    with grpc_collector() as (service, port), serving(f"grpc://127.0.0.1:{port}") as server:
        infer(server.http_url, "same", X)
        until(lambda: service.spans, "the first export")
    with collecting() as collector, serving(collector.url) as server:
        # This one closes the connection after each response.
        for count in (1, 2):
            infer(server.http_url, "same", X)
            collector.named("infer same", count)
        assert metric_at(server.http_url, "penstock_spans_dropped_total") == 0


@pytest.mark.parametrize("wants_certificate", [False, True])
def test_spans_arrive_over_grpc_and_tls(files: CollectorFiles, wants_certificate: bool) -> None:
    own = {"otlp_certificate": files.client_certificate, "otlp_key": files.client_key} if wants_certificate else {}
    with (
        grpc_collector(files, wants_certificate=wants_certificate) as (service, port),
        serving(f"grpcs://localhost:{port}", otlp_ca=files.ca, **own) as server,
    ):
        infer(server.http_url, "same", X)
        until(lambda: "infer same" in service.spans, "the span")


def test_variables_choose_grpc_and_tls(files: CollectorFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    with grpc_collector(files, wants_certificate=True) as (service, port):
        for name, value in {
            "ENDPOINT": f"https://localhost:{port}",
            "PROTOCOL": "grpc",
            "CERTIFICATE": files.ca,
            "CLIENT_CERTIFICATE": files.client_certificate,
            "CLIENT_KEY": files.client_key,
            "HEADERS": "api-key=secret",
        }.items():
            monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}", value)
        with serving("auto") as server:
            infer(server.http_url, "same", X)
            until(lambda: "infer same" in service.spans, "the span")
        assert service.metadata[0]["api-key"] == "secret"


def test_spans_arrive_over_https(files: CollectorFiles) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    with (
        collecting(context) as collector,
        serving(collector.url.replace("127.0.0.1", "localhost"), otlp_ca=files.ca) as server,
    ):
        infer(server.http_url, "same", X)
        collector.one("infer same")


def test_untrusted_collector_gets_no_spans(
    files: CollectorFiles, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    with grpc_collector(files) as (service, port):
        for ca, host, problem in [
            (str(tmp_path / "other.pem"), "localhost", "invalid peer certificate: UnknownIssuer"),
            (files.ca, "127.0.0.1", "invalid peer certificate: certificate not valid for name"),
        ]:
            with serving(f"grpcs://{host}:{port}", otlp_ca=ca) as server:
                infer(server.http_url, "same", X)
                until(lambda url=server.http_url: metric_at(url, "penstock_spans_dropped_total") > 0, "dropped spans")
            assert problem in capfd.readouterr().err
        assert service.spans == []


def test_plain_collector_is_not_a_substitute_for_tls(capfd: pytest.CaptureFixture[str], files: CollectorFiles) -> None:
    with grpc_collector() as (service, port), serving(f"grpcs://localhost:{port}", otlp_ca=files.ca) as server:
        infer(server.http_url, "same", X)
        until(lambda: metric_at(server.http_url, "penstock_spans_dropped_total") > 0, "dropped spans")
        assert service.spans == []
    assert f"spans do not reach grpcs://localhost:{port}: " in capfd.readouterr().err


@pytest.mark.parametrize("name", ["otlp_ca", "otlp_certificate"])
def test_unreadable_file_ends_the_start(name: str, files: CollectorFiles, tmp_path: Path) -> None:
    given = {"otlp_ca": files.ca, "otlp_certificate": files.client_certificate, "otlp_key": files.client_key}
    missing = str(tmp_path / "missing.pem")
    server = serving("grpcs://localhost:1", **{**given, name: missing})
    with pytest.raises(ConfigError, match=rf"^{name}: '{missing}' cannot be read: "):
        server.start()
