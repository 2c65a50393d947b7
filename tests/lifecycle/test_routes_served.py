"""Model routes on a running server: limits, keys, disconnects, added and removed models."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from http_by_hand import connect, get, metric_at, post, read_response
from models import routed
from penstock import Processes, Request, Response, Server, SignatureError, attach, model
from waiting import PATIENCE, Gate, at_once, until

PORTS = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0"}


def named(name: str, *routes: str, **options: Any) -> Any:
    """A model whose routes respond with its name and version."""

    def handler(request: Request) -> str:
        return f"{name} {options.get('version', '1')}"

    return model(handler, name=name, routes=routes, **options)


def test_limits_apply_to_routes_before_the_body_is_read() -> None:
    with Server(routed.score, **PORTS, max_body_bytes=10) as server:
        assert post(server.http_url, "/score/a", b"0123456789").status == 200
        large = post(server.http_url, "/score/a", b"0123456789x")
        assert (large.status, large.error()) == (413, "the request's body has 11 bytes, at most 10 are accepted")
        server.set_ready("score", False, "away")
        with connect(server.http_url) as sock:
            # The body is never sent.
            sock.sendall(
                b"POST /score/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
            )
            refused = read_response(sock)
        assert (refused.status, refused.error()) == (503, "model 'score' is not ready: away")


def test_api_key_guards_routes_of_every_method() -> None:
    with Server(routed.score, **PORTS, api_key="secret") as server:
        for method in ("GET", "POST"):
            with httpx.Client(base_url=server.http_url) as client:
                assert client.request(method, "/score/a").status_code == 401
                assert client.request(method, "/score/a", headers={"Authorization": "Bearer secret"}).status_code == 200


def test_deadline_and_full_queue_apply_to_routes() -> None:
    gate = Gate()
    slow = routed.gated(gate).with_options(max_queue=1)
    with Server(slow, **PORTS) as server:
        first, *_ = at_once([lambda: post(server.http_url, "/gated", b"")])
        gate.await_entered()
        late = post(server.http_url, "/gated", b"", {"grpc-timeout": "20m"})
        assert (late.status, late.error()) == (504, "model 'gated' did not answer within the deadline")
        wrong = post(server.http_url, "/gated", b"", {"grpc-timeout": "soon"})
        assert wrong.status == 400
        at_once([lambda: post(server.http_url, "/gated", b"")])
        until(lambda: metric_at(server.http_url, "penstock_queue_depth", model="gated") >= 1)
        full = post(server.http_url, "/gated", b"")
        assert (full.status, full.headers["retry-after"]) == (429, "1")
        gate.open()
        assert first.result().body == b"through"


def test_client_disconnect_cancels_the_handler() -> None:
    gate, disconnected = Gate(), Gate()
    disconnected.open()
    with Server(routed.gated(gate, disconnected), **PORTS) as server:
        with connect(server.http_url) as sock:
            sock.sendall(b"POST /gated HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            gate.await_entered()
        until(lambda: metric_at(server.http_url, "penstock_in_flight", model="gated") == 0)
        gate.open()
        disconnected.await_entered()


def test_client_disconnect_ends_the_stream() -> None:
    ended = threading.Event()

    @model(name="endless", routes=["GET /endless"])
    def endless(request: Request) -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 1000
        finally:
            ended.set()

    with Server(endless, **PORTS) as server:
        with connect(server.http_url) as sock:
            sock.sendall(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert sock.recv(100)
        assert ended.wait(PATIENCE)
        # A response to HEAD ends with its head.
        ended.clear()
        assert httpx.head(f"{server.http_url}/endless").status_code == 200
        assert ended.wait(PATIENCE)


def test_slow_reader_pauses_the_handler() -> None:
    produced = 0
    block = b"x" * (1 << 16)
    total = 400

    @model(name="fast", routes=["GET /fast"])
    def fast(request: Request) -> Iterator[bytes]:
        nonlocal produced
        for _ in range(total):
            produced += 1
            yield block

    with Server(fast, **PORTS) as server, connect(server.http_url) as sock:
        sock.sendall(b"GET /fast HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        produced_before = [-1]

        def stands_still() -> bool:
            produced_before.append(produced)
            return len(produced_before) > 40 and produced_before[-40] == produced_before[-1]

        until(stands_still)
        assert 0 < produced < total
        assert get(server.http_url, "/v2/health/ready").status == 200
        response = b""
        while chunk := sock.recv(1 << 20):
            response += chunk
        assert produced == total
        assert response.endswith(b"0\r\n\r\n")


def test_failed_stream_resets_its_http2_stream() -> None:
    with Server(routed.pieces, **PORTS) as server, httpx.Client(http1=False, http2=True) as client:
        with client.stream("GET", f"{server.http_url}/pieces/all") as response:
            assert (response.http_version, b"".join(response.iter_raw())) == ("HTTP/2", b"abc")
        with client.stream("GET", f"{server.http_url}/pieces/broken") as response:
            assert response.status_code == 202
            with pytest.raises(httpx.RemoteProtocolError):
                b"".join(response.iter_raw())


def test_connection_is_reusable_after_every_response() -> None:
    with Server(routed.score, routed.pieces, **PORTS) as server, httpx.Client(base_url=server.http_url) as client:
        for _ in range(3):
            assert client.post("/score/a", content=b"x").status_code == 200
            assert client.put("/score/a", content=b"x").status_code == 405
            assert client.get("/pieces/all").content == b"abc"
        assert metric_at(server.http_url, "penstock_requests_total", model="score", outcome="ok") == 3


def test_routes_are_not_on_the_grpc_port_except_a_shared_one() -> None:
    with Server(routed.score, **PORTS) as server:
        assert get(f"http://{server.grpc_url}", "/score/a").status == 415
    with Server(routed.score, http="127.0.0.1:0", grpc="same") as server:
        assert get(server.http_url, "/score/a").status == 200


def test_raw_responses_over_grpc() -> None:
    with Server(routed.answers, **PORTS) as server, InferenceServerClient(server.grpc_url) as client:
        infer_answers = lambda which: client.infer("answers", [], parameters={"which": which})  # noqa: E731
        np.testing.assert_array_equal(infer_answers("tensors").as_numpy("y"), [1.5, 2.5])
        for which, code, message in (
            ("refused", "StatusCode.INVALID_ARGUMENT", "no"),
            ("text", "StatusCode.INTERNAL", "model 'answers' answered with a body, which gRPC cannot carry"),
            ("error", "StatusCode.NOT_FOUND", "there is none"),
        ):
            with pytest.raises(InferenceServerException) as raised:
                infer_answers(which)
            assert (raised.value.status(), message in str(raised.value.message())) == (code, True)
        assert metadata(server, "tensors")["x-own"] == "1"


def metadata(server: Server, which: str) -> dict[str, str]:
    """The initial metadata of a response, uncompressed and compressed."""
    from tritonclient.grpc import service_pb2

    request = service_pb2.ModelInferRequest(model_name="answers")
    request.parameters["which"].string_param = which
    metadata_list = []
    with grpc.insecure_channel(server.grpc_url) as channel:
        call = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=service_pb2.ModelInferRequest.SerializeToString,
            response_deserializer=service_pb2.ModelInferResponse.FromString,
        )
        for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
            _, call_result = call.with_call(request, compression=compression)
            metadata_list.append({str(key): str(value) for key, value in call_result.initial_metadata()})
    assert metadata_list[0]["x-own"] == metadata_list[1]["x-own"]
    return metadata_list[0]


def test_routes_are_logged_and_counted(capfd: pytest.CaptureFixture[str]) -> None:
    log = ""
    with Server(routed.answers, **PORTS, access_log="json") as server:
        httpx.get(f"{server.http_url}/answer/created", headers={"X-Request-Id": "one"})
        httpx.get(f"{server.http_url}/answer/refused", headers={"X-Request-Id": "two"})
        count = lambda outcome: metric_at(  # noqa: E731
            server.http_url, "penstock_requests_total", model="answers", protocol="http", outcome=outcome
        )
        assert (count("ok"), count("invalid_input")) == (1, 1)

        def is_there() -> bool:
            nonlocal log
            log += capfd.readouterr().err
            return log.count("\n") >= 2

        until(is_there, "the log")
    lines = {one["id"]: one for one in map(json.loads, log.splitlines()) if "id" in one}
    assert (lines["one"]["model"], lines["one"]["status"], lines["one"]["outcome"]) == ("answers", 201, "ok")
    assert (lines["two"]["status"], lines["two"]["outcome"], lines["two"]["error"]) == (422, "invalid_input", "no")


def test_routes_are_added_and_removed_with_their_models() -> None:
    with Server(named("a", "GET /a"), **PORTS) as server:
        url = server.http_url
        server.add(named("b", "GET /b", "GET /{any}"))
        assert (get(url, "/a").body, get(url, "/b").body, get(url, "/c").body) == (b"a 1", b"b 1", b"b 1")
        with pytest.raises(SignatureError, match="models 'a' and 'c' both have the route 'GET /a'"):
            server.add(named("c", "GET /a"))
        with pytest.raises(SignatureError, match="models 'd' and 'e' both have the route 'GET /d'"):
            server.add(named("d", "GET /d"), named("e", "GET /d"))
        assert get(url, "/d").body == b"b 1"
        server.remove("b")
        assert (get(url, "/b").status, get(url, "/a").body) == (404, b"a 1")
        # A model renamed by a reload keeps its route.
        server.reload(lambda: [named("z", "GET /a", "GET /new")])
        assert (get(url, "/a").body, get(url, "/new").body) == (b"z 1", b"z 1")
        server.reload(lambda: [named("z")])
        assert get(url, "/a").status == 404


def test_highest_ready_version_with_the_route_answers() -> None:
    with Server(named("m", "GET /m", "GET /old"), named("m", "GET /m", version="2"), **PORTS) as server:
        url = server.http_url
        assert (get(url, "/m").body, get(url, "/old").body) == (b"m 2", b"m 1")
        server.set_ready("m", False, version="2")
        assert get(url, "/m").body == b"m 1"
        server.remove("m", "1")
        assert get(url, "/m").status == 503


def test_hundred_models_with_routes() -> None:
    models = [named(f"m{n}", f"POST /models/m{n}:ask", f"GET /by/m{n}/{{what}}") for n in range(100)]
    with Server(*models, **PORTS) as server, httpx.Client(base_url=server.http_url) as client:
        for n in (0, 7, 42, 99):
            assert client.post(f"/models/m{n}:ask").content == f"m{n} 1".encode()
            assert client.get(f"/by/m{n}/x").content == f"m{n} 1".encode()
        assert client.get("/by/m100/x").status_code == 404


def test_models_change_while_routes_are_requested() -> None:
    stop = threading.Event()
    count = 0
    produced_before: set[tuple[int, bytes]] = set()

    def infer_answers(url: str) -> None:
        nonlocal count
        with httpx.Client(base_url=url) as client:
            while not stop.is_set():
                response = client.get("/stays")
                produced_before.add((response.status_code, response.content))
                assert client.get("/comes").status_code in (200, 404)
                count += 1

    with Server(named("stays", "GET /stays"), **PORTS) as server:
        asking = at_once([lambda: infer_answers(server.http_url)] * 4)
        for _ in range(10):
            before = count
            server.add(named("comes", "GET /comes"))
            server.add(named("stays", "GET /stays"), replace=True)
            server.remove("comes")
            until(lambda before=before: count > before)  # type: ignore[misc]
        stop.set()
        for one in asking:
            one.result()
    assert produced_before == {(200, b"stays 1")}


def test_attached_models_have_routes(tmp_path: Path) -> None:
    place = f"unix:{tmp_path}/attach.sock"
    with Server(named("own", "GET /own"), **PORTS, attach=place) as server:
        url = server.http_url
        with attach(place, routed.score, routed.pieces):
            assert post(url, "/score/anna", b"x").json()["parts"] == {"customer": "anna"}
            assert httpx.get(f"{url}/pieces/all").content == b"abc"
            assert post(url, "/v2/models/score/infer", b'{"inputs": []}').status == 200
            with pytest.raises(SignatureError, match="both have the route 'GET /own'"):
                attach(place, named("other", "GET /own"))
        assert post(url, "/score/anna", b"x").status == 404
        assert get(url, "/own").body == b"own 1"


def test_models_in_processes_have_routes() -> None:
    with Server(routed.score.with_options(instances=Processes(1)), **PORTS) as server:
        document = post(server.http_url, "/score/anna?q", b"\x00\xff").json()
        assert (document["parts"], document["body"], document["query"]) == ({"customer": "anna"}, "\x00\xff", "q")


def test_drain_finishes_routed_requests() -> None:
    gate = Gate()
    server = Server(routed.gated(gate), **PORTS).start()
    url = server.http_url
    (response,) = at_once([lambda: post(url, "/gated", b"")])
    gate.await_entered()
    (stopping,) = at_once([server.stop])
    # New requests are refused, after a moment when connections are closed at once.
    refused = until(
        lambda: other if (other := post(url, "/gated", b"", {"grpc-timeout": "1m"})).status == 503 else None
    )
    assert refused.error() == "the server is shutting down"
    assert not response.done()
    gate.open()
    assert response.result().body == b"through"
    assert stopping.result() == []


def test_banner_and_docs_page_list_routes() -> None:
    from penstock._serve.banner import describe

    with Server(routed.score, **PORTS) as server:
        text = describe(server, [routed.score])
        assert "any, POST /score/{customer}, GET /score/{customer}, and 1 more  any " in text
        assert f"try   curl -s -X POST '{server.http_url}/score/{{customer}}' -d '{{}}'" in text
        described = get(server.http_url, "/openapi.json").json()
        assert described["paths"]["/score/{customer}"]["post"]["tags"] == ["routes of models"]
        assert described["paths"]["/files/{path}"]["get"]["parameters"][0]["name"] == "path"
        about = described["paths"]["/v2/models/score/infer"]["post"]["x-penstock"]
        assert (about["open"], about["inputs"], len(about["routes"])) == (True, [], 3)


def test_model_without_routes_serves_only_inference() -> None:
    def own(request: Request) -> Response:
        return Response(outputs={"y": [1]})

    with Server(model(own, name="own"), **PORTS) as server:
        assert get(server.http_url, "/own").json() == {"error": "Not Found"}
        assert post(server.http_url, "/v2/models/own/infer", b'{"inputs": []}').status == 200
