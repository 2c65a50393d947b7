"""R6: the clients against a real KServe server, run by its own interpreter."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import grpc
import httpx
import numpy as np
import pytest
from observe import free_ports

from penstock.compat.kserve.inference_client import (
    InferenceGRPCClient,
    InferenceRESTClient,
    InferenceServerClient,
    RESTConfig,
)
from penstock.compat.kserve.protocol.infer_type import InferInput, InferRequest, InferResponse
from waiting import until

REPOSITORY = Path(__file__).resolve().parents[3]
PYTHON = Path(os.environ.get("PENSTOCK_TEST_TOOLS") or REPOSITORY / ".tools") / "kserve" / "bin" / "python"
SCRIPT = Path(__file__).parent / "kserve_double.py"
START = 120.0


class Addresses(NamedTuple):
    http: str
    grpc: str


def accepts_connections(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as connection:
        return connection.connect_ex((host, int(port))) == 0


@pytest.fixture(scope="module")
def real() -> Iterator[Addresses]:
    if not PYTHON.exists():
        pytest.skip("kserve is not installed; python tests/clients/setup_tools.py kserve fetches it")
    ports = [str(port) for port in free_ports(2)]
    # Without this interpreter's path: KServe's has its own.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    process = subprocess.Popen([str(PYTHON), str(SCRIPT), *ports], env=environment, stderr=subprocess.DEVNULL)
    try:
        addresses = [f"127.0.0.1:{port}" for port in ports]
        for address in addresses:
            until(
                lambda address=address: accepts_connections(address) or process.poll() is not None,
                "KServe to start",
                START,
            )
        assert process.poll() is None
        yield Addresses(f"http://{addresses[0]}", addresses[1])
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def request(binary: bool) -> InferRequest:
    x = InferInput("x", [1, 2], "FP32")
    x.set_data_from_numpy(np.array([[1, 2]], np.float32), binary_data=binary)
    return InferRequest("double", [x], request_id="7", parameters={"binary_data_output": binary})


def test_r6_v1_against_kserve(real: Addresses) -> None:
    async def main() -> None:
        async with InferenceRESTClient() as client:
            assert await client.is_server_live(real.http)
            assert await client.is_model_ready(real.http, "double")
            headers: dict[str, str] = {}
            body = {"instances": [[1, 2]]}
            response = await client.infer(real.http, body, "double", response_headers=headers)
            assert response == {"predictions": [[2, 4]]}
            assert headers["server"] == "uvicorn"
            assert await client.explain(real.http, "double", body) == {"explanations": [[1, 2]]}
            for invalid_body, text in [
                ({"instances": 1}, "Expected \"instances\" to be a list, '400 Bad Request' for url "),
                ({"instances": ["fail"]}, "RuntimeError : no such thing, '500 Internal Server Error' for url "),
            ]:
                with pytest.raises(httpx.HTTPStatusError) as caught:
                    await client.infer(real.http, invalid_body, "double")
                assert str(caught.value).startswith(text)
                # KServe closes the connection after the 500: the next request uses another one.
                assert await client.is_server_live(real.http)
            with pytest.raises(httpx.HTTPStatusError, match="Model with name unknown does not exist"):
                await client.is_model_ready(real.http, "unknown")

    asyncio.run(main())


def test_r6_v2_against_kserve(real: Addresses) -> None:
    async def main() -> None:
        async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
            assert await client.is_server_live(real.http)
            assert await client.is_server_ready(real.http)
            assert await client.is_model_ready(real.http, "double")
            assert not await client.is_model_ready(real.http, "unknown")
            for binary in (False, True):
                response = await client.infer(real.http, request(binary), model_name="double")
                assert isinstance(response, InferResponse)
                assert (response.id, response.outputs[0].as_numpy().tolist()) == ("7", [[2, 4]])

    asyncio.run(main())


def test_r6_grpc_against_kserve(real: Addresses) -> None:
    async def main() -> None:
        async with InferenceGRPCClient(real.grpc) as client:
            assert await client.is_server_live()
            assert await client.is_server_ready()
            assert await client.is_model_ready("double")
            for binary in (False, True):
                response = await client.infer(request(binary))
                assert (response.id, response.outputs[0].as_numpy().tolist()) == ("7", [[2, 4]])
            with pytest.raises(grpc.aio.AioRpcError, match="Model with name unknown does not exist") as caught:
                await client.is_model_ready("unknown")
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND

    asyncio.run(main())


def test_r6_synchronous_client_against_kserve(real: Addresses) -> None:
    with InferenceServerClient(real.grpc) as client:
        message = client.infer(request(True), client_timeout=20)
    assert InferResponse.from_grpc(message).outputs[0].as_numpy().tolist() == [[2, 4]]
