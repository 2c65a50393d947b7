"""tritonclient as published: HTTP and gRPC, both also asynchronous (cases G1, G3 and part of G9)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as tgrpc
import tritonclient.grpc.aio as tgrpc_aio
import tritonclient.http as thttp
import tritonclient.http.aio as thttp_aio
from tritonclient.utils import InferenceServerException

from penstock import Server

from .content import DTYPES, SAMPLES

MODULES: dict[str, Any] = {"http": thttp, "grpc": tgrpc, "http.aio": thttp_aio, "grpc.aio": tgrpc_aio}
DATATYPES = list(SAMPLES)
AS_NUMBERS = [name for name in DATATYPES if name not in ("FP16", "BF16")]
"""Datatypes that the client can send as JSON."""

every_client = pytest.mark.parametrize("kind", MODULES)


class AnyClient:
    """One of the four clients with the same methods; the asynchronous ones run to the end of each call."""

    def __init__(self, kind: str, server: Server) -> None:
        self.kind, self.module = kind, MODULES[kind]
        self.address = server.http_url.removeprefix("http://") if "http" in kind else server.grpc_url

    def __call__(self, method: str, *arguments: Any, **options: Any) -> Any:
        if not self.kind.endswith("aio"):
            with self.module.InferenceServerClient(self.address) as client:
                return getattr(client, method)(*arguments, **options)

        async def call() -> Any:
            async with self.module.InferenceServerClient(self.address) as client:
                return await getattr(client, method)(*arguments, **options)

        return asyncio.run(call())

    def tensor(self, name: str, array: np.ndarray[Any, Any], datatype: str, **options: Any) -> Any:
        tensor = self.module.InferInput(name, list(array.shape), datatype)
        tensor.set_data_from_numpy(array, **options)
        return tensor


def array_of(datatype: str) -> np.ndarray[Any, Any]:
    if datatype == "BYTES":
        return np.array([b"h\xc3\xa9llo", b"", b'\x00\n"\\'], object)
    return (
        np.array(SAMPLES[datatype]).astype(DTYPES[datatype])
        if "INT" not in datatype
        else np.array(SAMPLES[datatype], DTYPES[datatype])
    )


def equal(result_array: np.ndarray[Any, Any], sent: np.ndarray[Any, Any]) -> bool:
    if sent.dtype == object:
        elements = [item.encode() if isinstance(item, str) else item for item in result_array.tolist()]
        return elements == sent.tolist()
    return result_array.dtype == sent.dtype and result_array.tobytes() == sent.tobytes()


@pytest.fixture
def client(server: Server, request: pytest.FixtureRequest) -> AnyClient:
    return AnyClient(request.getfixturevalue("kind"), server)


@every_client
@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype_as_binary(client: AnyClient, kind: str, datatype: str) -> None:
    sent = array_of(datatype)
    result = client("infer", f"ident_{datatype}", [client.tensor("x", sent, datatype)])
    assert equal(result.as_numpy("y"), sent)


@pytest.mark.parametrize("kind", ["http", "http.aio"])
@pytest.mark.parametrize("datatype", AS_NUMBERS)
def test_every_datatype_as_json(client: AnyClient, kind: str, datatype: str) -> None:
    sent = array_of(datatype)
    outputs = [client.module.InferRequestedOutput("y", binary_data=False)]
    tensor_in = client.tensor("x", sent, datatype, binary_data=False)
    result = client("infer", f"ident_{datatype}", [tensor_in], outputs=outputs)
    assert equal(result.as_numpy("y"), sent)


@pytest.mark.trap("T16")
@pytest.mark.parametrize("kind", ["http", "http.aio"])
@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype_returned_as_json(client: AnyClient, kind: str, datatype: str) -> None:
    sent = array_of(datatype)
    outputs = [client.module.InferRequestedOutput("y", binary_data=False)]
    result = client("infer", f"ident_{datatype}", [client.tensor("x", sent, datatype)], outputs=outputs)
    output = result.get_output("y")
    assert output["datatype"] == datatype
    assert "parameters" not in output
    if datatype in ("FP16", "BF16"):
        assert np.array(output["data"]).astype(sent.dtype).tobytes() == sent.tobytes()
    else:
        assert equal(result.as_numpy("y"), sent)


@every_client
@pytest.mark.parametrize("datatype", DATATYPES)
def test_no_elements(client: AnyClient, kind: str, datatype: str) -> None:
    sent = array_of(datatype)[:0]
    result_array = client("infer", f"ident_{datatype}", [client.tensor("x", sent, datatype)]).as_numpy("y")
    assert result_array.shape == (0,)


@every_client
def test_several_inputs_outputs_and_an_id(client: AnyClient, kind: str) -> None:
    a, b = np.arange(8, dtype=np.float32).reshape(2, 4), np.ones((2, 4), np.float32)
    result = client(
        "infer",
        "add",
        [client.tensor("b", b, "FP32"), client.tensor("a", a, "FP32")],
        outputs=[client.module.InferRequestedOutput("sum")],
        request_id="42",
        priority=1,
        timeout=20_000_000,
        parameters={"own": "text", "count": 3, "flag": True, "ratio": 0.5},
    )
    np.testing.assert_array_equal(result.as_numpy("sum"), a + b)
    response = result.get_response()
    assert (response["id"] if "http" in kind else response.id) == "42"


@every_client
def test_outputs_in_the_requested_order(client: AnyClient, kind: str) -> None:
    outputs = [client.module.InferRequestedOutput(name) for name in ("o2", "o1")]
    result = client("infer", "two_out", [client.tensor("x", np.array([1.5], np.float32), "FP32")], outputs=outputs)
    assert result.as_numpy("o2").tolist() == [1]
    assert result.as_numpy("o1").tolist() == [3.0]


@every_client
@pytest.mark.parametrize(("version", "expected"), [("", 2), ("1", 1), ("2", 2)])
def test_versions(client: AnyClient, kind: str, version: str, expected: int) -> None:
    tensor_in = client.tensor("x", np.zeros(1, np.float32), "FP32")
    assert client("infer", "ver", [tensor_in], model_version=version).as_numpy("version").tolist() == [expected]


@every_client
def test_health_and_metadata(client: AnyClient, kind: str) -> None:
    assert client("is_server_live") is True
    assert client("is_server_ready") is True
    assert client("is_model_ready", "add") is True
    assert client("is_model_ready", "ver", "1") is True
    options = {} if "http" in kind else {"as_json": True}
    assert client("get_server_metadata", **options)["name"] == "penstock"
    metadata = client("get_model_metadata", "add", **options)
    assert [tensor["name"] for tensor in metadata["inputs"]] == ["a", "b"]
    assert metadata["versions"] == ["1"]


@every_client
def test_statistics(client: AnyClient, kind: str) -> None:
    options = {} if "http" in kind else {"as_json": True}
    tensor_in = [client.tensor(name, np.ones((3, 4), np.float32), "FP32") for name in "ab"]
    before = client("get_inference_statistics", "add", "1", **options)["model_stats"][0]
    client("infer", "add", tensor_in)
    after = client("get_inference_statistics", "add", "1", **options)["model_stats"][0]
    # Over gRPC the client omits zeros, and writes 64-bit integers as text.
    more = [int(stats.get("inference_count", 0)) for stats in (before, after)]
    assert more[1] - more[0] == 3
    every = client("get_inference_statistics", **options)["model_stats"]
    assert {"add", "ver"} <= {stats["name"] for stats in every}
    with pytest.raises(InferenceServerException, match="'none'"):
        client("get_inference_statistics", "none")


@every_client
def test_log_settings(client: AnyClient, kind: str) -> None:
    options = {} if "http" in kind else {"as_json": True}

    def read(settings: Any) -> dict[str, Any]:
        if "http" in kind:
            return dict(settings)
        # Over gRPC the client omits false, zero and empty values, and adds the type of others.
        return {name: next(iter(value.values()), None) for name, value in settings["settings"].items()}

    before = read(client("get_log_settings", **options))
    assert (before["log_warning"], before["log_format"]) == (True, "ISO8601")
    try:
        changed = {"log_info": True, "log_verbose_level": 1, "log_format": "default"}
        assert read(client("update_log_settings", changed, **options)).items() >= changed.items()
        assert read(client("get_log_settings", **options)).items() >= changed.items()
    finally:
        client("update_log_settings", {"log_info": False, "log_verbose_level": 0, "log_format": "ISO8601"})
    assert read(client("get_log_settings", **options)) == before
    with pytest.raises(InferenceServerException, match="log_file") as refusal:
        client("update_log_settings", {"log_file": "here"})
    assert refusal.value.status() == ("501", "StatusCode.UNIMPLEMENTED")["grpc" in kind]


@every_client
def test_trace_settings(client: AnyClient, kind: str) -> None:
    options = {} if "http" in kind else {"as_json": True}

    def read(settings: Any) -> dict[str, Any]:
        return dict(settings) if "http" in kind else {k: v["value"] for k, v in settings["settings"].items()}

    def one(text: str) -> Any:
        return text if "http" in kind else [text]

    settings = read(client("get_trace_settings", **options))
    assert (settings["trace_level"], settings["trace_rate"]) == (["OFF"], one("1000"))
    updated = client("update_trace_settings", "add", {"trace_rate": "5", "trace_level": ["OFF"]}, **options)
    assert read(updated)["trace_rate"] == one("5")
    assert read(client("get_trace_settings", "add", **options))["trace_rate"] == one("5")
    assert read(client("get_trace_settings", **options))["trace_rate"] == one("1000")
    cleared = client("update_trace_settings", "add", {"trace_rate": None}, **options)
    assert read(cleared)["trace_rate"] == one("1000")
    with pytest.raises(InferenceServerException, match="writes no trace files") as refusal:
        client("update_trace_settings", settings={"trace_level": ["TIMESTAMPS"]})
    assert refusal.value.status() == ("501", "StatusCode.UNIMPLEMENTED")["grpc" in kind]


@every_client
def test_configuration(client: AnyClient, kind: str) -> None:
    options = {} if "http" in kind else {"as_json": True}
    config = client("get_model_config", "add", **options)
    config = config.get("config", config)
    assert (config["name"], config["max_batch_size"], config["backend"]) == ("add", 8, "python")
    assert [tensor["data_type"] for tensor in config["input"]] == ["TYPE_FP32"] * 2


@every_client
@pytest.mark.parametrize(
    ("model", "shape", "status", "text"),
    [
        ("none", [1], ("404", "StatusCode.NOT_FOUND"), "'none'"),
        ("ident_FP32", [1, 1], ("400", "StatusCode.INVALID_ARGUMENT"), "[1, 1]"),
        ("boom", [1], ("500", "StatusCode.INTERNAL"), "'boom'"),
        ("typed_err", [1], ("404", "StatusCode.NOT_FOUND"), "no entry for 0.0"),
    ],
)
def test_refusals(
    client: AnyClient, kind: str, model: str, shape: list[int], status: tuple[str, str], text: str
) -> None:
    with pytest.raises(InferenceServerException) as refusal:
        client("infer", model, [client.tensor("x", np.zeros(shape, np.float32), "FP32")])
    assert refusal.value.status() == status["grpc" in kind]
    assert text in refusal.value.message()


@pytest.mark.parametrize("kind", ["http", "http.aio"])
def test_non_text_bytes(client: AnyClient, kind: str) -> None:
    tensor_in = [client.tensor("x", np.zeros(1, np.float32), "FP32")]
    assert client("infer", "nonutf8", tensor_in).as_numpy("y").tolist() == [b"\xff"]
    outputs = [client.module.InferRequestedOutput("y", binary_data=False)]
    with pytest.raises(InferenceServerException, match="binary"):
        client("infer", "nonutf8", tensor_in, outputs=outputs)


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
@pytest.mark.parametrize("kind", ["grpc", "grpc.aio"])
def test_compressed_calls(client: AnyClient, kind: str, algorithm: str) -> None:
    sent = np.zeros(10_000, np.float32)
    tensor_in = [client.tensor("x", sent, "FP32")]
    result = client("infer", "ident_FP32", tensor_in, compression_algorithm=algorithm)
    assert equal(result.as_numpy("y"), sent)


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_many_calls_at_once(server: Server, kind: str) -> None:
    any_client = AnyClient(kind, server)
    options = {"concurrency": 8} if kind == "http" else {}
    with any_client.module.InferenceServerClient(any_client.address, **options) as client:
        arrays = [np.full((1, 4), number, np.float32) for number in range(64)]
        inputs = [[any_client.tensor(name, array, "FP32") for name in "ab"] for array in arrays]
        if kind == "http":
            results = [call.get_result() for call in [client.async_infer("add", tensor_in) for tensor_in in inputs]]
        else:
            completed: list[tuple[int, Any]] = []
            for number, tensor_in in enumerate(inputs):
                client.async_infer(
                    "add", tensor_in, lambda result, error, number=number: completed.append((number, error or result))
                )
            from waiting import until

            until(lambda: len(completed) == len(arrays), "all responses")
            results = [result for _, result in sorted(completed, key=lambda entry: entry[0])]
        for array, result in zip(arrays, results, strict=True):
            np.testing.assert_array_equal(result.as_numpy("sum"), array * 2)


def test_bfloat16_arrays_are_ml_dtypes(server: Server) -> None:
    client = AnyClient("grpc", server)
    sent = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    result_array = client("infer", "ident_BF16", [client.tensor("x", sent, "BF16")]).as_numpy("y")
    assert result_array.tobytes() == sent.tobytes()


@pytest.mark.trap("T26")
@pytest.mark.parametrize(
    "order",
    [("penstock", "tritonclient.grpc", "tritonclient.http"), ("tritonclient.http", "tritonclient.grpc", "penstock")],
)
def test_g9_client_and_server_in_one_process(order: tuple[str, ...]) -> None:
    # A process may register the protocol's messages once: the client's are, Penstock's must not be.
    program = f"""
import importlib, json
for name in {order!r}:
    importlib.import_module(name)
import numpy as np, tritonclient.grpc as client
from penstock import Server, ServerConfig, Tensor, model
one = model(lambda x: x * 2, name="m", inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])])
with Server(one, config=ServerConfig(http=None, grpc="127.0.0.1:0")) as server:
    tensor = client.InferInput("x", [2], "FP32")
    tensor.set_data_from_numpy(np.array([1, 2], np.float32))
    with client.InferenceServerClient(server.grpc_url) as connection:
        print(json.dumps(connection.infer("m", [tensor]).as_numpy("y").tolist()))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [2.0, 4.0]
