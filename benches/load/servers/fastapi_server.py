"""A usual hand-written server: FastAPI and uvicorn (uvloop, httptools), orjson and numpy, in one process."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import uvicorn
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel

import by_hand
import models

QUICK = ("m1", "m1b", "m2mean", "m2out")

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
    output = await compute(name, by_hand.from_json(name, await request.body()))
    return Response(by_hand.to_json(name, output), media_type="application/json")


@app.post("/raw/{name}")
async def raw(name: str, request: Request) -> Response:
    output = await compute(name, by_hand.from_raw(name, await request.body()))
    return Response(by_hand.to_raw(name, output), media_type="application/octet-stream")


class Record(BaseModel):
    a: float
    b: float
    c: float
    d: float


class Records(BaseModel):
    rows: list[Record]


class Total(BaseModel):
    total: float


@app.post("/models/records")
async def records(body: Records) -> list[Total]:
    return [Total(total=row.a + row.b + row.c + row.d) for row in body.rows]


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=models.PORT, log_level="error", access_log=False)
