"""Plain requests: JSON, forms and files in the types of a handler."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import msgspec
import numpy as np
import pandas as pd
import polars as pl
import pydantic
import pytest
from PIL import Image

from penstock import Batching, Context, InvalidInput, Server, SignatureError, Tensor, model
from penstock import Client as HttpClient
from penstock.testing import Client, Response


@dataclass
class Wine:
    alcohol: float
    acidity: float = 0.5


@dataclass
class Grade:
    quality: float


class Point(pydantic.BaseModel):
    x: float
    y: float


class Box(msgspec.Struct):
    width: int


class Label(TypedDict):
    name: str


@model
def wines(rows: list[Wine]) -> list[Grade]:
    return [Grade(row.alcohol / 2) for row in rows]


@model(batching=Batching(max_size=16))
def batched_wines(rows: list[Wine]) -> list[Grade]:
    return [Grade(row.alcohol / 2) for row in rows]


@model
def shapes(point: Point, box: Box, label: Label | None = None) -> dict[str, Any]:
    return {"area": point.x * box.width, "label": label}


@model
def image_size(image: Image.Image) -> list[int]:
    return [*image.size]


@model
def thumbnail(image: Image.Image, width: int = 2) -> Image.Image:
    return image.resize((width, 1))


@model
def upload(files: list[bytes], title: str, sizes: list[int] | None = None) -> dict[str, Any]:
    return {"files": [len(file) for file in files], "title": title, "sizes": sizes}


@model
def reverse(data: bytes) -> bytes:
    return data[::-1]


@model
def tensors(x: Annotated[np.ndarray, Tensor(datatype=np.float32, shape=[2])]) -> float:
    return float(x.sum())


@model
def two(x: int) -> tuple[int, str]:
    return x + 1, "a" * x


@pytest.fixture(scope="module")
def client() -> Any:
    with Client(wines, batched_wines, shapes, image_size, thumbnail, upload, reverse, tensors, two) as started:
        yield started


def post(client: Client, path: str, body: Any, **headers: str) -> Response:
    content = body if isinstance(body, (bytes, str)) else json.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post(path, content, headers={"content-type": "application/json", **named})


def png(width: int, height: int) -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (width, height), (255, 0, 0)).save(content, "PNG")
    return content.getvalue()


def form(*parts: tuple[str, bytes]) -> tuple[bytes, dict[str, str]]:
    lines = [
        b'--xyz\r\ncontent-disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value)
        for name, value in parts
    ]
    return b"".join([*lines, b"--xyz--\r\n"]), {"content-type": "multipart/form-data; boundary=xyz"}


@pytest.mark.parametrize("path", ["/models/{}", "/models/{}/versions/1", "/v2/models/{}/infer"])
@pytest.mark.parametrize("name", ["wines", "batched_wines"])
@pytest.mark.parametrize("count", [1, 2])
def test_typed_rows_are_json_in_both_directions(client: Client, path: str, name: str, count: int) -> None:
    response = post(client, path.format(name), {"rows": [{"alcohol": 9}] * count})
    assert (response.status, json.loads(response.body)) == (200, [{"quality": 4.5}] * count)
    assert response.headers["content-type"] == "application/json"


def test_body_without_a_content_type_and_from_a_default_curl_is_json(client: Client) -> None:
    for headers in ({}, {"content-type": "application/x-www-form-urlencoded"}):
        response = client.post("/models/wines", '{"rows": []}', headers=headers)
        assert (response.status, response.body) == (200, b"[]")


def test_generate_takes_and_gives_documents_as_json(client: Client) -> None:
    response = post(client, "/v2/models/wines/generate", {"rows": [{"alcohol": 9}]})
    assert json.loads(response.body) == {"model_name": "wines", "model_version": "1", "output": [{"quality": 4.5}]}
    text = json.dumps([{"alcohol": 9}])
    assert json.loads(post(client, "/v2/models/wines/generate", {"rows": text}).body)["output"] == [{"quality": 4.5}]


def test_tensor_request_works_as_before(client: Client) -> None:
    (output,) = client.infer("wines", {"rows": [{"alcohol": 9}]}).values()
    assert json.loads(output.item()) == [{"quality": 4.5}]


@pytest.mark.parametrize("content_type", ["application/json", "text/plain;charset=UTF-8", "application/octet-stream"])
def test_request_of_the_protocol_is_known_by_its_shape(client: Client, content_type: str) -> None:
    tensor = {"name": "data", "datatype": "BYTES", "shape": [], "data": ["ab"]}
    response = post(client, "/v2/models/reverse/infer", {"inputs": [tensor]}, content_type=content_type)
    assert json.loads(response.body)["outputs"][0]["data"] == ["ba"]


def test_classes_of_other_libraries_are_built(client: Client) -> None:
    body = {"point": {"x": 2, "y": 0}, "box": {"width": 3}, "label": {"name": "a"}}
    assert json.loads(post(client, "/models/shapes", body).body) == {"area": 6, "label": {"name": "a"}}
    body["label"] = None
    assert json.loads(post(client, "/models/shapes", body).body) == {"area": 6, "label": None}


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        (
            "wines",
            {"rows": [{"alcohol": 1}, {"alcohol": "x"}]},
            "input 'rows[1].alcohol': got \"x\", expected a number",
        ),
        ("batched_wines", {"rows": [{"alcohol": "x"}]}, "input 'rows.alcohol': got \"x\", expected a number"),
        ("wines", {"rwos": []}, "unexpected input 'rwos' for model 'wines', expected 'rows'"),
        ("wines", {}, "input 'rows' is missing, model 'wines' expects 'rows'"),
        ("wines", [], "expected an object with the inputs of model 'wines': 'rows'"),
        ("wines", '{"rows": [}', "request JSON at byte 10: expected a JSON value"),
        ("tensors", {"x": [1, 2, 3]}, "input 'x' has shape [3], model 'tensors' expects [2]"),
        ("two", {"x": 1.5}, "input 'x' has 1.5 at byte 6, INT64 takes integers from"),
    ],
)
def test_wrong_values_are_named_by_their_path(client: Client, name: str, body: Any, message: str) -> None:
    response = post(client, f"/models/{name}", body)
    assert response.status == 400
    assert message in response.error()


def test_wrong_row_fails_its_request_only() -> None:
    sizes: list[int] = []

    @model(batching=Batching(max_size=16, max_delay=0.2))
    def graded(rows: list[Wine]) -> list[Grade]:
        sizes.append(len(rows))
        return [Grade(row.alcohol) for row in rows]

    with Client(graded) as client, ThreadPoolExecutor(3) as pool:
        bodies = [{"rows": [{"alcohol": 1}]}, {"rows": [{"alcohol": 2}, {"alcohol": "x"}]}, {"rows": [{"alcohol": 3}]}]
        responses = [*pool.map(lambda body: post(client, "/models/graded", body), bodies)]
    assert [response.status for response in responses] == [200, 400, 200]
    assert [json.loads(responses[place].body) for place in (0, 2)] == [[{"quality": 1}], [{"quality": 3}]]
    assert 'got "x", expected a number' in responses[1].error()
    assert sum(sizes) == 3


def test_async_batched_rows() -> None:
    @model(batching=Batching(max_size=4))
    async def graded(rows: list[Wine]) -> list[Grade]:
        return [Grade(row.alcohol) for row in rows]

    with Client(graded) as client:
        assert json.loads(post(client, "/models/graded", {"rows": [{"alcohol": 1}]}).body) == [{"quality": 1}]
        assert post(client, "/models/graded", {"rows": [{}]}).status == 400


@pytest.mark.parametrize(("item", "values"), [(str, ["a", "ü"]), (int, [1, -2]), (float, [0.5]), (bool, [True, False])])
def test_batched_plain_values_are_rows(item: type, values: list[Any]) -> None:
    def same(x: Any) -> Any:
        assert all(type(value) is item for value in x)
        return x

    same.__annotations__ = {"x": list[item], "return": list[item]}  # type: ignore[valid-type]
    served = model(same, batching=Batching(max_size=8))
    with Client(served) as client:
        assert json.loads(post(client, "/models/same", {"x": values}).body) == values


def test_image_arrives_as_a_form_and_as_a_body(client: Client) -> None:
    body, headers = form(("image", png(5, 3)))
    assert client.post("/models/image_size", body, headers=headers).body == b"[5,3]"
    raw = client.post("/models/image_size", png(4, 2), headers={"content-type": "image/png"})
    assert raw.body == b"[4,2]"
    wrong = client.post("/models/image_size", b"GIF89a", headers={"content-type": "image/gif"})
    assert (wrong.status, wrong.error()) == (
        400,
        "input 'image' must be an image that Pillow reads, got 6 bytes of another kind or damaged",
    )


def test_accept_selects_the_form_of_an_image(client: Client) -> None:
    body, headers = form(("image", png(4, 4)), ("width", b"3"))
    response = client.post("/models/thumbnail", body, headers=headers)
    assert response.headers["content-type"] == "image/png"
    assert Image.open(io.BytesIO(response.body)).size == (3, 1)
    as_json = client.post("/models/thumbnail", body, headers={**headers, "accept": "application/json"})
    assert [*json.loads(as_json.body)] == ["b64"]


def test_form_has_several_files_and_fields(client: Client) -> None:
    body, headers = form(("files", b"abc"), ("title", "ü".encode()), ("files", b""), ("sizes", b"[1, 2]"))
    response = client.post("/models/upload", body, headers=headers)
    assert json.loads(response.body) == {"files": [3, 0], "title": "ü", "sizes": [1, 2]}


def test_bytes_are_answered_by_accept(client: Client) -> None:
    plain = client.post("/models/reverse", b"\xff\0a", headers={"content-type": "application/octet-stream"})
    assert json.loads(plain.body) == {"b64": "YQD/"}
    headers = {"content-type": "application/octet-stream", "accept": "application/octet-stream"}
    raw = client.post("/models/reverse", b"\xff\0a", headers=headers)
    assert (raw.body, raw.headers["content-type"]) == (b"a\0\xff", "application/octet-stream")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([("file", b"")], "unexpected input 'file' for model 'upload', expected 'files', 'title', 'sizes'"),
        ([("files", b"")], "input 'title' is missing"),
        ([("title", b"a"), ("title", b"b")], "input 'title' is given 2 times, expected 1"),
        ([("files", b""), ("title", b"a"), ("sizes", b"[1")], "input 'sizes': JSON at byte 2: expected ',' or ']'"),
    ],
)
def test_wrong_forms_are_refused_by_name(client: Client, parts: list[tuple[str, bytes]], message: str) -> None:
    body, headers = form(*parts)
    response = client.post("/models/upload", body, headers=headers)
    assert response.status == 400
    assert message in response.error()


def test_malformed_forms_and_bodies_are_refused(client: Client) -> None:
    for body, headers, message in [
        (b"--xyz", {"content-type": "multipart/form-data; boundary=xyz"}, "the form cannot be read: "),
        (b"", {"content-type": "multipart/form-data"}, "has no boundary"),
        (b"x", {"content-type": "image/png"}, "model 'upload' takes no body of one file: send a form"),
    ]:
        response = client.post("/models/upload", body, headers=headers)
        assert (response.status, message in response.error()) == (400, True), response.error()


def test_several_outputs_are_answered_by_name(client: Client) -> None:
    assert json.loads(post(client, "/models/two", {"x": 2}).body) == {"output_0": 3, "output_1": "aa"}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_have_columns_by_name(frame: Any) -> None:
    def total(df: Any) -> Any:
        if isinstance(df, pd.DataFrame):
            return df.assign(c=df["a"] + df["b"])
        return df.with_columns(c=pl.col("a") + pl.col("b"))

    total.__annotations__ = {"df": frame, "return": frame}
    with Client(model(total)) as client:
        for value in ({"a": [1, 2], "b": [0.5, 1]}, [{"a": 1, "b": 0.5}, {"a": 2, "b": 1}]):
            answer = json.loads(post(client, "/models/total", {"df": value}).body)
            assert answer == {"a": [1, 2], "b": [0.5, 1.0], "c": [1.5, 3.0]}
        for wrong, message in [(5, "an object of columns"), ({"a": [1], "b": []}, "different lengths: 'a' 1, 'b' 0")]:
            response = post(client, "/models/total", {"df": wrong})
            assert (response.status, message in response.error()) == (400, True), response.error()


def test_client_sends_frames_and_classes_as_documents() -> None:
    @model
    def same(df: pd.DataFrame) -> pd.DataFrame:
        return df

    frame = pd.DataFrame({"a": [1.0, float("nan")], "at": pd.to_datetime(["2026-01-02", "2026-01-03"])})
    server = Server(same, wines, batched_wines, http="127.0.0.1:0", grpc=None)
    with server, HttpClient(server.http_url) as client:
        times = ["2026-01-02T00:00:00", "2026-01-03T00:00:00"]
        assert client.infer("same", df=frame).json() == {"a": [1.0, None], "at": times}
        for name in ("wines", "batched_wines"):
            assert client.infer(name, rows=[Wine(9), Wine(3)]).json() == [{"quality": 4.5}, {"quality": 1.5}]
        with pytest.raises(InvalidInput, match="input 'rows' cannot be converted to BYTES: object is not a JSON"):
            client.infer("wines", rows=object())


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_result_has_the_values_that_the_handler_returned(scheme: str) -> None:
    @model
    def text(word: str) -> str:
        return word

    @model
    def count(n: int) -> int:
        return n + 1

    @model
    def both(n: int) -> tuple[list[float], dict[str, int], bytes]:
        return [0.5, n], {"n": n}, b"\xff"

    server = Server(text, count, both, wines, batched_wines, http="127.0.0.1:0", grpc="127.0.0.1:0")
    with server, HttpClient(server.http_url if scheme == "http" else f"grpc://{server.grpc_url}") as client:
        assert client.infer("text", word="5").json() == "5"
        assert client.infer("count", n=1).json() == 2
        values = {"output_0": [0.5, 1.0], "output_1": {"n": 1}, "output_2": b"\xff"}
        assert client.infer("both", n=1).json() == client.infer("both", n=1).to_python() == values
        for name in ("wines", "batched_wines"):
            document = np.array(json.dumps([{"alcohol": 9.0}]), object)
            rows = document if name == "wines" else np.array([json.dumps({"alcohol": 9.0})], object)
            assert client.infer(name, rows=rows).json() == [{"quality": 4.5}]


def test_streaming_model_sends_events() -> None:
    @model
    def count(up_to: int) -> Iterator[dict[str, int]]:
        for number in range(up_to):
            yield {"n": number}

    with Client(count) as client:
        response = post(client, "/models/count", {"up_to": 2})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.body == b'data: {"n":0}\n\ndata: {"n":1}\n\n'


def test_context_reads_the_headers_of_a_plain_request() -> None:
    @model
    def header(name: str, ctx: Context) -> str:
        return ctx.headers.get(name, "")

    with Client(header) as client:
        assert post(client, "/models/header", {"name": "x-a"}, x_a="7").body == b'"7"'


def test_batched_rows_that_stream_are_refused_at_declaration() -> None:
    def handler(rows: list[Wine]) -> Iterator[list[Grade]]:
        yield []

    with pytest.raises(SignatureError, match="input 'rows' is a list of rows, which a batched handler that streams"):
        model(handler, batching=Batching(max_size=2)).inputs  # noqa: B018
