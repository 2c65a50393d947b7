"""tritonclient as its users have it: HTTP and gRPC, both also asynchronous (cases G1, G3 and G9 in part)."""

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
"""Those that the client itself is willing to send as JSON."""

every_client = pytest.mark.parametrize("kind", MODULES)


class Caller:
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


def equal(found: np.ndarray[Any, Any], sent: np.ndarray[Any, Any]) -> bool:
    if sent.dtype == object:
        elements = [item.encode() if isinstance(item, str) else item for item in found.tolist()]
        return elements == sent.tolist()
    return found.dtype == sent.dtype and found.tobytes() == sent.tobytes()


@pytest.fixture
def caller(server: Server, request: pytest.FixtureRequest) -> Caller:
    return Caller(request.getfixturevalue("kind"), server)


@every_client
@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype_as_binary(caller: Caller, kind: str, datatype: str) -> None:
    sent = array_of(datatype)
    result = caller("infer", f"ident_{datatype}", [caller.tensor("x", sent, datatype)])
    assert equal(result.as_numpy("y"), sent)


@pytest.mark.parametrize("kind", ["http", "http.aio"])
@pytest.mark.parametrize("datatype", AS_NUMBERS)
def test_every_datatype_as_json(caller: Caller, kind: str, datatype: str) -> None:
    sent = array_of(datatype)
    outputs = [caller.module.InferRequestedOutput("y", binary_data=False)]
    given = caller.tensor("x", sent, datatype, binary_data=False)
    result = caller("infer", f"ident_{datatype}", [given], outputs=outputs)
    assert equal(result.as_numpy("y"), sent)


@pytest.mark.trap("T16")
@pytest.mark.parametrize("kind", ["http", "http.aio"])
@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype_back_as_json(caller: Caller, kind: str, datatype: str) -> None:
    sent = array_of(datatype)
    outputs = [caller.module.InferRequestedOutput("y", binary_data=False)]
    result = caller("infer", f"ident_{datatype}", [caller.tensor("x", sent, datatype)], outputs=outputs)
    output = result.get_output("y")
    assert output["datatype"] == datatype
    assert "parameters" not in output
    if datatype in ("FP16", "BF16"):
        assert np.array(output["data"]).astype(sent.dtype).tobytes() == sent.tobytes()
    else:
        assert equal(result.as_numpy("y"), sent)


@every_client
@pytest.mark.parametrize("datatype", DATATYPES)
def test_no_elements(caller: Caller, kind: str, datatype: str) -> None:
    sent = array_of(datatype)[:0]
    found = caller("infer", f"ident_{datatype}", [caller.tensor("x", sent, datatype)]).as_numpy("y")
    assert found.shape == (0,)


@every_client
def test_several_inputs_outputs_and_an_id(caller: Caller, kind: str) -> None:
    a, b = np.arange(8, dtype=np.float32).reshape(2, 4), np.ones((2, 4), np.float32)
    result = caller(
        "infer",
        "add",
        [caller.tensor("b", b, "FP32"), caller.tensor("a", a, "FP32")],
        outputs=[caller.module.InferRequestedOutput("sum")],
        request_id="42",
        priority=1,
        timeout=20_000_000,
        parameters={"own": "text", "count": 3, "flag": True, "ratio": 0.5},
    )
    np.testing.assert_array_equal(result.as_numpy("sum"), a + b)
    response = result.get_response()
    assert (response["id"] if "http" in kind else response.id) == "42"


@every_client
def test_outputs_in_the_requested_order(caller: Caller, kind: str) -> None:
    outputs = [caller.module.InferRequestedOutput(name) for name in ("o2", "o1")]
    result = caller("infer", "two_out", [caller.tensor("x", np.array([1.5], np.float32), "FP32")], outputs=outputs)
    assert result.as_numpy("o2").tolist() == [1]
    assert result.as_numpy("o1").tolist() == [3.0]


