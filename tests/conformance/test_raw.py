"""Bodies that are the only input's bytes, with no JSON (cases C17 to C19)."""

from __future__ import annotations

import pytest

from .content import SAMPLES, pack, tensor
from .protocols import decode, served
from .transports import Reply, Transport

RAW = {"Inference-Header-Content-Length": "0"}


def raw(http: Transport, model: str, body: bytes) -> Reply:
    return http.request("POST", f"/v2/models/{model}/infer", body, RAW)


def test_c17_one_input(http: Transport) -> None:
    values = [0.5, -1.0, 2.0, 1e30]
    reply = raw(http, "ident_FP32", pack("FP32", values))
    served(decode(reply), tensor("y", "FP32", values))
    assert reply.tail() == pack("FP32", values)


@pytest.mark.parametrize("datatype", [name for name in SAMPLES if name != "BYTES"])
def test_c17_every_datatype(http: Transport, datatype: str) -> None:
    reply = raw(http, f"ident_{datatype}", pack(datatype, SAMPLES[datatype]))
    served(decode(reply), tensor("y", datatype, SAMPLES[datatype]))


def test_c17_one_row_of_a_batch(http: Transport) -> None:
    reply = raw(http, "rows", pack("FP32", [1.0, 2.0, 3.0]))
    served(decode(reply), tensor("y", "FP32", [1.0, 2.0, 3.0], [1, 3]))


def test_c17_no_bytes(http: Transport) -> None:
    served(decode(raw(http, "ident_FP32", b"")), tensor("y", "FP32", []))


def test_c17_scalar(http: Transport) -> None:
    served(decode(raw(http, "scalar", pack("FP32", [2.5]))), tensor("y", "FP32", [2.5], []))
    assert "4" in raw(http, "scalar", bytes(8)).refusal(400)


@pytest.mark.parametrize("size", [1, 15, 17])
def test_c17_part_of_an_element(http: Transport, size: int) -> None:
    message = raw(http, "ident_FP32", bytes(size)).refusal(400)
    assert "'x'" in message
    assert str(size) in message


def test_c18_two_inputs(http: Transport) -> None:
    message = raw(http, "add", bytes(32)).refusal(400)
    assert "'add'" in message
    assert "2" in message


@pytest.mark.trap("T53", "T67")
@pytest.mark.parametrize("body", [b"text", b"", b"\x04\0\0\0text", b"\xff\x00"])
def test_c19_bytes_are_the_element(http: Transport, body: bytes) -> None:
    served(decode(raw(http, "bytes_one", body)), tensor("y", "BYTES", [body]))


def test_c19_bytes_of_several_elements(http: Transport) -> None:
    assert "'x'" in raw(http, "echo_s", b"text").refusal(400)
