"""The page at /docs in a browser: sends requests and shows responses, streams and errors."""

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
    """Running total of a sequence."""
    assert ctx.sequence is not None
    state = ctx.sequence.state
    state["total"] = state.get("total", 0) + int(x[0])
    return np.array([state["total"]], np.int32)


@model(inputs=[Tensor("image", np.uint8, [64, 64])], outputs=[Tensor("sum", np.int64, [])])
def large(image: Any) -> Any:
    return image.sum(dtype=np.int64)


@model(name="a name", inputs=[Tensor("from", "BF16", [2]), Tensor("b c", str, [1])], outputs=[Tensor("y", str, [1])])
def unusual_names(**inputs: Any) -> Any:
    return inputs["b c"]


@model
def upper(text: str) -> str:
    return text.upper()


MODELS = [double, total, large, unusual_names, upper, greet, words, stepped, endless, stream_err]
VIEWS = ["", "#routes", "#access", *(f"#{one.name.replace(' ', '%20')}/1" for one in MODELS)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(*MODELS, http="127.0.0.1:0", grpc=None) as server:
        yield server


def test_example_request_gets_a_response(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open_tensors("#double/1")
    assert page.texts(".lead") == ["Twice x, <b>not</b> markup."]
    assert page.send() == "200 OK"
    (output,) = page.response()["outputs"]
    assert (output["name"], output["shape"], output["data"]) == ("y", [1, 3], [2, 2, 2])


def test_invalid_input_shows_the_error_message(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open_tensors("#double/1")
    body = page.request()
    body["inputs"][0]["shape"] = [1, 4]
    page.write_request(body)
    assert page.send() == "400 Bad Request"
    message = post(server.http_url, "/v2/models/double/infer", json.dumps(body).encode()).error()
    assert "input 'x'" in message
    assert page.texts("main .notice") == [message]
    page.refusals = 1


def test_large_example_is_generated_on_send(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open_tensors("#large/1")
    assert page.one("textarea").get_property("value") == ""
    assert page.send() == "200 OK"
    assert page.response()["outputs"][0]["data"] == [64 * 64]


def test_stream_chunks_are_appended(browse: Browse, server: Server) -> None:
    TAP.reset()
    page = browse(server)
    page.open_tensors("#stepped/1")
    body = page.request()
    body["inputs"][0]["data"] = [3]
    page.write_request(body)
    page.click("Send")
    for number in range(3):
        TAP.go_on.release()
        until(lambda: len(page.all(".pieces li")) == number + 1, "the next chunk")  # noqa: B023 - called at once
        assert ("Stop" in page.texts(".send")) or number == 2
    chunks = [json.loads(chunk)["outputs"][0]["data"] for chunk in page.texts(".pieces code")]
    assert chunks == [[0], [1], [2]]
    until(lambda: "Send" in page.texts(".send"), "the stream's end")
    assert page.status() == "200 OK"
    assert "3 pieces" in page.texts(".outcome")[0]


def test_stop_button_cancels_the_stream_on_the_server(browse: Browse, server: Server) -> None:
    TAP.reset()
    page = browse(server)
    page.open_tensors("#endless/1")
    page.click("Send")
    until(lambda: len(page.all(".pieces li")) > 2, "some chunks")
    page.click("Stop")
    until(lambda: page.texts(".outcome .chip") == ["stopped"], "the end")
    assert TAP.closed.wait(20)
    assert len(page.all(".pieces li")) <= 500


def test_error_within_a_stream_is_shown(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open_tensors("#stream_err/1")
    page.send()
    assert page.texts(".outcome .chip") == ["200 OK", "ended with an error"]
    assert page.texts(".pieces .bad code") == ['{"error":"the third chunk is missing"}']


def test_sequence_form_advances_through_a_sequence(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open_tensors("#total/1")
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
        totals += page.response()["outputs"][0]["data"]
    assert totals == [1, 2, 3]
    # The sequence has ended, so the next request starts a new one.
    assert page.request()["parameters"] == {"sequence_id": "seven", "sequence_start": True, "sequence_end": True}


def test_access_keys_are_requested_and_sent(browse: Browse) -> None:
    rules = {"api_key": KEY, "restricted_access": f"inference:admin={ADMIN}"}
    with Server(double, http="127.0.0.1:0", grpc=None, **rules) as server:  # type: ignore[arg-type]
        page = browse(server)
        page.open()
        assert page.texts("h1") == ["Access"]
        assert "authorization" in page.texts(".notice")[0]
        page.enter_key("wrong")
        until(lambda: page.texts("td.mono") == ["authorization"], "the use of the key")
        assert page.texts("h1") == ["Access"]
        page.enter_key(KEY)
        until(lambda: page.texts("h1") == ["double"], "the model")
        page.click("Tensors")
        assert page.send() == "403 Forbidden"
        (link,) = [one for one in page.all("main a") if one.text == "Enter the key"]
        link.click()
        until(lambda: page.one("#header").get_property("value") == "admin", "the name of the required header")
        page.enter_key(ADMIN)
        until(lambda: page.texts("td.mono") == ["authorization", "admin"], "the use of the key")
        page.driver.back()
        until(lambda: page.texts("h1") == ["double"], "the model")
        page.click("Tensors")
        assert page.send() == "200 OK"
        for client in ("penstock", "curl", "tritonclient"):
            lines = page.snippet(client)
            assert "Bearer KEY" in lines
            assert KEY not in lines
            assert ADMIN not in lines
        # The wrong key is refused for the readiness of the server too.
        page.refusals = 4


@pytest.mark.parametrize("name", [one.name for one in MODELS if one not in (stepped, endless, stream_err)])
def test_client_snippets_run(browse: Browse, server: Server, name: str) -> None:
    page = browse(server)
    page.open_tensors(f"#{name.replace(' ', '%20')}/1")
    for tab in page.texts("[aria-label=Clients] [role=tab]"):
        lines = page.snippet(tab)
        if tab == "curl":
            done = subprocess.run(["bash", "-c", lines], capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 0, done.stderr
            assert '"outputs":' in done.stdout
            continue
        if tab == "tritonclient":
            pytest.importorskip("tritonclient.http")
        exec(compile(lines, f"{name} by {tab}", "exec"), {"__name__": "snippet"})


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_views_fit_the_screen_and_have_enough_contrast(browse: Browse, server: Server, width: int, scheme: str) -> None:
    page = browse(server)
    with screen(page.driver, width, scheme):
        page.open()
        for view in VIEWS:
            page.switch(view)
            content_width, screen_width = page.driver.execute_script(
                "return [document.documentElement.scrollWidth, innerWidth]"
            )
            assert content_width <= screen_width, view
            assert page.driver.execute_script(LOW_CONTRAST_TEXTS) == [], view


# Texts with a contrast below 4.5 to 1 to their background.
LOW_CONTRAST_TEXTS = """
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


def test_server_without_models_shows_a_notice(browse: Browse, tmp_path: Any) -> None:
    with Server(http="127.0.0.1:0", grpc=None, repository=str(tmp_path), model_control="explicit") as server:
        page = browse(server)
        page.open()
        assert page.texts("h1") == ["Models"]
        assert page.texts(".facts")[0].startswith("No model is served now.")


def test_stopped_server_is_shown_as_no_answer(browse: Browse) -> None:
    with Server(double, http="127.0.0.1:0", grpc=None) as server:
        page = browse(server)
        page.open("#double/1")
    assert page.send() == "no answer"
    page.driver.execute_script("load().catch(failed)")
    until(lambda: "Try again" in page.texts("button"), "the error notice")
    assert page.texts("header .chip") == ["no answer"]
    page.refusals = 3
