"""Event streams that are resumed after a lost connection, taken over, cancelled, and dropped without a reader."""

from __future__ import annotations

import hashlib
import json
import random
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI

from certificates import Files
from http_by_hand import connect, metric_at
from penstock import EventStream, Request, Response, Server, Threads, model, openai
from waiting import PATIENCE, Gate, until

UNKNOWN = "unknown stream: it has ended and is no longer kept, or belongs to another client"
COUNT = "/v2/models/count/generate_stream"
FORMS = {
    "generate": (COUNT, {"n": "N"}),
    "infer": (
        "/v2/models/count/versions/1/infer_stream",
        {"inputs": [{"name": "n", "datatype": "BYTES", "shape": [], "data": ["N"]}]},
    ),
    "plain": ("/models/count", {"n": "N"}),
    "raw": ("/numbers", "N"),
    "completion": ("/v1/completions", {"model": "count", "prompt": "N", "stream": True}),
}
"""Path and body of each form of event stream."""


@model(instances=Threads(4))
def count(n: str) -> Iterator[str]:
    for number in range(int(n)):
        if number % 5 == 4:
            # So that it still runs when its client drops the connection.
            time.sleep(0.001)
        yield f"<{number}>"


@model(routes=["POST /numbers"], instances=Threads(4))
def numbers(request: Request) -> Iterator[Any]:
    yield EventStream()
    # Events of several lines, cut anywhere.
    text = "".join(f"event: x\r\ndata: <{n}>\r\n\r\n" for n in range(int(json.loads(request.body))))
    for start in range(0, len(text), 7):
        if start % 105 == 98:
            time.sleep(0.001)
        yield text[start : start + 7]


@contextmanager
def serving(*models: Any, **options: Any) -> Iterator[Server]:
    settings: dict[str, Any] = {"http": "127.0.0.1:0", "grpc": None, "stream_resume": "60s", **options}
    with Server(*models, **settings) as server:
        yield server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(count, numbers, openai.routes(openai.Completions(count))) as server:
        yield server


class Reader:
    """A client that reads a stream over connections which it drops: what it has received, and the last id."""

    def __init__(self, server: Server, path: str, body: bytes) -> None:
        self.server, self.path, self.body = server, path, body
        self.text, self.last_id, self.status, self.connections = "", "", 0, 0

    def read(self, most: int | None = None) -> bool:
        """Reads at most so many bytes of the body, then drops the connection. Returns true at the end of the stream."""
        self.connections += 1
        head = f"POST {self.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(self.body)}\r\n"
        head += f"Last-Event-ID: {self.last_id}\r\n" if self.last_id else ""
        received = ""
        with closing(connect(self.server.http_url)) as sock, sock.makefile("rb") as file:
            sock.sendall(f"{head}\r\n".encode() + self.body)
            self.status = int(file.readline().split()[1])
            while file.readline().strip():
                pass
            if self.status != 200:
                return True
            ended = False
            while most is None or len(received) < most:
                size = int(file.readline(), 16)
                if size == 0:
                    ended = True
                    break
                received += file.read(size + 2)[:-2].decode()
        received = received if most is None or ended else received[:most]
        # A client has complete events only.
        events = re.split(r"(?<=\n\n)|(?<=\n\r\n)", received)
        for event in events[:-1]:
            self.text += event
            if found := re.search(r"^id: (\S+)\r?$", event, re.MULTILINE):
                self.last_id = found[1]
        return ended

    @property
    def numbers(self) -> list[int]:
        return [int(number) for number in re.findall(r"<(\d+)>", self.text)]


def body_of(form: str, n: int) -> tuple[str, bytes]:
    path, body = FORMS[form]
    return path, json.dumps(body).replace("N", str(n)).encode()


