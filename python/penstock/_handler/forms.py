"""`Request.form`: the fields and files of a form."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import InvalidInput

__all__ = ["FormPart", "read_form"]

MOST_PARTS = 4096
"""Limit of fields and files in a form, as of plain requests."""
MOST_HEAD = 16 * 1024
"""Limit of bytes in the headers of one part."""
MOST_PADDING = 80
"""Limit of blanks after a boundary."""


@dataclass(frozen=True)
class FormPart:
    """Field or file of a form, from `Request.form`."""

    name: str
    """Name of the field."""
    content: bytes
    """Its bytes."""
    filename: str | None = None
    """Name of the file; None for a field."""
    content_type: str | None = None
    """Content type of the part; None without one."""

    @property
    def text(self) -> str:
        """The content as text.

        Raises:
            InvalidInput: it is not UTF-8.
        """
        try:
            return self.content.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"form field {self.name!r} must be UTF-8, got byte {error.start} in it") from None


def read_form(content_type: str, body: bytes) -> dict[str, list[FormPart]]:
    """The parts of a form by name, each list in the order sent.

    Args:
        content_type: The header of the request.
        body: Its body.

    Raises:
        InvalidInput: the body is not a form, or has too many parts.
    """
    from email.message import Message

    head = Message()
    head["content-type"] = content_type
    kind = head.get_content_type()
    if kind == "application/x-www-form-urlencoded":
        return _by_name(_read_urlencoded(body))
    if kind != "multipart/form-data":
        given = repr(content_type) if content_type else "missing"
        raise InvalidInput(f"the body must be a form (multipart/form-data), its content type is {given}")
    boundary = head.get_param("boundary")
    if not isinstance(boundary, str) or not boundary:
        raise InvalidInput("the content type multipart/form-data has no boundary, which separates the fields")
    try:
        delimiter = b"--" + boundary.encode("ascii")
    except UnicodeEncodeError:
        raise InvalidInput("the boundary of multipart/form-data must be ASCII") from None
    return _by_name(_read_multipart(body, delimiter))


def _by_name(parts: list[FormPart]) -> dict[str, list[FormPart]]:
    form: dict[str, list[FormPart]] = {}
    for part in parts:
        form.setdefault(part.name, []).append(part)
    return form


def _read_urlencoded(body: bytes) -> list[FormPart]:
    from urllib.parse import parse_qsl

    try:
        fields = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_PARTS, separator="&"
        )
    except UnicodeDecodeError:
        raise InvalidInput("the form must be percent-encoded UTF-8") from None
    except ValueError:
        raise _too_many() from None
    return [FormPart(name, value.encode()) for name, value in fields]


def _read_multipart(body: bytes, delimiter: bytes) -> list[FormPart]:
    between = b"\r\n" + delimiter
    at = 0 if body.startswith(delimiter) else body.find(between) + 2
    if at == 1:
        raise InvalidInput("the form does not contain the boundary of its content type")
    parts: list[FormPart] = []
    at += len(delimiter)
    while not body.startswith(b"--", at):
        line_end = body.find(b"\r\n", at, at + MOST_PADDING)
        if line_end < 0 or body[at:line_end].strip(b" \t"):
            raise _cut_off(len(parts))
        if len(parts) == MOST_PARTS:
            raise _too_many()
        head_end = body.find(b"\r\n\r\n", line_end, line_end + MOST_HEAD)
        if head_end < 0:
            raise InvalidInput(f"part {len(parts)} of the form has no end of its headers within {MOST_HEAD} bytes")
        content_end = body.find(between, head_end + 4)
        if content_end < 0:
            raise _cut_off(len(parts))
        parts.append(_part(body[line_end + 2 : head_end + 2], body[head_end + 4 : content_end], len(parts)))
        at = content_end + len(between)
    return parts


def _part(head: bytes, content: bytes, index: int) -> FormPart:
    from email.parser import HeaderParser

    try:
        headers = HeaderParser().parsestr(head.decode())
    except UnicodeDecodeError:
        raise InvalidInput(f"the headers of part {index} of the form must be UTF-8") from None
    name = headers.get_param("name", header="content-disposition")
    if headers.get_content_disposition() != "form-data" or not isinstance(name, str):
        raise InvalidInput(f"part {index} of the form has no name: expected 'Content-Disposition: form-data; name=...'")
    filename, content_type = headers.get_filename(), headers.get("content-type")
    return FormPart(name, content, filename, content_type)


def _cut_off(index: int) -> InvalidInput:
    return InvalidInput(f"the form is cut off: part {index} does not end with the boundary of the content type")


def _too_many() -> InvalidInput:
    return InvalidInput(f"the form has more than {MOST_PARTS} fields and files")
