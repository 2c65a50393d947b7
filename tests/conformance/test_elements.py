"""Elements of each datatype in JSON, in and out (cases B33 to B47)."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from penstock.testing import Client

from .content import DTYPES, SAMPLES, Call, ident, one, pack, tensor
from .protocols import BINARY, FRAMED, UNTYPED, AnyProtocol, on_all, served
from .transports import InProcess, Transport, infer

INTEGERS = [name for name in SAMPLES if "INT" in name]
BYTES_IN_JSON = {
    "héllo": "h\\u00e9llo",
    "": "",
    "\x00": "\\u0000",
    "😀": "\\ud83d\\ude00",
    '"\\/\b\f\n\r\t': '\\"\\\\\\/\\b\\f\\n\\r\\t',
}


def x(datatype: str, data: str, count: int | None = None, more: str = "") -> str:
    """JSON for `ident_<datatype>` with literal text as data."""
    count = data.count(",") + 1 if count is None else count
    return f'{{"inputs":[{{"name":"x","shape":[{count}],"datatype":"{datatype}"{more},"data":[{data}]}}]}}'


def echo(http: Transport, datatype: str, data: str) -> Any:
    reply = infer(http, f"ident_{datatype}", x(datatype, data))
    assert reply.status == 200, reply.body
    return reply.json()["outputs"][0]["data"]


def out_of(http: Transport, datatype: str, data: str) -> str:
    message = infer(http, f"ident_{datatype}", x(datatype, data)).refusal(400)
    assert "'x'" in message, message
    assert datatype in message, message
    return message


@on_all
@pytest.mark.parametrize("datatype", INTEGERS)
def test_b33_integer_bounds_round_trip(protocol: AnyProtocol, datatype: str) -> None:
    served(protocol.infer(ident(datatype)), tensor("y", datatype, SAMPLES[datatype]))


@pytest.mark.trap("T50")
@pytest.mark.parametrize("datatype", INTEGERS)
def test_b34_integer_out_of_range(http: Transport, datatype: str) -> None:
    bounds = np.iinfo(DTYPES[datatype])
    for beyond in (int(bounds.max) + 1, int(bounds.min) - 1, 10**30, -(10**30)):
        out_of(http, datatype, str(beyond))


def test_b34_integer_out_of_range_is_named(http: Transport) -> None:
    out_of(http, "UINT8", "256")
    out_of(http, "INT8", "-129")


@on_all
def test_b35_64_bit_integers_are_exact(protocol: AnyProtocol) -> None:
    for datatype, value in (("INT64", 2**63 - 1), ("INT64", -(2**63)), ("INT64", 2**53 + 1), ("UINT64", 2**64 - 1)):
        served(protocol.infer(ident(datatype, [value])), tensor("y", datatype, [value]))


def test_b35_64_bit_integers_are_written_as_digits(http: Transport) -> None:
    assert echo(http, "INT64", "9223372036854775807") == [9223372036854775807]
    assert echo(http, "UINT64", "18446744073709551615") == [18446744073709551615]


@pytest.mark.parametrize("datatype", INTEGERS)
def test_b36_integral_float_in_an_integer_tensor(http: Transport, datatype: str) -> None:
    assert echo(http, datatype, "1.0,2e0,1.5e1,-0.0,100e-2") == [1, 2, 15, 0, 1]
    for wrong in ("1.5", "1e-1", "0.1"):
        out_of(http, datatype, wrong)


@on_all
def test_b37_bools(protocol: AnyProtocol) -> None:
    served(protocol.infer(ident("BOOL", [True, False])), tensor("y", "BOOL", [True, False]))


def test_b37_bools_as_numbers(http: Transport) -> None:
    assert echo(http, "BOOL", "true,false,1,0") == [True, False, True, False]
    for wrong in ('"true"', "2", "-1", "null", "1.5", "True"):
        assert infer(http, "ident_BOOL", x("BOOL", wrong)).refusal(400)


@pytest.mark.parametrize("protocol", FRAMED, indirect=True)
def test_b37_any_nonzero_byte_is_true(protocol: AnyProtocol) -> None:
    call = ident("BOOL", [False] * 4).with_input(0, raw=b"\x00\x01\x02\xff")
    served(protocol.infer(call), tensor("y", "BOOL", [False, True, True, True]))


def test_b38_fp32_literals(http: Transport) -> None:
    returned = echo(http, "FP32", "1,-2,0,-0,1e38,1E+2,1e-50,3.4028234663852886e38")
    # Any spelling of the same FP32 value is accepted.
    assert (
        np.array(returned, np.float32).tolist()
        == np.array([1, -2, 0, 0, 1e38, 100, 0, 3.4028235e38], np.float32).tolist()
    )


@pytest.mark.parametrize("text", ["1e39", "-1e39", "3.5e38", "1e400", "9" * 400])
def test_b38_fp32_out_of_range(http: Transport, text: str) -> None:
    out_of(http, "FP32", text)


@pytest.mark.parametrize("text", ["1e309", "-1e309", "9" * 400])
def test_b38_fp64_out_of_range(http: Transport, text: str) -> None:
    out_of(http, "FP64", text)


@pytest.mark.parametrize("wrong", ['"1"', "true", "null", "[]", "{}"])
def test_b38_non_numeric_fp32_element(http: Transport, wrong: str) -> None:
    assert "'x'" in infer(http, "ident_FP32", x("FP32", wrong, 1)).refusal(400)


@pytest.mark.parametrize("wrong", ["01", "1.", ".5", "+1", "1e", "0x10", "1_0", "--1", "nan", "inf", "Infinit"])
def test_b38_invalid_json_number(http: Transport, wrong: str) -> None:
    assert infer(http, "ident_FP32", x("FP32", wrong, 1)).refusal(400)


@on_all
def test_b39_fp64_is_bit_exact(protocol: AnyProtocol) -> None:
    values = [0.1, 1 / 3, 5e-324, 1.7976931348623157e308, -0.0, 123456789.123456789, 2.2250738585072014e-308]
    served(protocol.infer(ident("FP64", values)), tensor("y", "FP64", values))


@pytest.mark.trap("T62")
def test_b39_fp32_is_written_as_its_shortest_text(http: Transport) -> None:
    # Not the double 0.10000000149011612, which is the same FP32.
    reply = infer(http, "ident_FP32", x("FP32", "0.1,0.333333343,16777216,1.5,0.10000000149011612"))
    assert reply.body.endswith(b'"data":[0.1,0.33333334,16777216.0,1.5,0.1]}]}')


@on_all
def test_b39_fp32_is_bit_exact(protocol: AnyProtocol) -> None:
    values = [float(value) for value in np.array([0.1, 1 / 3, 1e-45, 3.4028235e38, -0.0, 16777217.0], np.float32)]
    served(protocol.infer(ident("FP32", values)), tensor("y", "FP32", values))


@pytest.mark.trap("T19")
@pytest.mark.parametrize("datatype", ["FP32", "FP64", "FP16", "BF16"])
def test_b40_nan_and_infinities_as_tokens(http: Transport, datatype: str) -> None:
    returned = echo(http, datatype, "NaN,Infinity,-Infinity")
    assert np.isnan(returned[0])
    assert returned[1:] == [np.inf, -np.inf]


@pytest.mark.parametrize("protocol", UNTYPED, indirect=True)
def test_b41_model_returns_nan(protocol: AnyProtocol) -> None:
    assert protocol.infer(one("nan")).output("y").raw == pack("FP32", [np.nan, np.inf, -np.inf])


@pytest.mark.trap("T19")
def test_b41_nan_tokens(http: Transport) -> None:
    reply = infer(http, "nan", x("FP32", "1"))
    assert reply.body.endswith(b'"data":[NaN,Infinity,-Infinity]}]}')


@pytest.mark.trap("T19")
def test_b41_nan_as_null_in_strict_json() -> None:
    from models.protocol import nan

    with Client(nan, strict_json=True) as client:
        reply = infer(InProcess(client), "nan", x("FP32", "1"))
    assert reply.body.endswith(b'"data":[null,null,null]}]}')


@pytest.mark.trap("T20")
@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_b42_16_bit_floats_round_to_nearest_even(http: Transport, datatype: str) -> None:
    # Halfway between two neighbors of 1 rounds to the one whose last bit is 0; a bit more rounds up.
    step = {"FP16": 2**-10, "BF16": 2**-7}[datatype]
    texts = [1 + step / 2, 1 + 3 * step / 2, 1 + step / 2 + 2**-40, 0.1]
    expected = np.array([1, 1 + 2 * step, 1 + step, 0.1]).astype(DTYPES[datatype]).astype(float).tolist()
    returned = echo(http, datatype, ",".join(repr(text) for text in texts))
    assert np.array(returned).astype(DTYPES[datatype]).astype(float).tolist() == expected


@pytest.mark.parametrize(
    ("datatype", "text"), [("FP16", "65520"), ("FP16", "-1e5"), ("BF16", "3.4e38"), ("BF16", "1e39")]
)
def test_b42_16_bit_floats_out_of_range(http: Transport, datatype: str, text: str) -> None:
    out_of(http, datatype, text)


@pytest.mark.parametrize("protocol", UNTYPED, indirect=True)
def test_b43_half_output(protocol: AnyProtocol) -> None:
    # JSON numbers by the rule of B42, not a refusal.
    served(protocol.infer(one("half", 0.1)), tensor("y", "FP16", [0.1]))


def test_b43_half_output_in_json(http: Transport) -> None:
    (output,) = infer(http, "half", x("FP32", "1.5,65504")).json()["outputs"]
    assert (output["datatype"], output["data"]) == ("FP16", [1.5, 65504])


@pytest.mark.trap("T67")
@on_all
def test_b44_text_round_trips(protocol: AnyProtocol) -> None:
    texts = [*BYTES_IN_JSON, "\u2028", "a" * 70000]
    call = Call("echo_s", (tensor("x", "BYTES", texts),))
    served(protocol.infer(call), tensor("y", "BYTES", texts))


def test_b44_escapes_in_json(http: Transport) -> None:
    data = ",".join(f'"{text}"' for text in BYTES_IN_JSON.values())
    (output,) = infer(http, "echo_s", x("BYTES", data, len(BYTES_IN_JSON))).json()["outputs"]
    assert output["data"] == list(BYTES_IN_JSON)


@pytest.mark.parametrize("wrong", [r'"\x"', r'"\u12"', r'"\ud800"', r'"\udc00\ud800"', '"\n"', '"\x01"', '"open'])
def test_b44_broken_text_in_json(http: Transport, wrong: str) -> None:
    assert infer(http, "echo_s", x("BYTES", wrong, 1)).refusal(400)


def test_b44_non_utf8_text_in_json(http: Transport) -> None:
    body = x("BYTES", '"?"', 1).encode().replace(b"?", b"\xff")
    assert http.request("POST", "/v2/models/echo_s/infer", body).refusal(400)


@pytest.mark.parametrize("wrong", ["1", "true", "null", '{"b64":"aGk="}'])
def test_b45_non_string_bytes_element(http: Transport, wrong: str) -> None:
    message = infer(http, "echo_s", x("BYTES", wrong, 1)).refusal(400)
    assert "'x'" in message
    assert "string" in message


@pytest.mark.trap("T18")
def test_b46_non_utf8_bytes_as_json(http: Transport) -> None:
    message = infer(http, "nonutf8", x("FP32", "1")).refusal(400)
    assert "'y'" in message
    assert "binary" in message


@pytest.mark.parametrize("protocol", [*BINARY, "grpc-raw", "grpc-typed"], indirect=True)
def test_b46_non_utf8_bytes_as_binary(protocol: AnyProtocol) -> None:
    served(protocol.infer(one("nonutf8")), tensor("y", "BYTES", [b"\xff"]))


def test_b47_base64(http: Transport) -> None:
    elements = [b"\xff\x00\xfe", b"", b"text"]
    data = ",".join(json.dumps(base64.b64encode(element).decode()) for element in elements)
    coded = x("BYTES", data, 3, ',"parameters":{"content_type":"base64"}')
    # Requested as binary, the elements are the bytes themselves.
    binary = coded[:-1] + ',"parameters":{"binary_data_output":true}}'
    assert infer(http, "echo_s", binary).tail() == pack("BYTES", elements)
    response = infer(http, "echo_s", coded)
    assert response.status == 200
    assert [base64.b64decode(text, validate=True) for text in response.json()["outputs"][0]["data"]] == elements


@pytest.mark.parametrize("wrong", ["?", "AA", "AA=", "A", "AA==AA==", "A A=", "_-=="])
def test_b47_bad_base64(http: Transport, wrong: str) -> None:
    coded = x("BYTES", json.dumps(wrong), 1, ',"parameters":{"content_type":"base64"}')
    message = infer(http, "echo_s", coded).refusal(400)
    assert "'x'" in message
    assert "base64" in message


@pytest.mark.trap("T17")
def test_b47_base64_like_text_is_not_decoded(http: Transport) -> None:
    assert infer(http, "echo_s", x("BYTES", '"aGk="', 1)).json()["outputs"][0]["data"] == ["aGk="]