@pytest.mark.parametrize("form", FORMS)
def test_each_event_has_an_id_and_the_first_the_retry_time(form: str, server: Server) -> None:
    path, body = body_of(form, 3)
    response = httpx.post(server.http_url + path, content=body)
    token = response.headers["x-stream-id"]
    assert re.fullmatch("[0-9a-f]{32}", token)
    assert response.text.startswith(f"retry: 1000\nid: {token}-1\n")
    ids = re.findall(r"^id: (\S+)$", response.text, re.MULTILINE)
    assert ids == [f"{token}-{number}" for number in range(1, len(ids) + 1)]
    assert [int(number) for number in re.findall(r"<(\d+)>", response.text)] == [0, 1, 2]
    other = httpx.post(server.http_url + path, content=body)
    assert other.headers["x-stream-id"] != token


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_client_that_drops_at_random_points_gets_each_event_once(form: str, seed: int, server: Server) -> None:
    chance = random.Random(f"{form} {seed}")
    path, body = body_of(form, 300)
    reader = Reader(server, path, body)
    # The body has no meaning when a stream is resumed.
    while not reader.read(chance.randrange(200, 4000)):
        reader.body = b"anything" if reader.last_id else body
        if not reader.last_id:
            reader.text = ""
    assert reader.status == 200
    assert reader.numbers == list(range(300))
    assert reader.connections > 5


def test_many_clients_that_drop_at_once_get_each_event_once(server: Server) -> None:
    def run(seed: int) -> list[int]:
        chance = random.Random(seed)
        path, body = body_of(chance.choice(list(FORMS)), 300)
        reader = Reader(server, path, body)
        while not reader.read(chance.randrange(400, 9000)):
            if not reader.last_id:
                reader.text = ""
        return reader.numbers

    with ThreadPoolExecutor(16) as pool:
        for numbers_read in pool.map(run, range(48)):
            assert numbers_read == list(range(300))


def test_event_source_resumes_by_get(server: Server) -> None:
    for form in ("generate", "raw"):
        path, body = body_of(form, 3)
        token = httpx.post(server.http_url + path, content=body).headers["x-stream-id"]
        resumed = httpx.get(server.http_url + path, headers={"Last-Event-ID": f"{token}-1"})
        assert (resumed.status_code, resumed.headers["x-stream-id"]) == (200, token)
        assert re.findall(r"<(\d+)>", resumed.text) == ["1", "2"]
        # A resumption from the last event has nothing, and from before the first one all.
        assert httpx.get(server.http_url + path, headers={"Last-Event-ID": f"{token}-3"}).text == ""
        assert (
            len(re.findall(r"<(\d+)>", httpx.get(server.http_url + path, headers={"Last-Event-ID": f"{token}-0"}).text))
            == 3
        )


def test_unknown_events_are_refused(server: Server) -> None:
    path, body = body_of("generate", 3)
    token = httpx.post(server.http_url + path, content=body).headers["x-stream-id"]

    def resumed(path: str, last_id: str, method: str = "POST") -> tuple[int, str]:
        response = httpx.request(method, server.http_url + path, content=body, headers={"Last-Event-ID": last_id})
        return response.status_code, response.json()["error"]

    assert resumed(path, f"{'0' * 32}-1") == (404, UNKNOWN)
    assert resumed("/numbers", f"{token}-1") == (404, UNKNOWN)
    assert resumed("/v2/models/other/generate_stream", f"{token}-1") == (404, UNKNOWN)
    assert resumed(path, f"{token}-9") == (400, "Last-Event-ID names event 9, the stream has 3 events so far")
    # Other ids are the handler's, or of another server's form: the request begins anew.
    for other in ("7", f"{token}", f"{token}-x"):
        response = httpx.post(server.http_url + path, content=body, headers={"Last-Event-ID": other})
        assert response.headers["x-stream-id"] != token
    # Paths without streams have no use for the header.
    assert httpx.get(f"{server.http_url}/v2/health/live", headers={"Last-Event-ID": f"{token}-1"}).status_code == 200


def test_events_beyond_the_bound_are_refused() -> None:
    with serving(count) as server:
        path, body = body_of("generate", 3000)
        token = httpx.post(server.http_url + path, content=body).headers["x-stream-id"]
        url, last = server.http_url + path, {"Last-Event-ID": f"{token}-1"}
        refused = httpx.post(url, headers=last)
        assert refused.status_code == 404
        first = re.fullmatch(
            r"the events after number 1 are no longer kept, the first one that is has number (\d+)",
            refused.json()["error"],
        )
        assert first
        assert int(first[1]) > 3000 - 1025
        resumed = httpx.post(url, headers={"Last-Event-ID": f"{token}-{int(first[1]) - 1}"})
        assert re.findall(r"<(\d+)>", resumed.text) == [str(n) for n in range(int(first[1]) - 1, 3000)]


