"""Models whose inputs and outputs are JSON documents, by every kind of hint that makes one."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

import pydantic

from penstock import model


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Address:
    city: str
    zip: str | None = None


@dataclass
class User:
    """A user."""

    name: str
    age: int
    address: Address
    level: Literal["new", "old"] = "new"
    tags: list[str] = field(default_factory=list)
    color: Color = Color.RED


@dataclass
class Node:
    value: float
    next: Node | None = None


class Movie(TypedDict):
    title: str
    scores: dict[str, float]


class Leaf(pydantic.BaseModel):
    weight: float = pydantic.Field(gt=1)
    below: list[Leaf] = []


class Question(pydantic.BaseModel):
    """A question."""

    text: str
    leaf: Leaf | None = None
    words: int = 5


class Reply(pydantic.BaseModel):
    text: str
    score: float = 0.5


@model(name="greet")
def greet(user: User, loud: bool = False) -> Reply:
    """Greets a user, louder if asked to."""
    return Reply(text=f"Hello {user.name}".upper() if loud else f"Hello {user.name}")


@model(name="chain")
def chain(node: Node) -> int:
    length = 1
    while node.next is not None:
        node, length = node.next, length + 1
    return length


@model(name="movie", description="What a film is worth.")
def movie(film: Movie) -> dict[str, float]:
    """Not shown: the description comes first."""
    return film["scores"]


@model(name="ask")
def ask(question: Question, more: dict[str, Any]) -> tuple[str, list[Reply]]:
    """Answers `question`, not <b>markup</b>."""
    return question.text, [Reply(text="yes")]


@model(name="weigh")
def weigh(leaf: Leaf) -> float:
    """Model of a number with a lower bound, which its example respects."""
    return leaf.weight


@model(name="plain values")
def plain(count: int, share: float, name: str, blob: bytes, flags: list[bool], note: str | None = None) -> str:
    return f"{name}{count}{share}{len(blob)}{flags}{note}"


MODELS = (greet, chain, movie, ask, weigh, plain)