@every_client
@pytest.mark.parametrize(("version", "expected"), [("", 2), ("1", 1), ("2", 2)])
def test_versions(caller: Caller, kind: str, version: str, expected: int) -> None:
    given = caller.tensor("x", np.zeros(1, np.float32), "FP32")
    assert caller("infer", "ver", [given], model_version=version).as_numpy("version").tolist() == [expected]


@every_client
def test_health_and_metadata(caller: Caller, kind: str) -> None:
    assert caller("is_server_live") is True
    assert caller("is_server_ready") is True
    assert caller("is_model_ready", "add") is True
    assert caller("is_model_ready", "ver", "1") is True
    options = {} if "http" in kind else {"as_json": True}
    assert caller("get_server_metadata", **options)["name"] == "penstock"
    metadata = caller("get_model_metadata", "add", **options)
    assert [tensor["name"] for tensor in metadata["inputs"]] == ["a", "b"]
    assert metadata["versions"] == ["1"]


@every_client
def test_statistics(caller: Caller, kind: str) -> None:
    options = {} if "http" in kind else {"as_json": True}
    given = [caller.tensor(name, np.ones((3, 4), np.float32), "FP32") for name in "ab"]
    before = caller("get_inference_statistics", "add", "1", **options)["model_stats"][0]
    caller("infer", "add", given)
    after = caller("get_inference_statistics", "add", "1", **options)["model_stats"][0]
    # Over gRPC the client leaves out what is zero, and writes 64 bits as text.
    more = [int(stats.get("inference_count", 0)) for stats in (before, after)]
    assert more[1] - more[0] == 3
    every = caller("get_inference_statistics", **options)["model_stats"]
    assert {"add", "ver"} <= {stats["name"] for stats in every}
    with pytest.raises(InferenceServerException, match="'none'"):
        caller("get_inference_statistics", "none")


@every_client
def test_log_settings(caller: Caller, kind: str) -> None:
    options = {} if "http" in kind else {"as_json": True}

    def read(settings: Any) -> dict[str, Any]:
        if "http" in kind:
            return dict(settings)
        # Over gRPC the client leaves out what is false, zero or empty, and of others says the kind too.
        return {name: next(iter(value.values()), None) for name, value in settings["settings"].items()}

    before = read(caller("get_log_settings", **options))
    assert (before["log_warning"], before["log_format"]) == (True, "default")
    try:
        changed = {"log_info": True, "log_verbose_level": 1, "log_format": "ISO8601"}
        assert read(caller("update_log_settings", changed, **options)).items() >= changed.items()
        assert read(caller("get_log_settings", **options)).items() >= changed.items()
    finally:
        caller("update_log_settings", {"log_info": False, "log_verbose_level": 0, "log_format": "default"})
    assert read(caller("get_log_settings", **options)) == before
    with pytest.raises(InferenceServerException, match="log_file") as refusal:
        caller("update_log_settings", {"log_file": "here"})
    assert refusal.value.status() == ("501", "StatusCode.UNIMPLEMENTED")["grpc" in kind]


@every_client
def test_trace_settings(caller: Caller, kind: str) -> None:
    options = {} if "http" in kind else {"as_json": True}

    def read(settings: Any) -> dict[str, Any]:
        return dict(settings) if "http" in kind else {k: v["value"] for k, v in settings["settings"].items()}

    def one(text: str) -> Any:
        return text if "http" in kind else [text]

    settings = read(caller("get_trace_settings", **options))
    assert (settings["trace_level"], settings["trace_rate"]) == (["OFF"], one("1000"))
    updated = caller("update_trace_settings", "add", {"trace_rate": "5", "trace_level": ["OFF"]}, **options)
    assert read(updated)["trace_rate"] == one("5")
    assert read(caller("get_trace_settings", "add", **options))["trace_rate"] == one("5")
    assert read(caller("get_trace_settings", **options))["trace_rate"] == one("1000")
    cleared = caller("update_trace_settings", "add", {"trace_rate": None}, **options)
    assert read(cleared)["trace_rate"] == one("1000")
    with pytest.raises(InferenceServerException, match="writes no trace files") as refusal:
        caller("update_trace_settings", settings={"trace_level": ["TIMESTAMPS"]})
    assert refusal.value.status() == ("501", "StatusCode.UNIMPLEMENTED")["grpc" in kind]


