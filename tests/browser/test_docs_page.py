"""The page at /docs as a browser shows it: it asks the server, and says what the server says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from http_by_hand import post
from models.documents import greet
from models.streams import TAP, endless, stepped, stream_err, words
from penstock import Batching, Context, Sequences, Server, Tensor, model
from waiting import until

from .conftest import Browse, screen

X, Y = [Tensor("x", np.float32, [3])], [Tensor("y", np.float32, [3])]
KEY, ADMIN = "key-91c2", "hush-7f3a"


@model(inputs=X, outputs=Y, batching=Batching(max_size=8))
def double(x: Any) -> Any:
    """Twice `x`, <b>not</b> markup."""
    return x * 2


@model(inputs=[Tensor("x", np.int32, [1])], outputs=[Tensor("total", np.int32, [1])], sequences=Sequences())
def total(x: Any, ctx: Context) -> Any:
    """Adds up what a sequence sends."""
    assert ctx.sequence is not None
    state = ctx.sequence.state
    state["total"] = state.get("total", 0) + int(x[0])
    return np.array([state["total"]], np.int32)


@model(inputs=[Tensor("image", np.uint8, [64, 64])], outputs=[Tensor("sum", np.int64, [])])
def large(image: Any) -> Any:
    return image.sum(dtype=np.int64)


@model(name="a name", inputs=[Tensor("from", "BF16", [2]), Tensor("b c", str, [1])], outputs=[Tensor("y", str, [1])])
def odd(**inputs: Any) -> Any:
    return inputs["b c"]


@model
def upper(text: str) -> str:
    return text.upper()


MODELS = [double, total, large, odd, upper, greet, words, stepped, endless, stream_err]
VIEWS = ["", "#routes", "#access", *(f"#{one.name.replace(' ', '%20')}/1" for one in MODELS)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(*MODELS, http="127.0.0.1:0", grpc=None) as server:
        yield server


def test_an_example_is_answered(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open("#double/1")
    assert page.texts(".lead") == ["Twice x, <b>not</b> markup."]
    assert page.send() == "200 OK"
    (output,) = page.answer()["outputs"]
    assert (output["name"], output["shape"], output["data"]) == ("y", [1, 3], [2, 2, 2])


def test_a_wrong_input_shows_the_servers_message(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open("#double/1")
    body = page.request()
    body["inputs"][0]["shape"] = [1, 4]
    page.write(body)
    assert page.send() == "400 Bad Request"
    said = post(server.http_url, "/v2/models/double/infer", json.dumps(body).encode()).error()
    assert "input 'x'" in said
    assert page.texts("main .notice") == [said]
    page.refusals = 1


def test_a_long_example_is_made_when_it_is_sent(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open("#large/1")
    assert page.one("textarea").get_property("value") == ""
    assert page.send() == "200 OK"
    assert page.answer()["outputs"][0]["data"] == [64 * 64]


def test_a_stream_appends(browse: Browse, server: Server) -> None:
    TAP.reset()
    page = browse(server)
    page.open("#stepped/1")
    body = page.request()
    body["inputs"][0]["data"] = [3]
    page.write(body)
    page.click("Send")
    for number in range(3):
        TAP.go_on.release()
        until(lambda: len(page.all(".pieces li")) == number + 1, "the next piece")  # noqa: B023 - called at once
        assert ("Stop" in page.texts(".send")) or number == 2
    pieces = [json.loads(piece)["outputs"][0]["data"] for piece in page.texts(".pieces code")]
    assert pieces == [[0], [1], [2]]
    until(lambda: "Send" in page.texts(".send"), "the stream's end")
    assert page.status() == "200 OK"
    assert "3 pieces" in page.texts(".outcome")[0]


def test_a_stream_is_stopped_on_the_server_too(browse: Browse, server: Server) -> None:
    TAP.reset()
    page = browse(server)
    page.open("#endless/1")
    page.click("Send")
    until(lambda: len(page.all(".pieces li")) > 2, "some pieces")
    page.click("Stop")
    until(lambda: page.texts(".outcome .chip") == ["stopped"], "the end")
    assert TAP.closed.wait(20)
    assert len(page.all(".pieces li")) <= 500


def test_an_error_within_a_stream_shows(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open("#stream_err/1")
    page.send()
    assert page.texts(".outcome .chip") == ["200 OK", "ended with an error"]
    assert page.texts(".pieces .bad code") == ['{"error":"the third chunk is missing"}']


def test_a_sequence_is_gone_through(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open("#total/1")
    assert page.texts("details[open] td.name")[:3] == ["sequence_id", "sequence_start", "sequence_end"]
    page.one("#sequence").clear()
    page.one("#sequence").send_keys("seven")
    page.one("#sequence_end").click()
    assert page.request()["parameters"] == {"sequence_id": "seven", "sequence_start": True, "sequence_end": False}
    totals = []
    for request in range(3):
        if request == 2:
            page.one("#sequence_end").click()
        assert page.send() == "200 OK"
        totals += page.answer()["outputs"][0]["data"]
    assert totals == [1, 2, 3]
    # It has ended: what is sent now begins anew.
    assert page.request()["parameters"] == {"sequence_id": "seven", "sequence_start": True, "sequence_end": True}


def test_a_key_is_asked_for_and_sent(browse: Browse) -> None:
    rules = {"api_key": KEY, "restricted_access": f"inference:admin={ADMIN}"}
    with Server(double, http="127.0.0.1:0", grpc=None, **rules) as server:  # type: ignore[arg-type]
        page = browse(server)
        page.open()
        assert page.texts("h1") == ["Access"]
        assert "authorization" in page.texts(".notice")[0]
        page.enter("wrong")
        until(lambda: page.texts("td.mono") == ["authorization"], "the key to be used")
        assert page.texts("h1") == ["Access"]
        page.enter(KEY)
        until(lambda: page.texts("h1") == ["double"], "the model")
        assert page.send() == "403 Forbidden"
        (link,) = [one for one in page.all("main a") if one.text == "Enter the key"]
        link.click()
        until(lambda: page.one("#header").get_property("value") == "admin", "the header that is asked for")
        page.enter(ADMIN)
        until(lambda: page.texts("td.mono") == ["authorization", "admin"], "the key to be used")
        page.driver.back()
        until(lambda: page.texts("h1") == ["double"], "the model")
        assert page.send() == "200 OK"
        for client in ("penstock", "curl", "tritonclient"):
            lines = page.snippet(client)
            assert "Bearer KEY" in lines
            assert KEY not in lines
            assert ADMIN not in lines
        page.refusals = 3


@pytest.mark.parametrize("name", [one.name for one in MODELS if one not in (stepped, endless, stream_err)])
def test_what_is_copied_runs(browse: Browse, server: Server, name: str) -> None:
    page = browse(server)
    page.open(f"#{name.replace(' ', '%20')}/1")
    for tab in page.texts("[role=tab]"):
        lines = page.snippet(tab)
        if tab == "curl":
            done = subprocess.run(["bash", "-c", lines], capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 0, done.stderr
            assert '"outputs":' in done.stdout
            continue
        if tab == "tritonclient":
            pytest.importorskip("tritonclient.http")
        exec(compile(lines, f"{name} by {tab}", "exec"), {"__name__": "copied"})


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen_or_hard_to_read(
    browse: Browse, server: Server, width: int, scheme: str
) -> None:
    page = browse(server)
    with screen(page.driver, width, scheme):
        page.open()
        for view in VIEWS:
            page.turn(view)
            wide, has = page.driver.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
            assert wide <= has, view
            assert page.driver.execute_script(FAINT) == [], view


# The texts whose contrast to what is behind them is under 4.5 to 1.
FAINT = """
const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const behind = (element) => {
  for (; element; element = element.parentElement) {
    const colour = numbers(getComputedStyle(element).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const faint = [];
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim() || !element.checkVisibility() || element.closest("script, noscript")) continue;
  const pair = [light(numbers(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
  if ((pair[0] + 0.05) / (pair[1] + 0.05) < 4.5) faint.push(texts.currentNode.data.trim());
}
return faint;
"""


def test_a_server_without_models_says_so(browse: Browse, tmp_path: Any) -> None:
    with Server(http="127.0.0.1:0", grpc=None, repository=str(tmp_path), model_control="explicit") as server:
        page = browse(server)
        page.open()
        assert page.texts("h1") == ["Models"]
        assert page.texts(".facts")[0].startswith("No model is served now.")


def test_a_server_that_went_away_gives_no_answer(browse: Browse) -> None:
    with Server(double, http="127.0.0.1:0", grpc=None) as server:
        page = browse(server)
        page.open("#double/1")
    assert page.send() == "no answer"
    page.driver.execute_script("load().catch(failed)")
    until(lambda: "Try again" in page.texts("button"), "the complaint")
    assert page.texts("header .chip") == ["no answer"]
    page.refusals = 3
