"""Compressed bodies over REST (cases C20 to C28, G2 and G4; T5, T6, T7 and T66)."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import brotli
import numpy as np
import pytest
import tritonclient.http as thttp
import tritonclient.http.aio as thttp_aio
import zstandard
from tritonclient.utils import InferenceServerException

from models.protocol import MODELS
from penstock import Server, ServerConfig
from penstock.testing import Client

from .content import add, summed, tensor
from .protocols import BINARY, JSON, HttpProtocol, decode, served
from .transports import InProcess, Reply, Rest, Transport

PATH = "/v2/models/ident_FP32/infer"


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=4),
    "zstd": zstandard.compress,
}

DECODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "deflate": zlib.decompress,
    "zstd": lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data),
}


@pytest.fixture(scope="module")
def compressing() -> Iterator[Server]:
    config = ServerConfig(http="127.0.0.1:0", grpc=None, compress_answers=True)
    with Server(*MODELS, config=config) as server:
        yield server


@pytest.fixture(scope="module")
def compressing_in_process() -> Iterator[InProcess]:
    with Client(*MODELS, compress_answers=True) as client:
        yield InProcess(client)


@pytest.fixture(params=["rest", "in-process"])
def compressed(request: pytest.FixtureRequest, compressing: Server, compressing_in_process: InProcess) -> Transport:
    """A server that compresses its responses."""
    return Rest(compressing.http_url) if request.param == "rest" else compressing_in_process


def with_zeros(count: int, *, binary: bool = False, outputs: dict[str, Any] | None = None) -> bytes:
    """A request of `count` zeros, for `ident_FP32`."""
    given = {"name": "x", "shape": [count], "datatype": "FP32", "data": [0] * count}
    parameters = {"binary_data_output": binary}
    return json.dumps({"inputs": [given], "parameters": parameters, **(outputs or {})}).encode()


def inflated(reply: Reply) -> Reply:
    """A reply, inflated as a client would do it."""
    coding = reply.headers["content-encoding"]
    return Reply(reply.status, reply.headers, DECODERS[coding](reply.body))


@pytest.mark.parametrize("coding", [*CODERS, "GZIP", "x-gzip"])
@pytest.mark.parametrize("protocol", BINARY + JSON, indirect=True)
def test_c20_compressed_request(protocol: HttpProtocol, coding: str) -> None:
    body, headers = protocol.encode(add(rows=8))
    small = CODERS.get(coding, gzip.compress)(body)
    headers["Content-Encoding"] = coding
    served(decode(protocol.transport.request("POST", "/v2/models/add/infer", small, headers)), summed(8))


@pytest.mark.trap("T5")
@pytest.mark.parametrize("coding", CODERS)
def test_c20_length_beyond_the_inflated_body(http: Transport, coding: str) -> None:
    body = with_zeros(100)
    headers = {"Content-Encoding": coding, "Inference-Header-Content-Length": str(len(body) + 1)}
    message = http.request("POST", PATH, CODERS[coding](body), headers).refusal(400)
    assert f"is {len(body) + 1}, expected 0 to the body's {len(body)} bytes" in message
    # T5: the whole body is JSON, and longer than the compressed bytes.
    small = CODERS[coding](body)
    assert len(small) < len(body)
    headers["Inference-Header-Content-Length"] = str(len(body))
    assert http.request("POST", PATH, small, headers).status == 200


@pytest.mark.parametrize("coding", CODERS)
def test_c20_large_request(http: Transport, coding: str) -> None:
    # Large enough for inflation on another thread, in several steps.
    sent = np.random.default_rng(0).integers(0, 100, 1 << 20).astype(np.float32)
    text = json.dumps(
        {
            "inputs": [
                {
                    "name": "x",
                    "shape": [sent.size],
                    "datatype": "FP32",
                    "parameters": {"binary_data_size": sent.nbytes},
                }
            ],
            "parameters": {"binary_data_output": True},
        }
    ).encode()
    headers = {"Content-Encoding": coding, "Inference-Header-Content-Length": str(len(text))}
    reply = http.request("POST", PATH, CODERS[coding](text + sent.tobytes()), headers)
    assert reply.status == 200, reply.body[:300]
    assert reply.tail() == sent.tobytes()


@pytest.mark.trap("T66")
def test_c21_raw_deflate(http: Transport) -> None:
    reply = http.request("POST", PATH, raw_deflate(with_zeros(100)), {"Content-Encoding": "deflate"})
    served(decode(reply), tensor("y", "FP32", [0.0] * 100))


@pytest.mark.parametrize("coding", CODERS)
def test_c23_corrupt(http: Transport, coding: str) -> None:
    data = CODERS[coding](with_zeros(1000))
    headers = {"Content-Encoding": coding}
    cut = http.request("POST", PATH, data[:-1], headers).refusal(400)
    assert cut == f"the request's body ends before its {coding} data does"
    wrong = http.request("POST", PATH, b"\xff" * 100, headers).refusal(400)
    assert wrong.startswith(f"the request's body is not valid {coding} data")
    # Not compressed at all, like a client that only sets the header.
    assert coding in http.request("POST", PATH, b'{"inputs":[]}', headers).refusal(400)


@pytest.mark.parametrize("coding", CODERS)
def test_c24_bomb(http: Transport, coding: str) -> None:
    headers = {"Content-Encoding": coding}
    over_size = http.request("POST", PATH, CODERS[coding](bytes(200 << 20)), headers).refusal(413)
    assert over_size == "the request's body inflates to more than 100 times its size, which is not accepted"
    settings: Any = {"max_body_bytes": 2 << 20, "max_inflate_ratio": 1 << 30}
    with Client(*MODELS, **settings) as client:
        message = InProcess(client).request("POST", PATH, CODERS[coding](bytes(8 << 20)), headers).refusal(413)
    assert message == f"the request's body inflates to more than {2 << 20} bytes, at most {2 << 20} are accepted"


@pytest.mark.trap("T7")
@pytest.mark.parametrize("coding", DECODERS)
@pytest.mark.parametrize("binary", [False, True])
def test_c25_compressed_response(compressed: Transport, coding: str, binary: bool) -> None:
    """T7: a compressed response has `Content-Encoding`."""
    reply = compressed.request("POST", PATH, with_zeros(5000, binary=binary), {"Accept-Encoding": coding})
    assert reply.status == 200
    assert reply.headers["content-encoding"] == coding
    assert reply.headers["vary"] == "Accept-Encoding"
    assert len(reply.body) < 1000
    assert int(reply.headers["content-length"]) == len(reply.body) if "content-length" in reply.headers else True
    whole = inflated(reply)
    if binary:
        assert whole.tail() == bytes(20_000)
    assert whole.json()["outputs"][0]["shape"] == [5000]


def test_c25_small_responses_are_not_compressed(compressed: Transport) -> None:
    for count, expected in ((10, False), (250, True)):
        reply = compressed.request("POST", PATH, with_zeros(count), {"Accept-Encoding": "gzip"})
        assert ("content-encoding" in reply.headers) == expected, len(reply.body)
        assert reply.headers["vary"] == "Accept-Encoding"


def test_c25_incompressible_responses_are_sent_uncompressed(compressed: Transport) -> None:
    noise = np.random.default_rng(0).integers(0, 2**32, 10_000, np.uint32).tobytes()
    text = b'{"inputs":[{"name":"x","shape":[10000],"datatype":"UINT32","parameters":{"binary_data_size":40000}}],'
    text += b'"parameters":{"binary_data_output":true}}'
    headers = {"Accept-Encoding": "zstd", "Inference-Header-Content-Length": str(len(text))}
    reply = compressed.request("POST", "/v2/models/ident_UINT32/infer", text + noise, headers)
    if "content-encoding" in reply.headers:
        reply = inflated(reply)
    assert reply.tail() == noise


def test_c25_off_by_default(http: Transport) -> None:
    reply = http.request("POST", PATH, with_zeros(5000), {"Accept-Encoding": "gzip, deflate, br, zstd"})
    assert "content-encoding" not in reply.headers
    assert "vary" not in reply.headers


@pytest.mark.trap("T66")
def test_c26_deflate_is_zlib(compressed: Transport) -> None:
    """T66."""
    reply = compressed.request("POST", PATH, with_zeros(5000), {"Accept-Encoding": "deflate"})
    assert reply.headers["content-encoding"] == "deflate"
    assert reply.body[0] & 0x0F == 8
    assert json.loads(zlib.decompress(reply.body))["outputs"]


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip;q=0, deflate;q=0.5", "deflate"),
        ("gzip, deflate, br", "gzip"),
        ("br;q=1, zstd;q=1, deflate;q=0.1", "deflate"),
        ("br;q=0.1, zstd", "zstd"),
        ("*", None),
        ("identity, gzip;q=0.5", None),
        ("gzip;q=0", None),
        ("br", None),
        ("lzma", None),
    ],
)
def test_c27_weights(compressed: Transport, accepted: str, coding: str | None) -> None:
    reply = compressed.request("POST", PATH, with_zeros(5000), {"Accept-Encoding": accepted})
    assert reply.status == 200
    assert reply.headers.get("content-encoding") == coding


@pytest.mark.trap("T6")
def test_c28_only_successful_inference_responses_are_compressed(compressed: Transport) -> None:
    """T6."""
    headers = {"Accept-Encoding": "gzip, deflate, br"}
    for path in ("/v2", "/v2/models", "/v2/models/add", "/v2/models/add/config", "/metrics"):
        reply = compressed.request("GET", path, headers=headers)
        assert reply.status == 200
        assert "content-encoding" not in reply.headers
    compressed.request("GET", "/v2/models/none", headers=headers).refusal(404)
    compressed.request("POST", PATH, b"x" * 5000, headers).refusal(400)
    compressed.request("POST", "/v2/models/boom/infer", with_zeros(1), headers).refusal(500)


CLIENTS: list[Any] = [thttp, thttp_aio]
ALGORITHMS = [None, "gzip", "deflate"]


async def called(client: Any, method: str, *arguments: Any, **options: Any) -> Any:
    result = getattr(client, method)(*arguments, **options)
    return await result if asyncio.iscoroutine(result) else result


@pytest.mark.parametrize("response_coding", ALGORITHMS)
@pytest.mark.parametrize("request_coding", ALGORITHMS)
@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
@pytest.mark.parametrize("module", CLIENTS, ids=["sync", "aio"])
def test_g4_algorithms(
    compressing: Server, module: Any, request_coding: str, response_coding: str, binary: bool
) -> None:
    sent = np.arange(5000, dtype=np.float32) % 10
    given = module.InferInput("x", [5000], "FP32")
    given.set_data_from_numpy(sent, binary_data=binary)
    outputs = [module.InferRequestedOutput("y", binary_data=binary)]
    options = {"request_compression_algorithm": request_coding, "response_compression_algorithm": response_coding}

    async def run() -> Any:
        client = module.InferenceServerClient(compressing.http_url.removeprefix("http://"))
        result = await called(client, "infer", "ident_FP32", [given], outputs=outputs, **options)
        await called(client, "close")
        return result

    result = asyncio.run(run())
    assert (result.as_numpy("y") == sent).all()


@pytest.mark.trap("T6")
def test_g2_aio_with_compression_on(compressing: Server) -> None:
    async def run() -> None:
        async with thttp_aio.InferenceServerClient(compressing.http_url.removeprefix("http://")) as client:
            assert await client.is_server_live()
            assert await client.is_server_ready()
            assert await client.is_model_ready("add")
            assert (await client.get_server_metadata())["name"] == "penstock"
            assert (await client.get_model_metadata("add"))["name"] == "add"
            assert (await client.get_model_config("add"))["name"] == "add"
            given = thttp_aio.InferInput("x", [5000], "FP32")
            given.set_data_from_numpy(np.zeros(5000, np.float32))
            result = await client.infer("ident_FP32", [given])
            assert result.as_numpy("y").shape == (5000,)
            wrong = thttp_aio.InferInput("x", [5000], "FP32")
            wrong.set_data_from_numpy(np.zeros(5000, np.float32))
            with pytest.raises(InferenceServerException, match="unexpected input 'x'"):
                await client.infer("add", [wrong])

    asyncio.run(run())
