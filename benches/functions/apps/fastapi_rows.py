"""Typical hand-written server for such batches: FastAPI with a loop over the rows."""

from __future__ import annotations

import math
import sys

import numpy as np
import pandas as pd
import uvicorn
from fastapi import FastAPI, Request

COLUMNS = ["age", "income", "visits", "spent"]
FIRST = np.linspace(-1, 1, 64).reshape(4, 16) / 40
SECOND = np.linspace(1, -1, 16)

app = FastAPI()


def double(x):
    """Returns twice the number."""
    return x * 2


def score(row):
    """A score between 0 and 1 for one customer."""
    hidden = np.tanh(np.array([row[column] for column in COLUMNS]) @ FIRST)
    return 1 / (1 + math.exp(-float(hidden @ SECOND)))


def score_of_frame(customers):
    """The function of the deployment, which takes frames."""
    hidden = np.tanh(customers[COLUMNS].to_numpy(float) @ FIRST)
    return 1 / (1 + np.exp(-(hidden @ SECOND)))


@app.get("/ready")
async def ready():
    """Reports readiness."""
    return {}


@app.post("/double")
async def double_rows(request: Request):
    """Twice each row's number."""
    body = await request.json()
    return {"data": [[row[0], double(row[1])] for row in body["data"]]}


@app.post("/score")
async def score_rows(request: Request):
    """Each row's score."""
    body = await request.json()
    return {"data": [[row[0], score(row[1])] for row in body["data"]]}


@app.post("/frames")
async def score_frames(request: Request):
    """Each row's score, by a function that takes frames."""
    body = await request.json()
    return {"data": [[row[0], float(score_of_frame(pd.DataFrame([row[1]]))[0])] for row in body["data"]]}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
