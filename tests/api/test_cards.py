"""`repr` of servers, and the cards of servers and models in notebooks."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from penstock import Batching, Server, Tensor, errors, model

PORTS = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0"}


@model(inputs=[Tensor("x", np.float32, [16])], outputs=[Tensor("y", np.float32, [16])], batching=Batching(max_size=32))
def double(x: np.ndarray) -> np.ndarray:
    return x * 2


@model(name="grade<b>")
def grade(score: float, unit: str = "") -> str:
    return f"{score:.0f}"


class Card(HTMLParser):
    """Text and links of a card; fails where its tags are not balanced."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.links: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._open.append(tag)
        self.links += [str(value) for name, value in attributes if name == "href"]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_repr_of_a_server_follows_its_life() -> None:
    server = Server(double, grade, **PORTS)
    assert repr(server) == "Server(not started, models=['double', 'grade<b>'])"
    with server:
        assert repr(server) == (
            f"Server(http='{server.http_url}', grpc='{server.grpc_url}', "
            "models={'double': 'ready', 'grade<b>': 'ready'})"
        )
        server.set_ready("double", False, "its disk is full")
        assert "'double': 'not ready: its disk is full'" in repr(server)
        server.set_ready("double", False)
        assert "'double': 'not ready'" in repr(server)
        server.set_ready("double", True)
        server.remove("grade<b>")
        server.add(double.with_options(version=2))
        assert "models={'double/1': 'ready', 'double/2': 'ready'}" in repr(server)
    assert repr(server).startswith("Server(stopped, models=[")


def test_refusals_before_the_start_are_in_the_repr_and_end_with_the_next_load() -> None:
    server = Server(double, http="127.0.0.1:0", grpc=None)
    server.set_ready("double", False, "not yet")
    with server:
        assert "{'double': 'not ready: not yet'}" in repr(server)
        server.add(double, replace=True)
        assert "{'double': 'ready'}" in repr(server)


def test_failed_models_have_their_reason_in_the_repr() -> None:
    def reload() -> list[object]:
        raise ValueError("no such file")

    with Server(double, http="127.0.0.1:0", grpc=None) as server:
        with pytest.raises(errors.PenstockError, match="could not be reloaded"):
            server.reload(reload)
        # The old model serves on.
        assert "{'double': 'ready'}" in repr(server)


def test_repr_of_many_models_is_short() -> None:
    server = Server(*(double.with_options(name=f"m{number}") for number in range(20)), **PORTS)
    assert repr(server).endswith("'m7'], and 12 more)")


def test_card_of_a_server_has_addresses_and_models() -> None:
    with Server(double, grade, **PORTS) as server:
        server.set_ready("double", False, 'a "<reason>"')
        text = server._repr_html_()
        card = Card(text)
        assert card.links == [server.http_url, f"{server.http_url}/docs"]
        for word in ("Penstock server, running", "double", "grade<b>", 'not ready: a "<reason>"', "ready"):
            assert word in card.words, card.words
        assert "x FP32 [-1, 16]" in card.words
        assert "score float, unit? str" in card.words
    stopped = Card(server._repr_html_())
    assert stopped.links == []
    assert stopped.words[0] == "Penstock server, stopped"


def test_cards_take_the_colours_of_the_page() -> None:
    for text in (double._repr_html_(), Server(double)._repr_html_()):
        assert not re.search(r"(?<![-\w])(?:color|background)(?:-color)?:(?!inherit)", text)
        assert "<script" not in text
        assert len(text) < 1500


def test_card_of_a_model_has_its_signature() -> None:
    assert Card(double._repr_html_()).words == [
        "double, version 1", "inputs", "outputs", "batching", "x FP32 [-1, 16]", "y FP32 [-1, 16]", "up to 32 rows",
    ]  # fmt: skip
    assert "grade&lt;b&gt;, version 1" in grade._repr_html_()
