"""Comments in silent event streams, in each form of stream: before the first event, between events, and with errors."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from observe import free_ports
from openai import APIError, OpenAI

from penstock import Context, EventStream, Final, InvalidInput, Request, Response, Server, Threads, model, openai
from penstock.testing import Client
from waiting import PATIENCE, Gate, until

COMMENT = ": keep-alive\n\n"
FORMS = {
    "generate": ("/v2/models/slow/generate_stream", {"text": "TEXT"}),
    "infer": (
        "/v2/models/slow/infer_stream",
        {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [], "data": ["TEXT"]}]},
    ),
    "plain": ("/models/slow", {"text": "TEXT"}),
    "raw": ("/tell", "TEXT"),
    "raw with an event": ("/answer", "TEXT"),
    "completion": ("/v1/completions", {"model": "slow", "prompt": "TEXT", "stream": True}),
    "chat": (
        "/v1/chat/completions",
        {"model": "slow", "messages": [{"role": "user", "content": "TEXT"}], "stream": True},
    ),
    "responses": ("/v1/responses", {"model": "slow", "input": "TEXT", "stream": True}),
    "messages": (
        "/v1/messages",
        {"model": "slow", "max_tokens": 9, "messages": [{"role": "user", "content": "TEXT"}], "stream": True},
    ),
}
"""Path and body of each form of event stream."""


def models(gate: Gate) -> list[Any]:
    """Models that wait at the gate, then answer or fail."""

    @model(instances=Threads(4))
    def slow(text: str) -> Iterator[str]:
        gate.enter()
        if text == "fail":
            raise InvalidInput("no such text")
        yield text

    @model(routes=["POST /tell"], instances=Threads(4))
    def tell(request: Request) -> Iterator[Any]:
        yield EventStream()
        gate.enter()
        if request.body == b'"fail"':
            raise InvalidInput("no such text")
        yield b"data: %s\n\n" % request.body

    @model(routes=["POST /answer"], instances=Threads(4))
    def answer(request: Request) -> Iterator[Any]:
        yield EventStream()
        gate.enter()
        if request.body == b'"fail"':
            problem = '{"problem": "no such text"}'
            yield Final(Response(problem, status=400, content_type="application/json", event=f"data: {problem}\n\n"))
            return
        yield Response(b"data: %s\n\n" % request.body, headers={"x-model": "answer"})

    routes = openai.routes(openai.Completions(slow), openai.Chat(slow, lambda messages: str(messages[0]["content"])))
    return [slow, tell, answer, routes]


@contextmanager
def serving(gate: Gate, **options: Any) -> Iterator[Server]:
    with Server(*models(gate), http="127.0.0.1:0", grpc=None, **options) as server:
        try:
            yield server
        finally:
            gate.open()


def body_of(form: str, text: str) -> tuple[str, bytes]:
    path, body = FORMS[form]
    return path, json.dumps(body).replace("TEXT", text).encode()


@contextmanager
def begun(server: Server, form: str, text: str) -> Iterator[tuple[httpx.Response, Iterator[str]]]:
    path, body = body_of(form, text)
    with httpx.stream("POST", server.http_url + path, content=body, timeout=PATIENCE) as response:
        yield response, response.iter_text()


def read_comments(pieces: Iterator[str], count: int) -> str:
    """Reads until there are so many comments and returns all text."""
    text = ""
    while text.count(COMMENT) < count:
        text += next(pieces)
    return text


@pytest.mark.parametrize("form", FORMS)
def test_stream_begins_with_comments_until_its_first_event(form: str) -> None:
    gate = Gate()
    with serving(gate, stream_keepalive="20ms") as server, begun(server, form, "word") as (response, pieces):
        assert response.status_code == 200
        assert response.headers["content-type"].split(";")[0] == "text/event-stream"
        assert (response.headers["cache-control"], response.headers["x-accel-buffering"]) == ("no-cache", "no")
        before = read_comments(pieces, 3)
        gate.open()
        rest = (before + "".join(pieces)).replace(COMMENT, "")
        assert "word" in rest
        assert all(re.match(r"(event: \S+\n)?data: ", event) for event in rest.split("\n\n")[:-1])
        assert rest.endswith("\n\n")


@pytest.mark.parametrize("form", FORMS)
def test_error_before_the_head_has_its_own_status(form: str) -> None:
    gate = Gate()
    gate.open()
    with serving(gate, stream_keepalive="1h") as server:
        path, body = body_of(form, "fail")
        response = httpx.post(server.http_url + path, content=body)
        assert response.status_code == 400
        assert response.headers["content-type"] == "application/json"
        assert "no such text" in response.text


ERRORS = {
    "raw with an event": {"problem": "no such text"},
    "completion": {"error": {"message": "no such text", "type": "invalid_request_error", "param": None, "code": None}},
}


@pytest.mark.parametrize("form", FORMS)
def test_error_after_the_head_is_an_event_of_its_form(form: str) -> None:
    gate = Gate()
    with serving(gate, stream_keepalive="20ms") as server, begun(server, form, "fail") as (response, pieces):
        assert response.status_code == 200
        before = read_comments(pieces, 1)
        gate.open()
        rest = (before + "".join(pieces)).replace(COMMENT, "")
        event = json.loads(re.sub(r"^(event: error\n)?data: ", "", rest))
        if form in ("responses", "messages"):
            assert "no such text" in json.dumps(event)
            assert event["type"] == "error"
            return
        expected = ERRORS.get("completion" if form == "chat" else form, {"error": "no such text"})
        assert event == expected


def test_error_after_the_head_is_counted_as_its_kind() -> None:
    gate = Gate()
    with serving(gate, stream_keepalive="20ms") as server, ExitStack() as streams:
        begun_ones = [
            streams.enter_context(begun(server, form, "fail")) for form in ("raw with an event", "completion")
        ]
        for _, pieces in begun_ones:
            read_comments(pieces, 1)
        gate.open()
        for _, pieces in begun_ones:
            list(pieces)
        text = httpx.get(f"{server.http_url}/metrics").text
    counted = [line for line in text.splitlines() if 'outcome="invalid_input"' in line and line.endswith(" 1")]
    assert any('model="answer"' in line for line in counted)
    assert any('model="openai"' in line for line in counted)


def test_status_below_400_after_the_announcement_is_an_event_stream() -> None:
    gate = Gate()
    gate.open()
    for options in ({}, {"stream_keepalive": "1h"}):
        with serving(gate, **options) as server:
            for form in ("raw", "raw with an event"):
                path, body = body_of(form, "word")
                response = httpx.post(server.http_url + path, content=body)
                assert response.headers["content-type"] == "text/event-stream"
                assert response.text == 'data: "word"\n\n'
        assert response.headers["x-model"] == "answer"


def test_announcement_has_no_effect_where_no_http_head_is_sent() -> None:
    gate = Gate()
    gate.open()

    @model(routes=["POST /two"])
    def two(request: Request) -> Iterator[Any]:
        yield EventStream()
        yield Response(outputs={"y": [1.0]})

    with Client(two, stream_keepalive="20ms") as client:
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
        # One response, as the announcement is none.
        assert client.post("/v2/models/two/infer_stream", json.dumps(body)).body.count(b"data: ") == 1


def test_announcement_is_not_a_response_of_a_handler_that_returns() -> None:
    @model(routes=["POST /wrong"])
    def wrong(request: Request) -> Any:
        return EventStream()

    with Client(wrong) as client:
        refused = client.post("/wrong", b"")
        assert refused.status == 500
        assert "returned a EventStream for a request, expected a Response" in refused.json()["error"]


def test_child_process_announces_too(tmp_path: Path) -> None:
    from serving_process import Serving

    (tmp_path / "app.py").write_text(
        "import time\nfrom pathlib import Path\nfrom penstock import *\n"
        '@model(routes=["POST /late"], instances=Processes(1))\n'
        "def late(request: Request):\n"
        "    yield EventStream()\n"
        "    while not Path('go').exists():\n        time.sleep(0.01)\n"
        '    yield Final(Response("no", status=409, event="data: no\\n\\n"))\n'
    )
    arguments = ("app.py", "--http", "127.0.0.1:0", "--grpc", "off", "--stream-keepalive", "20ms")
    with (
        Serving(*arguments, folder=tmp_path) as server,
        httpx.stream("POST", f"{server.http}/late", timeout=PATIENCE) as response,
    ):
        pieces = response.iter_text()
        before = read_comments(pieces, 2)
        (tmp_path / "go").touch()
        assert (before + "".join(pieces)).replace(COMMENT, "") == "data: no\n\n"


def test_request_in_the_queue_has_comments() -> None:
    gate = Gate()

    @model
    def slow(text: str) -> Iterator[str]:
        gate.enter()
        yield text

    with ExitStack() as streams:
        server = streams.enter_context(Server(slow, http="127.0.0.1:0", grpc=None, stream_keepalive="20ms"))
        streams.callback(gate.open)
        first, second = (streams.enter_context(begun(server, "generate", text)) for text in ("a", "b"))
        gate.await_entered()
        texts = [read_comments(pieces, 2) for _, pieces in (first, second)]
        gate.open()
        texts = [text + "".join(pieces) for text, (_, pieces) in zip(texts, (first, second), strict=True)]
    assert all(text.count("data: ") == 1 for text in texts)


def test_comments_fill_the_silence_between_events() -> None:
    go = threading.Event()

    @model
    def twice(text: str) -> Iterator[str]:
        yield text
        assert go.wait(PATIENCE)
        yield text

    with (
        Server(twice, http="127.0.0.1:0", grpc=None, stream_keepalive="20ms") as server,
        httpx.stream(
            "POST", f"{server.http_url}/v2/models/twice/generate_stream", json={"text": "a"}, timeout=PATIENCE
        ) as response,
    ):
        pieces = response.iter_text()
        before = read_comments(pieces, 2)
        assert before.split(COMMENT)[0].startswith("data: ") or before.startswith(COMMENT)
        go.set()
        text = before + "".join(pieces)
    assert text.count("data: ") == 2


def test_official_client_ignores_comments() -> None:
    @model
    def late(prompt: str, ctx: Context) -> Iterator[str]:
        for word in prompt.split():
            time.sleep(0.1)
            if word == "fail":
                raise InvalidInput("no such word")
            yield word

    routes = openai.routes(openai.Chat(late, lambda messages: str(messages[0]["content"])))
    for options in ({}, {"stream_resume": "30s"}):
        with Server(late, routes, http="127.0.0.1:0", grpc=None, stream_keepalive="5ms", **options) as server:
            client = OpenAI(base_url=f"{server.http_url}/v1", api_key="-", max_retries=0, timeout=PATIENCE)

            def words(content: str, client: OpenAI = client) -> Iterator[str]:
                messages: Any = [{"role": "user", "content": content}]
                for event in client.chat.completions.create(model="late", messages=messages, stream=True):
                    yield event.choices[0].delta.content or ""

            with client:
                assert [word for word in words("a b c") if word] == ["a", "b", "c"]
                with pytest.raises(APIError, match="no such word"):
                    list(words("fail"))


NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder}; uwsgi_temp_path {folder};
  scgi_temp_path {folder};
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://{address}; proxy_read_timeout 3s; }}
  }}
}}
"""


