"""`openai.Transcriptions` and `openai.Translations`, called with the official OpenAI client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from openai import BadRequestError, InternalServerError, NotFoundError
from openai_helpers import ServeModels

from penstock import Batching, Context, Server, SignatureError, Tensor, model, openai
from penstock.testing import Client
from waiting import Gate

AUDIO = bytes(range(256)) * 10
SEEN: list[dict[str, Any]] = []
"""The parameters of each call."""


@model(name="whisper")
def whole(audio: bytes, ctx: Context) -> str:
    SEEN.append(dict(ctx.parameters))
    return f"{len(audio)} bytes, ß"


@model(name="whisper", inputs=[Tensor("audio", bytes, [1])], outputs=[Tensor("text", bytes, [1])])
def pieces(audio, ctx: Context):
    SEEN.append(dict(ctx.parameters))
    # The two bytes of a letter come in two chunks.
    for piece in (f"{len(audio[0])} ".encode(), b"bytes, \xc3", b"", b"\x9f"):
        yield np.array([piece], object)


SEGMENTS = [
    Tensor("start", np.float64, [-1]),
    Tensor("end", np.float64, [-1]),
    Tensor("text", str, [-1]),
    Tensor("avg_logprob", np.float64, [-1], optional=True),
    Tensor("language", str, [1], optional=True),
    Tensor("duration", np.float64, [1], optional=True),
]


@model(name="whisper", inputs=[Tensor("audio", bytes, [1])], outputs=SEGMENTS)
def segments(audio, ctx: Context):
    SEEN.append(dict(ctx.parameters))
    yield {"start": [0.0, 1.5], "end": [1.5, 2.0], "text": [" Hello", " you\n\n--> there"], "language": ["en"]}
    yield {"start": [3661.25], "end": [3662.0004], "text": [" bye"], "avg_logprob": [-0.5], "duration": [4000.0]}


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


@pytest.mark.parametrize("served", [whole, pieces], ids=["whole", "pieces"])
def test_text_of_a_file(client_of: ServeModels, served: Any) -> None:
    client = client_of(served, openai.routes(openai.Transcriptions(served, name="whisper-1")))
    file = ("a.wav", AUDIO, "audio/wav")
    asked: dict[str, Any] = {"model": "whisper-1", "file": file, "language": "de", "prompt": "ä", "temperature": 0.5}
    assert client.audio.transcriptions.create(**asked).text == "2560 bytes, ß"
    assert SEEN == [{"language": "de", "prompt": "ä", "temperature": 0.5, "task": "transcribe"}]
    text = client.audio.transcriptions.create(model="whisper-1", file=file, response_format="text")
    assert text == "2560 bytes, ß\n"


@pytest.mark.parametrize(
    ("served", "deltas"),
    [
        (whole, ["2560 bytes, ß"]),
        (pieces, ["2560 ", "bytes, ", "ß"]),
        (segments, ["Hello you\n\n--> there", " bye"]),
    ],
    ids=["whole", "pieces", "segments"],
)
def test_streamed_events(client_of: ServeModels, served: Any, deltas: list[str]) -> None:
    client = client_of(served, openai.routes(openai.Transcriptions(served)))
    events = list(client.audio.transcriptions.create(model="whisper", file=AUDIO, stream=True))
    assert [event.type for event in events] == ["transcript.text.delta"] * len(deltas) + ["transcript.text.done"]
    assert [event.delta for event in events if event.type == "transcript.text.delta"] == deltas
    assert events[-1].type == "transcript.text.done"
    assert events[-1].text == "".join(deltas)


def test_events_are_sent_while_the_model_runs(client_of: ServeModels) -> None:
    gate = Gate()

    @model(name="whisper")
    def held(audio: bytes) -> Iterator[str]:
        yield "first"
        gate.enter()
        yield " second"

    client = client_of(held, openai.routes(openai.Transcriptions(held)))
    events = iter(client.audio.transcriptions.create(model="whisper", file=AUDIO, stream=True))
    assert next(events).to_dict() == {"type": "transcript.text.delta", "delta": "first"}
    gate.open()
    assert [event.type for event in events] == ["transcript.text.delta", "transcript.text.done"]


def test_verbose_json_and_subtitles(client_of: ServeModels) -> None:
    client = client_of(segments, openai.routes(openai.Transcriptions(segments)))
    create = client.audio.transcriptions.create
    verbose = create(
        model="whisper", file=AUDIO, response_format="verbose_json", timestamp_granularities=["segment"]
    ).to_dict()
    text = "Hello you\n\n--> there bye"
    assert (verbose["task"], verbose["language"], verbose["duration"], verbose["text"]) == (
        "transcribe",
        "en",
        4000.0,
        text,
    )
    assert verbose["usage"] == {"type": "duration", "seconds": 4000.0}
    assert verbose["segments"] == [
        {"id": 0, "start": 0.0, "end": 1.5, "text": " Hello"},
        {"id": 1, "start": 1.5, "end": 2.0, "text": " you\n\n--> there"},
        {"id": 2, "start": 3661.25, "end": 3662.0004, "avg_logprob": -0.5, "text": " bye"},
    ]
    assert create(model="whisper", file=AUDIO).text == text
    assert create(model="whisper", file=AUDIO, response_format="srt") == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello\n\n"
        "2\n00:00:01,500 --> 00:00:02,000\nyou\n-> there\n\n"
        "3\n01:01:01,250 --> 01:01:02,000\nbye\n"
    )
    assert create(model="whisper", file=AUDIO, response_format="vtt") == (
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello\n\n"
        "00:00:01.500 --> 00:00:02.000\nyou\n-> there\n\n"
        "01:01:01.250 --> 01:01:02.000\nbye\n"
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_translations_have_a_task_of_their_name(client_of: ServeModels) -> None:
    client = client_of(whole, openai.routes(openai.Transcriptions(whole), openai.Translations(whole)))
    # Newer clients warn of the route, which OpenAI is giving up.
    assert client.audio.translations.create(model="whisper", file=AUDIO).text == "2560 bytes, ß"
    client.audio.transcriptions.create(model="whisper", file=AUDIO)
    assert [one["task"] for one in SEEN] == ["translate", "transcribe"]


def test_refused_model_of_another_route(client_of: ServeModels) -> None:
    client = client_of(whole, openai.routes(openai.Transcriptions(whole)))
    with pytest.raises(NotFoundError) as raised:
        client.audio.transcriptions.create(model="other", file=AUDIO)
    assert raised.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("served", "data", "param", "text"),
    [
        (whole, {"model": "whisper"}, "file", "'file' is missing: a file"),
        (whole, {"model": "whisper", "file": "text"}, "file", "'file' must be a file, with a file name, not a field"),
        (whole, {"audio": b""}, "model", "'model' is missing"),
        (whole, {"response_format": "xml"}, "response_format", "must be one of json, text, srt, verbose_json, vtt"),
        (whole, {"response_format": "srt"}, "response_format", "'srt' needs segments, which model 'whisper' does not"),
        (whole, {"stream": "maybe"}, "stream", "'stream' must be 'true' or 'false', not 'maybe'"),
        (whole, {"temperature": "hot"}, "temperature", "'temperature' must be a number, not 'hot'"),
        (whole, {"temperature": "nan"}, "temperature", "'temperature' must be a number, not 'nan'"),
        (whole, {"language": ["de", "en"]}, "language", "'language' is given 2 times, expected once"),
        (whole, {"include[]": "logprobs"}, "include", "'include' is not supported here"),
        (whole, {"chunking_strategy": "server_vad"}, "chunking_strategy", "is not supported here"),
        (whole, {"timestamp_granularities[]": "segment"}, "timestamp_granularities", "'verbose_json'"),
        (whole, {"a[": "1"}, "a[", "is not a name: expected a closing bracket"),
        (whole, {"a[]": "1", "a": "2"}, "a", "'a' is both a field and a list"),
        (whole, {"a": "1", "a[]": "2"}, "a", "'a' is both a field and a list"),
        (whole, {"a": "1", "a[b]": "2"}, "a", "'a' is both a field and an object"),
        (segments, {"response_format": "text", "stream": "true"}, "stream", "needs the 'response_format' 'json'"),
        (
            segments,
            {"response_format": "verbose_json", "timestamp_granularities[]": "word"},
            "timestamp_granularities",
            "must be 'segment'",
        ),
    ],
)
def test_refusals_name_the_field(served: Any, data: dict[str, Any], param: str, text: str) -> None:
    file = {"unused" if {"model", "audio"} & data.keys() else "file": ("a.wav", AUDIO)}
    fields = data if "audio" in data else {"model": "whisper", **data}
    request = httpx.Request("POST", "http://host/", data=fields, files=file)
    with Client(served, openai.routes(openai.Transcriptions(served))) as client:
        headers = {"content-type": request.headers["content-type"]}
        response = client.post("/v1/audio/transcriptions", request.read(), headers=headers)
    error = response.json()["error"]
    assert (response.status, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert text in error["message"]


def test_other_bodies_and_two_files_are_refused() -> None:
    with Client(whole, openai.routes(openai.Transcriptions(whole))) as client:
        response = client.post("/v1/audio/transcriptions", json.dumps({"model": "whisper"}))
        assert response.status == 400
        assert "the body must be a form (multipart/form-data)" in response.json()["error"]["message"]
        files = [("file", ("a", b"1")), ("file", ("b", b"2"))]
        request = httpx.Request("POST", "http://host/", data={"model": "whisper"}, files=files)
        headers = {"content-type": request.headers["content-type"]}
        error = client.post("/v1/audio/transcriptions", request.read(), headers=headers).json()["error"]
        assert (error["param"], error["message"]) == ("file", "'file' is 2 files, expected one")


def test_size_of_a_file_is_bounded_by_the_server() -> None:
    routes = openai.routes(openai.Transcriptions(whole))
    with Server(whole, routes, http="127.0.0.1:0", grpc=None, max_body_bytes=1024) as server:
        sent = httpx.post(
            f"{server.http_url}/v1/audio/transcriptions", data={"model": "whisper"}, files={"file": ("a", AUDIO)}
        )
    assert sent.status_code == 413


def test_errors_of_the_model(client_of: ServeModels) -> None:
    @model(name="whisper", inputs=[Tensor("audio", bytes, [1])], outputs=SEGMENTS)
    def faulty(audio):
        kind = audio[0].decode()
        if kind == "late":
            yield {"start": [0.0], "end": [1.0], "text": [" a"]}
            raise ValueError("broken")
        yield {
            "uneven": {"start": [0.0, 1.0], "end": [1.0], "text": ["a"]},
            "nan": {"start": [float("nan")], "end": [1.0], "text": ["a"]},
        }[kind]

    client = client_of(faulty, openai.routes(openai.Transcriptions(faulty)))
    with pytest.raises(InternalServerError, match="gave 2 values of 'start' for 1 segments"):
        client.audio.transcriptions.create(model="whisper", file=b"uneven")
    with pytest.raises(InternalServerError, match="gave NaN or infinity for 'start'"):
        client.audio.transcriptions.create(model="whisper", file=b"nan")
    with pytest.raises(InternalServerError):
        client.audio.transcriptions.create(model="whisper", file=b"late")
    events = iter(client.audio.transcriptions.create(model="whisper", file=b"late", stream=True))
    assert next(events).to_dict() == {"type": "transcript.text.delta", "delta": "a"}
    with pytest.raises(Exception, match="failed: ValueError"):
        next(events)
    with pytest.raises(BadRequestError):
        client.audio.transcriptions.create(model="whisper", file=b"", response_format="srtt")  # type: ignore[call-overload]


@model(inputs=[Tensor("audio", bytes, [1])], outputs=[Tensor("text", str, [1])], batching=Batching(max_size=2))
def in_batches(audio):
    return audio


@model
def of_text(text: str) -> str:
    return text


@model
def of_two(audio: bytes, other: bytes) -> str:
    return ""


@model
def to_number(audio: bytes) -> float:
    return 0.0


@pytest.mark.parametrize(
    ("served", "options", "text"),
    [
        (in_batches, {}, "the model must not have batching="),
        (of_text, {}, "its input: none will do"),
        (of_two, {}, "its input: several will do, so name one"),
        (of_two, {"input": "audio"}, "input 'other' is needed too"),
        (to_number, {}, "its output: none will do"),
    ],
)
def test_unfit_models_are_refused(served: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(SignatureError) as raised:
        openai.Transcriptions(served, **options)
    assert text in str(raised.value)