class Watched:
    """A model whose stream waits at a gate after its first event, and knows when its generator ended."""

    def __init__(self, pieces: int = 3, size: int = 1) -> None:
        self.gate, self.closed, self.yielded = Gate(), threading.Event(), 0
        watched = self

        @model(instances=Threads(2))
        def held(text: str) -> Iterator[str]:
            try:
                for number in range(pieces):
                    watched.yielded = number + 1
                    yield f"<{number}>" + "." * size
                    if number == 0:
                        watched.gate.enter()
            finally:
                watched.closed.set()

        self.model = held
        self.path = "/v2/models/held/generate_stream"


@contextmanager
def begun(server: Server, watched: Watched, client: Any = httpx, **headers: str) -> Iterator[tuple[str, Iterator[str]]]:
    """A stream whose first event was read, with its token."""
    url = server.http_url + watched.path
    with client.stream("POST", url, json={"text": "a"}, headers=headers, timeout=PATIENCE) as response:
        assert response.status_code == 200, response.read()
        pieces = response.iter_text()
        assert "<0>" in next(pieces)
        yield response.headers["x-stream-id"], pieces


def resume(server: Server, watched: Watched, last_id: str, client: Any = httpx, **headers: str) -> httpx.Response:
    response: httpx.Response = client.post(
        server.http_url + watched.path, headers={"Last-Event-ID": last_id, **headers}, timeout=PATIENCE
    )
    return response


def connections(server: Server) -> float:
    # The request for the metrics has one.
    return metric_at(server.http_url, "penstock_connections") - 1


def test_stream_continues_without_a_reader_and_is_read_later() -> None:
    watched = Watched()
    with serving(watched.model) as server:
        with begun(server, watched) as (token, _):
            pass
        watched.gate.open()
        assert watched.closed.wait(PATIENCE)
        assert watched.yielded == 3
        assert re.findall(r"<(\d+)>", resume(server, watched, f"{token}-1").text) == ["1", "2"]
        # Its events are kept after that, too: the last ones may have been lost.
        assert re.findall(r"<(\d+)>", resume(server, watched, f"{token}-2").text) == ["2"]


def test_new_reader_takes_over_and_the_old_connection_ends() -> None:
    watched = Watched()
    with serving(watched.model) as server, ThreadPoolExecutor(1) as pool, begun(server, watched) as (token, pieces):
        taken = pool.submit(resume, server, watched, f"{token}-0")
        # Not the end of a complete stream.
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
        watched.gate.open()
        assert re.findall(r"<(\d+)>", taken.result(PATIENCE).text) == ["0", "1", "2"]


def test_stream_without_a_reader_is_cancelled_after_its_time() -> None:
    watched = Watched(pieces=1_000_000, size=1000)
    with serving(watched.model, stream_resume="200ms") as server:
        with begun(server, watched) as (token, _):
            pass
        watched.gate.open()
        assert watched.closed.wait(PATIENCE)
        assert watched.yielded < 1_000_000
        refused = until(lambda: found if (found := resume(server, watched, f"{token}-1")).status_code == 404 else None)
        assert refused.json() == {"error": UNKNOWN}
        until(lambda: metric_at(server.http_url, "penstock_body_bytes") == 0)
        assert metric_at(server.http_url, "penstock_abandoned_total", model="held") >= 0


def test_handler_is_paused_without_a_reader_and_memory_is_bounded() -> None:
    watched = Watched(pieces=5000, size=1000)
    with serving(watched.model) as server:
        with begun(server, watched) as (token, _):
            pass
        until(lambda: connections(server) == 0)
        watched.gate.open()
        # Unsent events have 64 KiB, and the channel to the handler 64 chunks.
        until(lambda: watched.yielded > 64)
        seen = -1
        while seen != watched.yielded:
            seen = watched.yielded
            time.sleep(0.2)
        assert seen < 500
        assert 0 < metric_at(server.http_url, "penstock_body_bytes") < 128 << 10
        text = resume(server, watched, f"{token}-1").text
        assert [int(number) for number in re.findall(r"<(\d+)>", text)] == list(range(1, 5000))
        until(lambda: metric_at(server.http_url, "penstock_body_bytes") < 300 << 10)
        assert httpx.delete(f"{server.http_url}/v2/streams/{token}").status_code == 204
        until(lambda: metric_at(server.http_url, "penstock_body_bytes") == 0)


