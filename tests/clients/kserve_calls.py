"""Script of test_kserve.py for KServe's environment: makes every call of its clients and prints the results as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx
import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig


def request(binary: bool) -> InferRequest:
    tensor = InferInput("x", [1, 2], "FP32")
    tensor.set_data_from_numpy(np.array([[1, 2]], np.float32), binary_data=binary)
    parameters = {"binary_data_output": True} if binary else {}
    return InferRequest(model_name="rows", infer_inputs=[tensor], parameters=parameters)


def values(response: Any) -> list[float]:
    return response.outputs[0].as_numpy().ravel().tolist()


async def v1(url: str) -> dict[str, Any]:
    async with InferenceRESTClient(RESTConfig(protocol="v1", retries=0)) as client:
        try:
            unknown = await client.infer(url, {"instances": [[1]]}, model_name="missing")
        except httpx.HTTPStatusError as error:
            unknown = error.response.status_code
        return {
            "live": await client.is_server_live(url),
            "ready": await client.is_model_ready(url, "rows"),
            "infer": await client.infer(url, {"instances": [[1, 2], [3, 4]]}, model_name="rows"),
            "rows": await client.infer(url, {"instances": [{"a": [1, 2], "b": 7}]}, model_name="two"),
            "documents": await client.infer(url, {"instances": [{"name": "Bo"}]}, model_name="user"),
            "explain": await client.explain(url, model_name="rows", data={"instances": [[1, 2]]}),
            "unknown": unknown,
        }


async def v2(url: str) -> dict[str, Any]:
    async with InferenceRESTClient(RESTConfig(protocol="v2", retries=0)) as client:
        return {
            "live": await client.is_server_live(url),
            "server_ready": await client.is_server_ready(url),
            "ready": await client.is_model_ready(url, "rows"),
            "infer": values(await client.infer(url, request(binary=False), model_name="rows")),
            "binary": values(await client.infer(url, request(binary=True), model_name="rows")),
            "unknown": await client.is_model_ready(url, "missing"),
        }


async def over_grpc(target: str) -> dict[str, Any]:
    async with InferenceGRPCClient(url=target) as client:
        return {
            "live": await client.is_server_live(),
            "server_ready": await client.is_server_ready(),
            "ready": await client.is_model_ready("rows"),
            "infer": values(await client.infer(request(binary=True))),
        }


async def main(url: str, target: str) -> None:
    print(json.dumps({"v1": await v1(url), "v2": await v2(url), "grpc": await over_grpc(target)}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
