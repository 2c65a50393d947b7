"""The models that every server in the comparison serves: plain functions of one batched array.

A name that ends in "b" is the same function with dynamic batching. The input is "x" and the output "y",
both with the batch axis first. Settings come from the environment, because most servers load models in
separate processes: BENCH_MODELS (comma list), BENCH_PORT, BENCH_GRPC_PORT, BENCH_METRICS_PORT, BENCH_MAX_BATCH,
BENCH_DELAY_MS (the queue delay of peers that need one), BENCH_WORKERS (instances of each model), BENCH_COUNT (a file
that grows by a byte per row), BENCH_M3_DIR (model.onnx and tokenizer.json; those of the embeddings example by
default), and for penstock BENCH_MAX_QUEUE and BENCH_COPIES (further models, which get no requests).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

NAMES = [name for name in os.environ.get("BENCH_MODELS", "m1").split(",") if name]
PORT = int(os.environ.get("BENCH_PORT", "9000"))
GRPC_PORT = int(os.environ.get("BENCH_GRPC_PORT", "9001"))
METRICS_PORT = int(os.environ.get("BENCH_METRICS_PORT", "9002"))
MAX_BATCH = int(os.environ.get("BENCH_MAX_BATCH", "32"))
DELAY_SECONDS = float(os.environ.get("BENCH_DELAY_MS", "2")) / 1000
WORKERS = int(os.environ.get("BENCH_WORKERS", "1"))
MAX_QUEUE = int(os.environ.get("BENCH_MAX_QUEUE", "1024"))
COPIES = int(os.environ.get("BENCH_COPIES", "0"))
CALL_SECONDS, ROW_SECONDS = 0.005, 0.00005
EMBEDDINGS = Path(__file__).parents[3] / "examples" / "embeddings" / "model"

_accelerator = threading.Lock()
_COUNT = os.environ.get("BENCH_COUNT")
_counts = os.open(_COUNT, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if _COUNT else None
"""A file with a byte per computed row, of all processes."""


@dataclass(frozen=True)
class Served:
    """Declaration of one function; shapes exclude the batch axis."""

    call: Callable[[Any], Any]
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    text: bool = False
    warm_up: Any = None


def double(x):
    """The cheapest useful work, to measure the cost of the server."""
    return x * np.float32(2)


def in_python(x):
    """Some milliseconds of plain Python, which holds the GIL all the time."""
    total = 0
    for number in range(40_000):
        total += number & 7
    return x * np.float32(2 if total else 0)


def channel_means(x):
    """[B, 3, H, W] to [B, 3]: a large input, a small output."""
    return x.mean(axis=(2, 3), dtype=np.float32)


@lru_cache(maxsize=1)
def _picture():
    return np.ones((1, 3, 640, 640), np.float32)


def totals(x):
    """[B, 4] to [B, 1]: typed records with four numbers."""
    return x.sum(axis=1, keepdims=True, dtype=np.float32)


def picture(x):
    """[B, 16] to [B, 3, 640, 640]: a small input, a large output that is created only once."""
    return _picture() if len(x) == 1 else np.repeat(_picture(), len(x), axis=0)


def new_picture(x):
    """[B, 16] to [B, 3, 640, 640]: a small input, a large output that is filled for each call."""
    return np.ones((len(x), 3, 640, 640), np.float32)


@lru_cache(maxsize=1)
def _fixed_picture():
    try:
        from penstock import frozen
    except ImportError:
        # Of another server.
        return _picture()
    return frozen(_picture())


def fixed_picture(x):
    """[B, 16] to [B, 3, 640, 640]: the same large output, of an array that cannot change where a server has them."""
    return _fixed_picture() if len(x) == 1 else np.repeat(_fixed_picture(), len(x), axis=0)


def accelerated(x):
    """A simulated accelerator: a fixed cost per call and a small one per row, one call at a time."""
    with _accelerator:
        time.sleep(CALL_SECONDS + ROW_SECONDS * len(x))
        if _counts is not None:
            os.write(_counts, bytes(len(x)))
    return x * np.float32(2)


@lru_cache(maxsize=1)
def _sentence_model():
    import onnxruntime
    from tokenizers import Tokenizer

    folder = Path(os.environ.get("BENCH_M3_DIR", EMBEDDINGS))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding()
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    return session, tokenizer


def embed(texts):
    """BYTES [B, 1], or a plain list, to sentence embeddings [B, 384]."""
    session, tokenizer = _sentence_model()
    flat = np.asarray(texts, dtype=object).ravel().tolist()
    encoded = tokenizer.encode_batch([text.decode() if isinstance(text, bytes) else str(text) for text in flat])
    feed = {
        "input_ids": np.array([one.ids for one in encoded], np.int64),
        "attention_mask": np.array([one.attention_mask for one in encoded], np.int64),
    }
    return session.run(None, feed)[0]


_ROW = np.zeros((1, 16), np.float32)
MODELS = {
    "m1": Served(double, (16,), (16,)),
    "records": Served(totals, (4,), (1,)),
    "python": Served(in_python, (16,), (16,)),
    "m2mean": Served(channel_means, (3, -1, -1), (3,)),
    "m2out": Served(picture, (16,), (3, 640, 640), warm_up=_ROW),
    "m2new": Served(new_picture, (16,), (3, 640, 640)),
    "m2fixed": Served(fixed_picture, (16,), (3, 640, 640), warm_up=_ROW),
    "m3": Served(embed, (1,), (384,), text=True, warm_up=[b"hello"]),
    "m4": Served(accelerated, (16,), (16,)),
}
BATCHED = ("m1b", "m3b", "m4b")


def batched(name: str) -> bool:
    """Returns True if a model's name requests dynamic batching."""
    return name in BATCHED


def lookup(name: str) -> Served:
    """Loads the model of a name, so that no measured request pays for it."""
    served = MODELS[name[:-1] if batched(name) else name]
    if served.warm_up is not None:
        served.call(served.warm_up)
    return served
