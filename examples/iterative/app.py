"""Continues texts with a small transformer: the texts of many clients in one step, or one text after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from network import CHARACTERS, Network, tokens_of

from penstock import Context, Final, InvalidInput, Iterative, Row, Tensor, model

MAX_ROWS = 16

TEXT: Any = {"inputs": [Tensor("text", str, [1])], "outputs": [Tensor("piece", str, [1])]}


@dataclass
class Sequence:
    """A text that is continued."""

    slot: int
    """Its place in the key-value cache."""
    length: int
    """Tokens to add."""
    tokens: list[int]
    """Tokens that the cache does not have yet: those of the prompt, then the last one."""
    position: int = 0
    """Tokens in the cache."""
    added: int = 0


@model(batching=Iterative(MAX_ROWS, max_steps=256), **TEXT)
class Generate:
    """Adds a character to each text at each step. The prompts of new texts are in the step of the others."""

    def __init__(self) -> None:
        self.network = Network(MAX_ROWS)
        self.free = [*range(MAX_ROWS)]

    def step(self, rows: list[Row]) -> list[Any]:
        """One character for each row."""
        refused = [self.join(row) if row.step == 0 else None for row in rows]
        running: list[Sequence] = [row.state for row in rows if row.state is not None]
        running.sort(key=lambda one: one.slot)
        if running:
            tokens = [token for one in running for token in one.tokens]
            slots = [one.slot for one in running for _ in one.tokens]
            positions = [one.position + index for one in running for index in range(len(one.tokens))]
            scores = self.network.forward(tokens, slots, positions)
            # Of a prompt, only the scores after its last token count.
            last = np.cumsum([len(one.tokens) for one in running]) - 1
            for one, token in zip(running, scores[last].argmax(axis=1).tolist(), strict=True):
                one.position += len(one.tokens)
                one.added += 1
                one.tokens = [token]
        return [error or _piece(row.state) for row, error in zip(rows, refused, strict=True)]

    def join(self, row: Row) -> Exception | None:
        """Gives a row its slot, or refuses it."""
        prompt, length = tokens_of(row["text"][0]), row.parameters.get("length", 32)
        if not isinstance(length, int) or not 1 <= length <= self.network.length - len(prompt):
            # Returned, not raised: an exception of the step would fail all texts.
            return InvalidInput(f"length is {length!r}, expected 1 to {self.network.length} together with the text")
        row.state = Sequence(self.free.pop(), length, prompt)
        return None

    def leave(self, row: Row) -> None:
        """Frees the slot of a row, for whatever reason it leaves."""
        if row.state is not None:
            self.free.append(row.state.slot)


def _piece(one: Sequence) -> Any:
    piece = [CHARACTERS[one.tokens[0]]]
    return Final(piece) if one.added >= one.length else piece


@model(**TEXT)
class GenerateAlone:
    """A generator for each text, one after another, to compare."""

    def __init__(self) -> None:
        self.network = Network(1)

    def __call__(self, text: Any, ctx: Context) -> Iterator[Any]:
        """Yields one character after another."""
        tokens, position = tokens_of(text[0]), 0
        for _ in range(int(ctx.parameters.get("length", 32))):
            places = range(position, position + len(tokens))
            scores = self.network.forward(tokens, [0] * len(tokens), places)
            position, tokens = position + len(tokens), [int(scores[-1].argmax())]
            yield [CHARACTERS[tokens[0]]]
