"""Routes as a user writes them by hand: orjson and numpy, without validation, queue or batches."""

from __future__ import annotations

import numpy as np
import orjson

import models


def from_json(_name: str, body: bytes):
    """The input of a JSON request of the Open Inference Protocol."""
    given = orjson.loads(body)["inputs"][0]
    if given["datatype"] == "BYTES":
        return given["data"]
    return np.array(given["data"], np.float32).reshape(given["shape"])


def to_json(name: str, output) -> bytes:
    """The JSON response with an output."""
    described = {"name": "y", "shape": output.shape, "datatype": "FP32", "data": output.ravel()}
    return orjson.dumps({"model_name": name, "outputs": [described]}, option=orjson.OPT_SERIALIZE_NUMPY)


def from_raw(name: str, body: bytes):
    """The input whose bytes are the body."""
    return np.frombuffer(body, np.float32).reshape((1, 3, 640, 640) if name == "m2mean" else (1, -1))


def to_raw(_name: str, output) -> bytes:
    """The bytes of an output."""
    return output.tobytes()


def answers():
    """Functions from a body to the response's body, with its content type, by path."""
    made = {}
    for name in models.NAMES:
        made[f"/v2/models/{name}/infer"] = _answer(name, from_json, to_json), "application/json"
        made[f"/raw/{name}"] = _answer(name, from_raw, to_raw), "application/octet-stream"
    return made


def _answer(name: str, decode, encode):
    call = models.lookup(name).call
    return lambda body: encode(name, call(decode(name, body)))
