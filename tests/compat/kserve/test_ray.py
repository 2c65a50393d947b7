"""R13, D11, S05: Ray Serve models, with fake handles and with a real Ray."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from kserve_serving import ROW, serving
from observe import free_ports

import penstock
from penstock import Batching, Client, Unavailable
from penstock.compat.kserve.errors import InvalidInput
from penstock.compat.kserve.inference_client import InferenceGRPCClient, InferenceRESTClient, RESTConfig
from penstock.compat.kserve.model import InferenceVerb
from penstock.compat.kserve.protocol.infer_type import InferInput, InferOutput, InferRequest, InferResponse
from penstock.compat.kserve.ray import RayModel, deploy, of_handle
from waiting import PATIENCE, until

REPOSITORY = Path(__file__).resolve().parents[3]
TOOLS = Path(os.environ.get("PENSTOCK_TEST_TOOLS") or REPOSITORY / ".tools")
SCRIPT = Path(__file__).parent / "ray_models.py"
START = 300.0


class Result:
    """The result of a handle's `remote`: awaitable, or with a blocking `result`."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.cancelled = False

    def __await__(self) -> Any:
        if isinstance(self.value, asyncio.Event):
            yield from self.value.wait().__await__()
        yield from asyncio.sleep(0).__await__()
        return self.result()

    def result(self) -> Any:
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value

    def cancel(self) -> None:
        self.cancelled = True


class Method:
    def __init__(self, call: Any) -> None:
        self.remote = call


