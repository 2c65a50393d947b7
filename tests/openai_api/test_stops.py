"""Texts at which a completion ends, whatever pieces it comes in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.openai._stops import Stops


def fed(pieces: list[str], stops: list[str]) -> tuple[str, bool]:
    found = Stops(stops)
    text = ""
    for piece in pieces:
        text += found.feed(piece)
        if found.found:
            return text, True
    return text + found.rest(), found.found


@pytest.mark.parametrize(
    ("pieces", "stops", "text"),
    [
        (["one two"], [], "one two"),
        (["one STOP two"], ["STOP"], "one "),
        (["one ST", "OP two"], ["STOP"], "one "),
        (["one S", "T", "O", "P"], ["STOP"], "one "),
        (["one ST", "ART"], ["STOP"], "one START"),
        (["one ST"], ["STOP"], "one ST"),
        (["aab"], ["ab", "aab"], ""),
        (["xx", "y"], ["xy"], "x"),
        (["STOP"], ["STOP"], ""),
    ],
)
def test_text_ends_before_a_stop(pieces: list[str], stops: list[str], text: str) -> None:
    assert fed(pieces, stops) == (text, any(stop in "".join(pieces) for stop in stops))


def test_what_may_begin_a_stop_is_held_back_and_no_more() -> None:
    stops = Stops(["\n\n"])
    assert [stops.feed("one\n"), stops.feed("two"), stops.feed("\n")] == ["one", "\ntwo", ""]
    assert stops.rest() == "\n"


@given(st.lists(st.text("ab", max_size=4), max_size=6), st.lists(st.text("ab", min_size=1, max_size=3), max_size=3))
def test_pieces_make_no_difference(pieces: list[str], stops: list[str]) -> None:
    whole = "".join(pieces)
    # The shortest beginning of the text that ends with one, without the longest that it ends with.
    for length in range(len(whole) + 1):
        if found := [stop for stop in stops if whole[:length].endswith(stop)]:
            assert fed(pieces, stops) == (whole[: length - max(map(len, found))], True)
            return
    assert fed(pieces, stops) == (whole, False)