def test_slow_reader_pauses_the_handler() -> None:
    watched = Watched(pieces=20_000, size=1000)
    watched.gate.open()
    with serving(watched.model) as server, begun(server, watched) as (_, pieces):
        seen = -1
        while seen != watched.yielded:
            seen = watched.yielded
            time.sleep(0.2)
        assert seen < 20_000
        text = "".join(pieces)
    assert re.findall(r"<(\d+)>", text)[-1] == "19999"


def test_stream_is_cancelled_by_its_id() -> None:
    watched = Watched()
    with serving(watched.model) as server, begun(server, watched) as (token, pieces):
        url = f"{server.http_url}/v2/streams/{token}"
        assert httpx.delete(url).status_code == 204
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
        watched.gate.open()
        assert watched.closed.wait(PATIENCE)
        assert watched.yielded < 3
        for gone in (url, f"{server.http_url}/v2/streams/{'0' * 32}", f"{server.http_url}/v2/streams/x"):
            refused = httpx.delete(gone)
            assert (refused.status_code, refused.json()) == (404, {"error": UNKNOWN})
        assert resume(server, watched, f"{token}-1").status_code == 404
        other = httpx.get(url)
        assert (other.status_code, other.headers["allow"]) == (405, "DELETE")


def test_cancellation_without_resumption_is_of_an_unknown_stream() -> None:
    with serving(count, stream_resume=0) as server:
        path, body = body_of("generate", 2)
        assert "x-stream-id" not in httpx.post(server.http_url + path, content=body).headers
        assert httpx.delete(f"{server.http_url}/v2/streams/{'0' * 32}").json() == {"error": UNKNOWN}


def keys_file(path: Path) -> dict[str, str]:
    """A file of two keys; their headers by name."""
    secrets = {name: name * 32 for name in ("a", "b")}
    entries = [
        f"[[key]]\nname = '{name}'\nsha256 = '{hashlib.sha256(key.encode()).hexdigest()}'\n"
        for name, key in secrets.items()
    ]
    path.write_text("\n".join(entries))
    path.chmod(0o600)
    return secrets


def test_stream_belongs_to_its_key(tmp_path: Path) -> None:
    watched, path = Watched(), tmp_path / "keys.toml"
    keys = keys_file(path)
    with serving(watched.model, keys_file=str(path)) as server:
        with begun(server, watched, **{"x-api-key": keys["a"]}) as (token, _):
            pass
        other = {"x-api-key": keys["b"]}
        for last_id in (f"{token}-1", f"{'0' * 32}-1"):
            refused = resume(server, watched, last_id, **other)
            assert (refused.status_code, refused.json()) == (404, {"error": UNKNOWN})
        cancel = f"{server.http_url}/v2/streams/{token}"
        assert httpx.delete(cancel, headers=other).json() == {"error": UNKNOWN}
        assert resume(server, watched, f"{token}-1").status_code == 401
        watched.gate.open()
        resumed = resume(server, watched, f"{token}-1", **{"x-api-key": keys["a"]})
        assert re.findall(r"<(\d+)>", resumed.text) == ["1", "2"]
        assert httpx.delete(cancel, headers={"x-api-key": keys["a"]}).status_code == 204


def test_stream_belongs_to_its_client_certificate(tmp_path: Path) -> None:
    watched, files = Watched(), Files(tmp_path)
    certificate, key = files.issue("server", "localhost", "127.0.0.1")
    tls = {"tls_certificate": certificate, "tls_key": key, "tls_client": "optional", "tls_client_ca": files.ca}
    issued = {name: files.issue(name, f"{name}.example") for name in ("a", "b")}
    contexts = {"a": files.context(*issued["a"]), "b": files.context(*issued["b"]), "none": files.context()}
    with serving(watched.model, **tls) as server:
        clients = {name: httpx.Client(verify=context) for name, context in contexts.items()}
        with begun(server, watched, clients["a"]) as (token, _):
            pass
        for other in ("b", "none"):
            refused = resume(server, watched, f"{token}-1", clients[other])
            assert (refused.status_code, refused.json()) == (404, {"error": UNKNOWN})
        watched.gate.open()
        # Another connection of the same client.
        with httpx.Client(verify=files.context(*issued["a"])) as again:
            resumed = resume(server, watched, f"{token}-1", again)
        assert re.findall(r"<(\d+)>", resumed.text) == ["1", "2"]
        for client in clients.values():
            client.close()


