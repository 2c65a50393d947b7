"""A small transformer that continues texts, one character a step, in numpy. Its weights are random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

CHARACTERS = "".join(map(chr, range(32, 127)))
"""Printable ASCII: a token is an index of it."""

Array = np.ndarray[Any, Any]


class Network:
    """A decoder with a key-value cache of several sequences, each in its slot.

    Args:
        slots: Sequences at once.
        length: Most tokens of a sequence.
        width: Size of a token's vector.
        layers: Number of layers.
        heads: Heads of attention.
        seed: The weights are random; the same for the same seed.
    """

    def __init__(
        self, slots: int, *, length: int = 256, width: int = 64, layers: int = 16, heads: int = 2, seed: int = 1
    ) -> None:
        random = np.random.default_rng(seed)

        def weights(*shape: int) -> Array:
            return (random.standard_normal(shape) / np.sqrt(shape[-2])).astype(np.float32)

        self.length, self.heads = length, heads
        self.embedding = weights(len(CHARACTERS), width)
        self.position = 0.1 * weights(length, width)
        self.attention = [(weights(width, 3 * width), weights(width, width)) for _ in range(layers)]
        self.feed_forward = [(weights(width, 4 * width), weights(4 * width, width)) for _ in range(layers)]
        self.keys = np.zeros((layers, slots, heads, length, width // heads), np.float32)
        self.values = np.zeros_like(self.keys)

    def forward(self, tokens: Sequence[int], slots: Sequence[int], positions: Sequence[int]) -> Array:
        """The scores of the next token after each of the given ones, [tokens, characters].

        The tokens may be of different sequences, and several of one in a row, as those of a prompt.

        Args:
            tokens: Tokens.
            slots: The slot of each token's sequence.
            positions: The place of each token in its sequence. The cache has those before it.
        """
        slot, position = np.array(slots), np.array(positions)
        longest = int(position.max()) + 1
        # Slots one after another are a view of the cache, others a copy.
        consecutive = [*slots] == [*range(slots[0], slots[0] + len(slots))]
        cached: Any = slice(slots[0], slots[0] + len(slots)) if consecutive else slot
        later = np.arange(longest) > position[:, np.newaxis]
        mask = np.where(later, np.float32(-np.inf), np.float32(0))[:, np.newaxis]
        x = self.embedding[tokens] + self.position[position]
        for layer, ((mix, out), (up, down)) in enumerate(zip(self.attention, self.feed_forward, strict=True)):
            query, key, value = (_normal(x) @ mix).reshape(len(x), 3, self.heads, -1).swapaxes(0, 1)
            self.keys[layer, slot, :, position] = key
            self.values[layer, slot, :, position] = value
            keys, values = self.keys[layer, cached, :, :longest], self.values[layer, cached, :, :longest]
            scores = (keys @ query[..., np.newaxis])[..., 0] * query.shape[-1] ** -0.5
            found = (_softmax(scores + mask)[:, :, np.newaxis] @ values).reshape(len(x), -1)
            x = x + found @ out
            x = x + np.maximum(_normal(x) @ up, 0) @ down
        result: Array = _normal(x) @ self.embedding.T
        return result


def tokens_of(text: str) -> list[int]:
    """The tokens of a text; a space for other characters, and for no text."""
    return [max(CHARACTERS.find(one), 0) for one in text or " "]


def _normal(x: Array) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    normal: Array = centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)
    return normal


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    shares: Array = powers / powers.sum(axis=-1, keepdims=True)
    return shares
