"""`Request.form`: fields and files of raw requests."""

from __future__ import annotations

import io

import httpx
import pytest

from penstock import FormPart, InvalidInput, Request, Response, model
from penstock.testing import Client

BOUNDARY = "multipart/form-data; boundary=x"


def form_of(content_type: str, body: bytes) -> dict[str, list[FormPart]]:
    """The form of a request that was created by hand."""
    return Request(route="POST /", headers={"content-type": content_type}, body=body).form()


def part(head: str, content: bytes = b"1") -> bytes:
    return b"--x\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n--x--\r\n"


@model(routes=["POST /form"])
def describe(request: Request) -> Response:
    form = request.form()
    lines = [
        f"{name}|{one.filename}|{one.content_type}|{one.content!r}" for name, parts in form.items() for one in parts
    ]
    return Response("\n".join(lines))


def test_fields_and_files_of_a_client() -> None:
    content = bytes(range(256)) * 40 + b"\r\n--not the boundary\r\n"
    files = {"file": ('täst "1".wav', io.BytesIO(content), "audio/wav"), "empty": ("none", io.BytesIO(b""))}
    request = httpx.Request("POST", "http://host/form", data={"a": ["1", "zwei é"], "b": ""}, files=files)
    with Client(describe) as client:
        response = client.post("/form", request.read(), headers={"content-type": request.headers["content-type"]})
    assert response.status == 200
    assert response.body.decode().split("\n") == [
        "a|None|None|b'1'",
        "a|None|None|" + repr("zwei é".encode()),
        "b|None|None|b''",
        f"file|täst %221%22.wav|audio/wav|{content!r}",
        "empty|none|application/octet-stream|b''",
    ]


def test_url_encoded_fields() -> None:
    form = form_of("application/x-www-form-urlencoded", b"a=1&a=%C3%A9+2&b=")
    assert [(one.name, one.text, one.filename) for one in [*form["a"], *form["b"]]] == [
        ("a", "1", None),
        ("a", "é 2", None),
        ("b", "", None),
    ]


def test_empty_forms_and_text_before_the_first_part() -> None:
    assert form_of(BOUNDARY, b"--x--") == {}
    assert form_of(BOUNDARY, b"ignored\r\n--x--\r\nignored") == {}
    body = b"ignored\r\n" + part('Content-Disposition: form-data; name="a"')
    assert form_of('Multipart/Form-Data; charset=utf-8; boundary="x"', body)["a"][0].content == b"1"


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("", b"", "the body must be a form (multipart/form-data), its content type is missing"),
        ("application/json", b"{}", "its content type is 'application/json'"),
        ("multipart/form-data", b"", "has no boundary, which separates the fields"),
        ("multipart/form-data; boundary=é", b"", "the boundary of multipart/form-data must be ASCII"),
        (BOUNDARY, b"", "does not contain the boundary of its content type"),
        (BOUNDARY, b"--y--", "does not contain the boundary of its content type"),
        (BOUNDARY, b"--x", "cut off: part 0 does not end with the boundary"),
        (BOUNDARY, b"--xy\r\n", "cut off: part 0 does not end with the boundary"),
        (BOUNDARY, b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1', "cut off: part 0"),
        (BOUNDARY, part("X: 1")[:-2] + b"\r\n", "part 0 of the form has no name"),
        (BOUNDARY, part('Content-Disposition: attachment; name="a"'), "part 0 of the form has no name"),
        (BOUNDARY, b"--x\r\nX: " + b"1" * 20_000 + b"\r\n\r\n", "has no end of its headers within 16384 bytes"),
        ("application/x-www-form-urlencoded", b"a=%ff", "must be percent-encoded UTF-8"),
        ("application/x-www-form-urlencoded", b"a&" * 5000, "has more than 4096 fields and files"),
    ],
)
def test_refused_forms(content_type: str, body: bytes, text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        form_of(content_type, body)
    assert text in str(raised.value)


def test_too_many_parts_are_refused() -> None:
    one = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
    assert len(form_of(BOUNDARY, one * 4096 + b"--x--")["a"]) == 4096
    with pytest.raises(InvalidInput, match="more than 4096 fields and files"):
        form_of(BOUNDARY, one * 4097 + b"--x--")


def test_text_of_a_field_must_be_utf8() -> None:
    form = form_of(BOUNDARY, part('Content-Disposition: form-data; name="a"', b"1\xff"))
    with pytest.raises(InvalidInput, match="form field 'a' must be UTF-8, got byte 1 in it"):
        _ = form["a"][0].text
    with Client(describe) as client:
        assert client.post("/form", b"{}", headers={"content-type": "application/json"}).status == 400