@pytest.mark.parametrize("keepalive", ["1s", "off"])
def test_streams_behind_nginx_survive_a_silence(keepalive: str, tmp_path: Path) -> None:
    """64 streams whose first event takes 5 s, behind a proxy that cuts connections after 3 s of silence."""
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed")

    @model(instances=Threads(64))
    def late(text: str) -> Iterator[str]:
        time.sleep(5)
        yield text

    (port,) = free_ports(1)
    with ExitStack() as opened:
        server = opened.enter_context(
            Server(late, http="127.0.0.1:0", grpc=None, stream_keepalive=0 if keepalive == "off" else keepalive)
        )
        config = tmp_path / "nginx.conf"
        config.write_text(NGINX.format(folder=tmp_path, port=port, address=server.http_address))
        process = subprocess.Popen(["nginx", "-c", str(config), "-e", str(tmp_path / "error")])
        opened.callback(process.wait, 20)
        opened.callback(process.terminate)

        def listens() -> bool:
            assert process.poll() is None
            with socket.socket() as connection:
                return connection.connect_ex(("127.0.0.1", port)) == 0

        until(listens, "nginx to listen")

        def send(number: int) -> tuple[int, bool]:
            url = f"http://127.0.0.1:{port}/v2/models/late/generate_stream"
            response = httpx.post(url, json={"text": f"word {number}"}, timeout=60)
            return response.status_code, f"word {number}" in response.text

        with ThreadPoolExecutor(64) as pool:
            found = set(pool.map(send, range(64)))
    assert found == ({(504, False)} if keepalive == "off" else {(200, True)})