def test_restricted_access_covers_resumption() -> None:
    with serving(count, restricted_access="inference:secret=hush") as server:
        path, body = body_of("generate", 2)
        secret = {"secret": "hush"}
        token = httpx.post(server.http_url + path, content=body, headers=secret).headers["x-stream-id"]
        for headers, status in ((secret, 200), ({}, 403)):
            last = {"Last-Event-ID": f"{token}-1", **headers}
            assert httpx.get(server.http_url + path, headers=last).status_code == status
        assert httpx.delete(f"{server.http_url}/v2/streams/{token}").status_code == 403


def test_failed_stream_is_not_taken_for_a_complete_one() -> None:
    go = threading.Event()

    @model(routes=["GET /fails"])
    def fails(request: Request) -> Iterator[Any]:
        yield Response("data: <0>\n\n", content_type="text/event-stream")
        assert go.wait(PATIENCE)
        raise RuntimeError("an error of the test")

    with serving(fails) as server, httpx.stream("GET", f"{server.http_url}/fails", timeout=PATIENCE) as response:
        pieces = response.iter_text()
        assert "<0>" in next(pieces)
        go.set()
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
        last = {"Last-Event-ID": f"{response.headers['x-stream-id']}-1"}
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(f"{server.http_url}/fails", headers=last)


def test_event_without_an_end_is_cut() -> None:
    closed = threading.Event()

    @model(routes=["GET /endless"])
    def endless(request: Request) -> Iterator[Any]:
        try:
            yield EventStream()
            while True:
                yield "data: " + "." * 1000
        finally:
            closed.set()

    with serving(endless, max_body_bytes="64KiB") as server:
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(f"{server.http_url}/endless", timeout=PATIENCE)
        assert closed.wait(PATIENCE)


def test_ids_of_a_handler_are_kept() -> None:
    @model(routes=["GET /own"])
    def own(request: Request) -> Iterator[Any]:
        begin = int(request.headers.get("last-event-id", "0"))
        yield EventStream()
        for number in range(begin, begin + 2):
            yield f"data: <{number}>\nid: {number + 1}\n\n"

    with serving(own) as server:
        text = httpx.get(f"{server.http_url}/own").text
        # Of several ids of an event, the last one counts.
        assert [event.strip().splitlines()[-1] for event in text.split("\n\n")[:-1]] == ["id: 1", "id: 2"]
        assert "<2>" in httpx.get(f"{server.http_url}/own", headers={"Last-Event-ID": "2"}).text


def test_streams_without_a_reader_do_not_delay_a_drain() -> None:
    watched = Watched()
    server = Server(watched.model, http="127.0.0.1:0", grpc=None, stream_resume="1h", drain_timeout="1h").start()
    with begun(server, watched) as (token, _):
        pass
    until(lambda: connections(server) == 0)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    until(lambda: is_refused(server, watched, token))
    # The generator is closed at its next step.
    watched.gate.open()
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    assert watched.closed.is_set()
    assert watched.yielded < 3


def test_stream_that_is_read_ends_before_the_drain() -> None:
    watched = Watched()
    server = Server(watched.model, http="127.0.0.1:0", grpc=None, stream_resume="1h", drain_timeout="1h").start()
    with begun(server, watched) as (token, pieces):
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        until(lambda: is_refused(server, watched, token))
        watched.gate.open()
        assert re.findall(r"<(\d+)>", "".join(pieces)) == ["1", "2"]
    stopping.join(PATIENCE)
    assert not stopping.is_alive()


def is_refused(server: Server, watched: Watched, token: str) -> bool:
    """True once the server takes no new connections, or answers 503 on them."""
    try:
        # An id that takes nothing over.
        return resume(server, watched, f"{'0' * 32}-1").status_code == 503
    except httpx.TransportError:
        return True


def test_official_client_reads_streams_with_ids(server: Server) -> None:
    client = OpenAI(base_url=f"{server.http_url}/v1", api_key="-", max_retries=0, timeout=PATIENCE)
    with client:
        events = client.completions.create(model="count", prompt="50", stream=True)
        assert "".join(event.choices[0].text for event in events) == "".join(f"<{n}>" for n in range(50))
