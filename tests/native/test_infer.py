"""Inference over every kind of URL."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

from native_models import DATATYPES
from penstock import AsyncClient, Client, InvalidInput, NotFound

Array = np.ndarray[Any, Any]


def test_array_round_trips(client: Client, x: Array) -> None:
    result = client.infer("double", x=x)
    assert (result.model, result.version, result.id) == ("double", "1", "")
    assert list(result) == ["y"]
    for y in (result["y"], result.y, result.value):
        np.testing.assert_array_equal(y, x * 2)
    assert result.y.dtype == np.float32
    assert result.y.flags.writeable
    assert result.y.ctypes.data % 64 == 0
    assert repr(result) == "<Result of 'double': y=float32[2, 3]>"


def test_inputs_may_be_a_mapping_or_keywords(client: Client) -> None:
    a, b = np.float32([1, 2]), np.float32([10, 20])
    for result in (client.infer("arithmetic", {"a": a, "b": b}), client.infer("arithmetic", {"a": a}, b=b)):
        assert result["sum"].tolist() == [11, 22]
        assert result.difference.tolist() == [-9, -18]
    with pytest.raises(ValueError, match=r"the result has 2 outputs \(sum, difference\): name one"):
        _ = result.value
    with pytest.raises(KeyError, match="there is no output 'z', there are sum, difference"):
        _ = result["z"]
    with pytest.raises(AttributeError, match="there is no output 'z', there are sum, difference"):
        _ = result.z


def test_requested_outputs_are_selected_and_ordered(client: Client) -> None:
    ones = np.ones(2, np.float32)
    assert list(client.infer("arithmetic", a=ones, b=ones, outputs=["difference", "sum"])) == ["difference", "sum"]
    assert list(client.infer("arithmetic", a=ones, b=ones, outputs=["difference"])) == ["difference"]


@pytest.mark.parametrize("shape", [(2, 3), (1, 1), (0, 3), (2, 0)], ids=str)
@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype_round_trips(client: Client, datatype: str, shape: tuple[int, int]) -> None:
    values = (np.arange(shape[0] * shape[1]) % 7).reshape(shape).astype(DATATYPES[datatype])
    result = client.infer(f"same_{datatype}", x=values, datatypes={"x": datatype})
    assert result.y.dtype == values.dtype
    np.testing.assert_array_equal(result.y, values)


@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype_round_trips_as_json(urls: dict[str, str], datatype: str) -> None:
    values = (np.arange(6) % 7).reshape(2, 3).astype(DATATYPES[datatype])
    with Client(urls["http"], binary=False) as client:
        result = client.infer(f"same_{datatype}", x=values, datatypes={"x": datatype})
    assert result.y.dtype == values.dtype
    np.testing.assert_array_equal(result.y, values)


def test_extreme_values_round_trip(client: Client) -> None:
    for datatype, values in [
        ("INT64", np.array([[-(2**63), 2**63 - 1]])),
        ("UINT64", np.array([[0, 2**64 - 1]], np.uint64)),
        ("FP32", np.array([[np.nan, np.inf, -np.inf, -0.0]], np.float32)),
    ]:
        y = client.infer(f"same_{datatype}", x=values).y
        assert y.tobytes() == values.tobytes()


def test_bytes_elements_round_trip(client: Client) -> None:
    values = np.array([[b"", b"\xff\x00"], ["text", "\u00e9"]], object)
    y = client.infer("same_BYTES", x=values).y
    assert y.dtype == object
    assert y.tolist() == [[b"", b"\xff\x00"], [b"text", "\u00e9".encode()]]
    fixed = client.infer("same_BYTES", x=np.array([["ab", "c"]])).y
    assert fixed.tolist() == [[b"ab", b"c"]]


def test_ml_dtypes_arrays_are_sent_unconverted(client: Client) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.array([[1.5, -2]], ml_dtypes.bfloat16)
    assert client.infer("same_BF16", x=values).y.tolist() == [[1.5, -2]]


def test_non_contiguous_arrays_are_copied_to_row_major_order(client: Client) -> None:
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    for values in (base.T, base[:, ::2], base[::-1], np.asfortranarray(base), base.astype(">f4")):
        np.testing.assert_array_equal(client.infer("same_FP32", x=values).y, values)


def test_python_values_are_converted_to_the_models_datatype(client: Client) -> None:
    assert client.infer("upper", text="hello").text == "HELLO"
    assert client.infer("upper", text=b"hello").text == "HELLO"
    assert client.infer("add", a=2, b=0.5).value.item() == 2.5
    assert client.infer("double", x=[1, 2, 3]).y.tolist() == [[2, 4, 6]]
    assert client.infer("double", x=[[1, 2, 3], [4, 5, 6]]).y.tolist() == [[2, 4, 6], [8, 10, 12]]
    assert client.infer("same_UINT8", x=[[1.0, 255]]).y.tolist() == [[1, 255]]
    assert client.infer("same_BYTES", x=[["a", b"b"]]).y.tolist() == [[b"a", b"b"]]


def test_invalid_arguments_are_rejected_with_the_reason(client: Client, x: Array) -> None:
    with pytest.raises(InvalidInput, match="model 'double' has no input 'z', it has x"):
        client.infer("double", z=[1])
    with pytest.raises(
        InvalidInput, match="input 'x' cannot be converted to FP32: could not convert string to float: 'a'"
    ):
        client.infer("double", x=["a", "b", "c"])
    with pytest.raises(InvalidInput, match=r"input 'x' cannot be converted to UINT8: got 1\.5 at index \[0, 1\]"):
        client.infer("same_UINT8", x=[[1.0, 1.5]])
    with pytest.raises(InvalidInput, match="input 'x' cannot be converted to UINT8: got 300 at index 0, expected"):
        client.infer("same_UINT8", x=[300])
    with pytest.raises(InvalidInput, match="input 'x' cannot be converted to INT64: got nan at index 0, expected"):
        client.infer("same_INT64", x=[float("nan")])
    with pytest.raises(InvalidInput, match="input 'x' is an array of float64, expected UINT8"):
        client.infer("same_UINT8", x=np.ones((1, 2)), datatypes={"x": "UINT8"})
    with pytest.raises(InvalidInput, match="input 'x' is an array of complex128, expected a type that the protocol"):
        client.infer("double", x=x.astype(complex))
    with pytest.raises(InvalidInput, match="input 'x' is an array of float32, expected INT8"):
        client.infer("double", x=x, datatypes={"x": "INT8"})
    with pytest.raises(InvalidInput, match="input 'x' has an element of type int, expected bytes or str"):
        client.infer("same_BYTES", x=np.array([[1]], object))
    with pytest.raises(InvalidInput, match=r"parameter 'p' is a list, expected a bool, an int of 64 bits"):
        client.infer("double", x=x, parameters={"p": [1]})  # type: ignore[dict-item]
    with pytest.raises(InvalidInput, match="header 'content-length' is the client's own"):
        client.infer("double", x=x, headers={"content-length": "1"})
    with pytest.raises(InvalidInput, match="header 'a' cannot be sent as it is"):
        client.infer("double", x=x, headers={"a": "b\r\nc: d"})


def test_server_errors_raise_their_own_class(client: Client, x: Array) -> None:
    is_grpc = client.url.startswith("grpc")
    with pytest.raises(NotFound, match="nope") as raised:
        client.infer("nope", x=x)
    assert raised.value.status == (5 if is_grpc else 404)
    with pytest.raises(InvalidInput, match="input 'x'") as refused:
        client.infer("double", x=x.astype(np.float64))
    assert refused.value.status == (3 if is_grpc else 400)
    assert client.infer("double", x=x).y[1, 2] == 10, "the connection is still usable"


@pytest.mark.trap("T68")
def test_request_attributes_reach_the_handler(client: Client) -> None:
    result = client.infer(
        "seen",
        x=np.int32(1),
        request_id="id-7",
        parameters={"b": True, "i": -3, "f": 0.25, "s": "text"},
        headers={"X-Mine": "yes"},
        timeout=20,
        version="1",
    )
    attributes = ast.literal_eval(result.text)
    assert attributes["id"] == result.id == "id-7"
    assert attributes["parameters"] == {"b": True, "i": -3, "f": 0.25, "s": "text"}
    assert attributes["header"] == "yes"
    assert attributes["has_deadline"]
    assert attributes["version"] == result.version == "1"
    assert result.parameters["answered"] is True
    assert result.parameters["share"] == 0.5
    assert not ast.literal_eval(client.infer("seen", x=np.int32(1), timeout=None).text)["has_deadline"]


def test_client_headers_are_sent_with_every_call(url: str) -> None:
    with Client(url, headers={"x-mine": "all"}) as client:
        assert ast.literal_eval(client.infer("seen", x=np.int32(1)).text)["header"] == "all"


@pytest.mark.parametrize("megabytes", [1, 5, 40])
def test_large_tensors_round_trip(client: Client, megabytes: int) -> None:
    values = np.random.default_rng(0).random(megabytes * 250_000, np.float32)
    y = client.infer("large", x=values).y
    np.testing.assert_array_equal(y, values + 1)
    assert y.ctypes.data % 64 == 0


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_compressed_grpc_requests_round_trip(urls: dict[str, str], encoding: str, x: Array) -> None:
    with Client(urls["grpc"], compression=encoding, accept_compression=True) as client:
        np.testing.assert_array_equal(client.infer("double", x=x).y, x * 2)


def test_server_and_model_metadata_are_available(client: Client) -> None:
    assert client.live()
    assert client.ready()
    assert client.model_ready("double")
    assert client.server_metadata()["name"] == "penstock"
    metadata = client.metadata("double")
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}]
    config = client.config("double")
    assert config["max_batch_size"] == 8
    assert config["input"][0]["data_type"] == "TYPE_FP32"
    with pytest.raises(NotFound):
        client.metadata("nope")
    if client.url.startswith("grpc"):
        assert not client.model_ready("nope")
    else:
        with pytest.raises(NotFound):
            client.model_ready("nope")


def test_closed_client_raises(url: str, x: Array) -> None:
    client = Client(url)
    client.infer("double", x=x)
    client.close()
    with pytest.raises(Exception, match=r"the client of .* is closed"):
        client.infer("double", x=x)
    assert repr(client) == f"<Client of {url}, closed>"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("localhost:8000", "has a scheme that is not known, expected http://HOST:PORT"),
        ("grpc://h", "has no port"),
    ],
)
def test_invalid_urls_are_rejected(wrong: str, message: str) -> None:
    for client_class in (Client, AsyncClient):
        with pytest.raises(InvalidInput, match=message):
            client_class(wrong)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"retry": 1}, TypeError, "a client has no option 'retry', did you mean"),
        ({"timeout": -1}, ValueError, "timeout is -1, expected a number of seconds of 0 or more, or None"),
        ({"retries": 1.5}, ValueError, "retries is 1.5, expected an integer of 0 or more"),
        ({"compression": "br"}, ValueError, 'compression "br" is not known, expected gzip, deflate or zstd'),
        ({"headers": {"te": "x"}}, InvalidInput, "header 'te' is the client's own"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Client("http://127.0.0.1:1", **options)
