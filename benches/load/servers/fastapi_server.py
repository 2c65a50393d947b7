"""A usual hand-written server: FastAPI and uvicorn (uvloop, httptools), orjson and numpy, in one process."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import orjson
import uvicorn
from fastapi import FastAPI, Request, Response

import models

QUICK = ("m1", "m2mean", "m2out")

app = FastAPI()
served = {name: models.lookup(name) for name in models.NAMES}
# One instance of a slow model; quick ones are called in place.
instance = ThreadPoolExecutor(1)


async def compute(name: str, values):
    call = served[name].call
    if name in QUICK:
        return call(values)
    return await asyncio.get_running_loop().run_in_executor(instance, call, values)


@app.post("/v2/models/{name}/infer")
async def infer(name: str, request: Request) -> Response:
    given = orjson.loads(await request.body())["inputs"][0]
    if given["datatype"] == "BYTES":
        values = given["data"]
    else:
        values = np.array(given["data"], np.float32).reshape(given["shape"])
    output = await compute(name, values)
    described = {"name": "y", "shape": output.shape, "datatype": "FP32", "data": output.ravel()}
    body = orjson.dumps({"model_name": name, "outputs": [described]}, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, media_type="application/json")


@app.post("/raw/{name}")
async def raw(name: str, request: Request) -> Response:
    values = np.frombuffer(await request.body(), np.float32)
    shape = (1, 3, 640, 640) if name == "m2mean" else (1, -1)
    output = await compute(name, values.reshape(shape))
    return Response(output.tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=models.PORT, log_level="error", access_log=False)