class Handle:
    """A fake handle of a deployment."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, dict[str, Any]]] = []
        self.results: list[Result] = []
        self.load = Method(lambda: Result(None))
        self.get_input_types = Method(lambda: Result([{"name": "x", "datatype": "FP32", "shape": [-1]}]))
        self.get_output_types = Method(lambda: Result(ray_error("Tried to call a method 'get_output_types'")))

    def remote(self, body: Any, **more: Any) -> Result:
        self.calls.append((body, more))
        result = Result(self.compute(body, more.get("verb")))
        self.results.append(result)
        return result

    def compute(self, body: Any, verb: Any) -> Any:
        if verb is InferenceVerb.EXPLAIN:
            return {"explanations": body["instances"]}
        if isinstance(body, InferRequest):
            output = InferOutput("y", body.inputs[0].shape, "FP32")
            output.set_data_from_numpy(body.inputs[0].as_numpy() * 2)
            return InferResponse(body.id, body.model_name, [output])
        if body["instances"] == ["bad"]:
            return ray_error("a report of many lines", InvalidInput("not this"))
        # As a model of dialect 0.21 responds, with headers.
        return {"predictions": [2 * one for one in body["instances"]]}, {"x-own": "1"}


def ray_error(text: str, cause: Exception | None = None) -> Exception:
    """Returns an exception as Ray raises it."""
    error = RuntimeError(text)
    error.cause = cause  # type: ignore[attr-defined]
    return error


def test_r13_ray_model_returns_deployment_results() -> None:
    handle = Handle()
    model = RayModel("double", handle)
    assert not model.ready
    assert model.load()
    assert model.ready

    async def main() -> None:
        assert (await model({"instances": [1]}, {"a": "b"}))[0] == {"predictions": [2]}
        assert await model({"instances": [1]}, verb=InferenceVerb.EXPLAIN) == {"explanations": [1]}
        assert await model.get_input_types() == [{"name": "x", "datatype": "FP32", "shape": [-1]}]
        assert await model.get_output_types() == []
        with pytest.raises(InvalidInput, match="not this"):
            await model({"instances": ["bad"]})

    asyncio.run(main())
    assert handle.calls[0][1] == {"headers": {"a": "b"}}
    assert handle.calls[1][1] == {"headers": None, "verb": InferenceVerb.EXPLAIN}


def test_r13_failed_load_raises() -> None:
    handle = Handle()
    handle.load = Method(lambda: Result(ray_error("report", ValueError("no weights"))))
    model = RayModel("double", handle)
    with pytest.raises(ValueError, match="no weights"):
        model.load()
    assert not model.ready
    handle.load = Method(lambda: Result(ray_error("Tried to call a method 'load' that does not exist.")))
    assert model.load()


def test_r13_client_disconnect_cancels_the_ray_request() -> None:
    class Waiting(Handle):
        def compute(self, body: Any, verb: Any) -> Any:
            return asyncio.Event()

    async def main() -> None:
        handle = Waiting()
        task = asyncio.ensure_future(of_handle("m", handle)({}))
        while not handle.results:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert handle.results[0].cancelled

    asyncio.run(main())


def test_s05_ray_handle_is_served() -> None:
    handle = Handle()
    with serving(of_handle("m", handle)) as server:
        response = server.predict({"instances": [1, 2]}, x_a="b")
        assert (response.status_code, response.json()) == (200, {"predictions": [2, 4]})
        assert response.headers["x-own"] == "1"
        assert handle.calls[0][1]["headers"]["x-a"] == "b"
        assert server.post("/v1/models/m:explain", {"instances": [1]}).json() == {"explanations": [1]}
        refused = server.predict({"instances": ["bad"]})
        assert (refused.status_code, refused.json()) == (400, {"error": "not this"})
        assert server.infer().json()["outputs"][0]["data"] == [2, 4]
        assert np.frombuffer(server.call().raw_output_contents[0], np.float32).tolist() == [2, 4]


def test_r13_requests_to_a_handle_are_batched() -> None:
    from penstock.compat.kserve._request.bind import BindOptions

    handle = Handle()
    # Concurrent: all eight requests are present.
    options = BindOptions(batching=Batching(max_size=8, max_delay=PATIENCE))
    with serving(of_handle("m", handle), options=options) as server:

        async def many() -> list[Any]:
            async with InferenceRESTClient() as client:
                requests = (client.infer(server.http, {"instances": [number]}, "m") for number in range(8))
                return await asyncio.gather(*requests)

        assert asyncio.run(many()) == [{"predictions": [2 * number]} for number in range(8)]
    assert [len(body["instances"]) for body, _ in handle.calls] == [8]


def test_r13_streaming_handle_streams() -> None:
    class Streaming(Handle):
        handle_options = SimpleNamespace(stream=True)

        def remote(self, body: Any, **more: Any) -> Any:
            async def chunks() -> AsyncIterator[str]:
                for word in body["instances"]:
                    yield word

            return chunks()

    with serving(of_handle("m", Streaming())) as server:
        assert server.predict({"instances": ["a", "b", "c"]}).text == "abc"


def test_d11_only_deployments_are_deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    server: Any = SimpleNamespace(register_model_handle=lambda *_: None)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"Ray Serve is not installed: pip install 'penstock\[ray\]'"):
        deploy(server, {"a": object()})
    kinds = SimpleNamespace(Deployment=int, Application=str)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(serve=kinds))
    with pytest.raises(RuntimeError, match=r"^Model type should be RayServe Deployment$"):
        deploy(server, {"a": 1, "b": object()})


def is_ready(url: str) -> bool:
    with Client(url) as client:
        try:
            return client.ready()
        except Unavailable:
            return False


@pytest.fixture(scope="module", params=["ray", "kserve13"])
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of servers in front of a real Ray, in both dialects."""
    python = TOOLS / request.param / "bin" / "python"
    if not python.exists():
        pytest.skip(f"Ray is not installed; python tests/clients/setup_tools.py {request.param} fetches it")
    ports = [str(port) for port in free_ports(2)]
    folder = tmp_path_factory.mktemp("ray")
    # Only Penstock from this interpreter's path.
    (folder / "path").mkdir()
    (folder / "path" / "penstock").symlink_to(Path(penstock.__file__).parent)
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "path"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
    }
    with open(folder / "log", "w") as log:
        command = [str(python), str(SCRIPT), *ports]
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{ports[0]}"
        until(lambda: is_ready(url) or process.poll() is not None, "the server to start", START)
        assert process.poll() is None, (folder / "log").read_text()[-4000:]
        yield url, f"127.0.0.1:{ports[1]}"
        process.terminate()
        assert process.wait(60) == 0, (folder / "log").read_text()[-4000:]
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def test_r13_d11_models_on_a_real_ray(real: tuple[str, str]) -> None:
    http, address = real
    rows = {"instances": [1, 2]}

    async def main() -> None:
        async with InferenceRESTClient() as client:
            for name in ("double", "first"):
                assert await client.is_model_ready(http, name)
                prediction = await client.infer(http, rows, name, headers={"x-own": "1"})
                assert prediction == {"predictions": [2, 4], "own": "1"}
            assert await client.infer(http, rows, "bare") == {"predictions": [1, 2]}
            assert await client.explain(http, "double", rows) == {"explanations": [1, 2]}
            with pytest.raises(httpx.HTTPStatusError) as caught:
                await client.infer(http, {"instances": ["bad"]}, "double")
            assert (caught.value.response.status_code, caught.value.response.json()) == (400, {"error": "not this"})
            many = [client.infer(http, {"instances": [number]}, "double") for number in range(100)]
            assert [predicted["predictions"] for predicted in await asyncio.gather(*many)] == [
                [2 * n] for n in range(100)
            ]  # type: ignore[index]
        x = InferInput("x", [1, 2], "FP32")
        x.set_data_from_numpy(ROW)
        async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
            response = await client.infer(http, InferRequest("double", [x], "7"), "double")
            assert isinstance(response, InferResponse)
            assert (response.id, response.outputs[0].as_numpy().tolist()) == ("7", [[2, 4]])
        async with InferenceGRPCClient(address) as rpc:
            response = await rpc.infer(InferRequest("first", [x], "8"))
            assert (response.id, response.outputs[0].as_numpy().tolist()) == ("8", [[2, 4]])
            with pytest.raises(grpc.RpcError):
                await rpc.infer(InferRequest("none", [x]))

    asyncio.run(main())
    metadata = httpx.get(f"{http}/v2/models/double").json()
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1]}]
    assert httpx.get(f"{http}/v2/models/bare").json()["inputs"] == []
