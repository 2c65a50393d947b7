"""Stop sequences of completions, independent of chunk boundaries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.openai._stops import Stops


def feed_chunks(chunks: list[str], stops: list[str]) -> tuple[str, bool]:
    matcher = Stops(stops)
    text = ""
    for chunk in chunks:
        text += matcher.feed(chunk)
        if matcher.found:
            return text, True
    return text + matcher.rest(), matcher.found


@pytest.mark.parametrize(
    ("chunks", "stops", "text"),
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
def test_text_ends_before_a_stop(chunks: list[str], stops: list[str], text: str) -> None:
    assert feed_chunks(chunks, stops) == (text, any(stop in "".join(chunks) for stop in stops))


def test_possible_stop_prefix_is_held_back() -> None:
    stops = Stops(["\n\n"])
    assert [stops.feed("one\n"), stops.feed("two"), stops.feed("\n")] == ["one", "\ntwo", ""]
    assert stops.rest() == "\n"


@given(st.lists(st.text("ab", max_size=4), max_size=6), st.lists(st.text("ab", min_size=1, max_size=3), max_size=3))
def test_chunk_boundaries_do_not_change_the_result(chunks: list[str], stops: list[str]) -> None:
    whole = "".join(chunks)
    # The shortest prefix that ends with a stop, without the longest stop at its end.
    for length in range(len(whole) + 1):
        if matched := [stop for stop in stops if whole[:length].endswith(stop)]:
            assert feed_chunks(chunks, stops) == (whole[: length - max(map(len, matched))], True)
            return
    assert feed_chunks(chunks, stops) == (whole, False)