@every_client
def test_configuration(caller: Caller, kind: str) -> None:
    options = {} if "http" in kind else {"as_json": True}
    config = caller("get_model_config", "add", **options)
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
def test_refusals(caller: Caller, kind: str, model: str, shape: list[int], status: tuple[str, str], text: str) -> None:
    with pytest.raises(InferenceServerException) as refusal:
        caller("infer", model, [caller.tensor("x", np.zeros(shape, np.float32), "FP32")])
    assert refusal.value.status() == status["grpc" in kind]
    assert text in refusal.value.message()


@pytest.mark.parametrize("kind", ["http", "http.aio"])
def test_bytes_that_are_not_text(caller: Caller, kind: str) -> None:
    given = [caller.tensor("x", np.zeros(1, np.float32), "FP32")]
    assert caller("infer", "nonutf8", given).as_numpy("y").tolist() == [b"\xff"]
    outputs = [caller.module.InferRequestedOutput("y", binary_data=False)]
    with pytest.raises(InferenceServerException, match="binary"):
        caller("infer", "nonutf8", given, outputs=outputs)


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
@pytest.mark.parametrize("kind", ["grpc", "grpc.aio"])
def test_compressed_calls(caller: Caller, kind: str, algorithm: str) -> None:
    sent = np.zeros(10_000, np.float32)
    given = [caller.tensor("x", sent, "FP32")]
    result = caller("infer", "ident_FP32", given, compression_algorithm=algorithm)
    assert equal(result.as_numpy("y"), sent)


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_many_calls_at_once(server: Server, kind: str) -> None:
    caller = Caller(kind, server)
    options = {"concurrency": 8} if kind == "http" else {}
    with caller.module.InferenceServerClient(caller.address, **options) as client:
        arrays = [np.full((1, 4), number, np.float32) for number in range(64)]
        inputs = [[caller.tensor(name, array, "FP32") for name in "ab"] for array in arrays]
        if kind == "http":
            results = [call.get_result() for call in [client.async_infer("add", given) for given in inputs]]
        else:
            found: list[tuple[int, Any]] = []
            for number, given in enumerate(inputs):
                client.async_infer(
                    "add", given, lambda result, error, number=number: found.append((number, error or result))
                )
            from waiting import until

            until(lambda: len(found) == len(arrays), "all answers")
            results = [result for _, result in sorted(found, key=lambda entry: entry[0])]
        for array, result in zip(arrays, results, strict=True):
            np.testing.assert_array_equal(result.as_numpy("sum"), array * 2)


def test_brain_floats_are_ml_dtypes(server: Server) -> None:
    caller = Caller("grpc", server)
    sent = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    found = caller("infer", "ident_BF16", [caller.tensor("x", sent, "BF16")]).as_numpy("y")
    assert found.tobytes() == sent.tobytes()


@pytest.mark.trap("T26")
@pytest.mark.parametrize(
    "order",
    [("penstock", "tritonclient.grpc", "tritonclient.http"), ("tritonclient.http", "tritonclient.grpc", "penstock")],
)
def test_g9_both_in_one_process(order: tuple[str, ...]) -> None:
    # The protocol's messages may be registered once in a process: the client's are, ours must not be.
    program = f"""
import importlib, json
for name in {order!r}:
    importlib.import_module(name)
import numpy as np, tritonclient.grpc as client
from penstock import Server, ServerConfig, Tensor, model
one = model(lambda x: x * 2, name="m", inputs=[Tensor("x", np.float32, [2])], outputs=[Tensor("y", np.float32, [2])])
with Server(one, config=ServerConfig(http=None, grpc="127.0.0.1:0")) as server:
    given = client.InferInput("x", [2], "FP32")
    given.set_data_from_numpy(np.array([1, 2], np.float32))
    with client.InferenceServerClient(server.grpc_url) as caller:
        print(json.dumps(caller.infer("m", [given]).as_numpy("y").tolist()))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [2.0, 4.0]
