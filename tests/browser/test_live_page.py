"""The page at /live in a browser: figures, tracebacks, reconnection, access, accessibility."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pytest

from http_by_hand import infer
from live_events import Viewer
from models import in_processes
from penstock import Batching, Server, Tensor, model
from waiting import PATIENCE, until

from .conftest import clear_logs, requests, screen

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

X, Y = [Tensor("x", np.float32, [3])], [Tensor("y", np.float32, [3])]
MARKUP = "<img src=x onerror=alert(1)>"
NONE = "\N{EN DASH}"
"""Shown for a figure that is not known."""
PATIENT = 3 * PATIENCE
"""Figures come once a second."""


@model(inputs=X, outputs=Y, batching=Batching(max_size=8), instances=2)
def double(x: Any) -> Any:
    return x * 2


NAME = "bold <b onclick=x>"


@model(name=NAME, inputs=X, outputs=Y)
def failing(x: Any) -> Any:
    raise LookupError(f"{MARKUP} for {x[0]:g}")


class LivePage:
    """The page at /live of one server."""

    def __init__(self, driver: Chrome, url: str) -> None:
        self.driver, self.url = driver, url

    def open(self, view: str = "") -> None:
        """Opens the page and waits for its first figures."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}/live{view}")
        self.await_text("#link", "live")
        until(lambda: self.texts("#models tbody tr"), "the models")

    def texts(self, selector: str) -> list[str]:
        # One script call, because the page is redrawn each second.
        script = "return [...document.querySelectorAll(arguments[0])].map((element) => element.innerText)"
        return [str(text) for text in self.driver.execute_script(script, selector)]

    def text(self, selector: str) -> str:
        return "\n".join(self.texts(selector))

    def await_text(self, selector: str, text: str) -> None:
        until(lambda: text in self.text(selector), f"{text!r} in {selector}", PATIENT)

    def script(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    def keys(self, *keys: str) -> None:
        """Presses keys where the focus is."""
        self.driver.switch_to.active_element.send_keys(*keys)


Watch = Callable[[Server], LivePage]


@pytest.fixture
def watch(browser: Chrome) -> Iterator[Watch]:
    """`watch(server)` is its page. At the end: all requests went to the server, and scripts had no errors."""
    pages: list[LivePage] = []

    def page_of(server: Server) -> LivePage:
        pages.append(LivePage(browser, server.http_url))
        return pages[-1]

    clear_logs(browser)
    yield page_of
    own = tuple(f"{page.url}/live" for page in pages)
    urls = requests(browser)
    assert urls, "the browser logged no request"
    assert not [url for url in urls if not url.startswith((*own, "about:")) and not url.endswith("/favicon.ico")]
    console = browser.get_log("browser")
    assert [entry for entry in console if entry["source"] != "network"] == []
    browser.get("about:blank")


@contextmanager
def traffic(server: Server, name: str = "double") -> Iterator[None]:
    """Sends requests until the end."""
    ended = threading.Event()
    shape = (1, 3) if name == "double" else (3,)

    def work() -> None:
        while not ended.wait(0.002):
            infer(server.http_url, name, {"x": np.ones(shape, np.float32)}, id="from-a-client")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(double, failing, in_processes.same, http="127.0.0.1:0", grpc=None) as server:
        yield server


def fail(server: Server, value: float = 7) -> None:
    assert infer(server.http_url, quote(NAME), {"x": np.full(3, value, np.float32)}).status == 500


def cells(page: LivePage, name: str) -> dict[str, str]:
    """The cells of a model's row, by the heads of their columns."""
    script = """
    const rows = [...document.querySelectorAll("#models tbody tr")];
    const row = rows.find((row) => row.querySelector("button span").textContent === arguments[0]);
    const cells = row ? [...row.querySelectorAll("td")] : [];
    return Object.fromEntries(cells.map((cell) => [cell.dataset.head, cell.innerText]));
    """
    return dict(page.script(script, name))


def test_traffic_is_shown_by_model_and_for_the_server(watch: Watch, server: Server) -> None:
    page = watch(server)
    page.open("#double%2F1")
    assert "double" in page.text("#detail-title")
    with traffic(server):
        until(lambda: cells(page, "double").get("p99", NONE) != NONE, "percentiles", PATIENT)
        until(
            lambda: page.script("return document.querySelectorAll('#last tbody tr').length") >= 5, "requests", PATIENT
        )
        row = cells(page, "double")
    assert row["State"] == "ready"
    assert float(row["Req/s"].replace(",", "")) > 0
    assert row["p50"].endswith((" ms", " µs"))
    assert row["Instances"].endswith("/ 2 busy")
    assert row["Batch"].endswith(" / 8")
    assert "requests since the start" in page.text("#tiles")
    assert "from-a-client" in page.text("#last")
    assert "from-a-client" in page.text("#slow")
    assert {"idle", "returned", "hold-expired"} & set(page.texts("#detail .bars .label"))
    label = page.script("return document.querySelector('#detail figure.time .times').getAttribute('aria-label')")
    assert [part.split(" ")[0] for part in label.split(", ")] == ["Queue", "Interpreter", "Handler", "Encode"]


def test_traceback_is_shown_as_text(watch: Watch, server: Server) -> None:
    page = watch(server)
    page.open()
    fail(server)
    page.await_text("#errors", "LookupError")
    page.script("document.querySelector('#errors details').open = true")
    shown = page.text("#errors pre")
    assert f"LookupError: {MARKUP} for 7" in shown
    assert "in failing" in shown
    assert f"{NAME} v1" in page.text("#errors summary")
    assert NAME in page.text("#models tbody")
    assert page.script("return document.querySelectorAll('main img, main b b, #models b').length") == 0
    # It stays open, while the same error is counted.
    fail(server)
    page.await_text("#errors summary", "\N{MULTIPLICATION SIGN} 2")
    assert page.script("return document.querySelector('#errors details').open")


def test_page_connects_again_after_a_restart(watch: Watch) -> None:
    with Server(double, http="127.0.0.1:0", grpc=None) as server:
        page = watch(server)
        page.open()
        address = server.http_address
    page.await_text("#link", "no connection")
    assert "double" in page.text("#models"), "the last figures stay"
    with Server(double, failing, http=address, grpc=None) as server:
        page.await_text("#link", "live")
        page.await_text("#models", NAME)
        assert page.text("#notice") == ""


def test_refused_viewer_gets_the_reason_and_waits_for_a_place(watch: Watch, server: Server) -> None:
    viewers = [Viewer(server.http_url) for _ in range(8)]
    page = watch(server)
    try:
        page.driver.get(f"{server.http_url}/live")
        page.await_text("#notice", "8 viewers watch this server at /live already")
    finally:
        for viewer in viewers:
            viewer.__exit__()
    page.await_text("#link", "live")
    assert page.text("#notice") == ""


def test_required_key_is_requested_and_sent(watch: Watch) -> None:
    with Server(double, http="127.0.0.1:0", grpc=None, api_key="key-91c2") as server:
        page = watch(server)
        page.driver.get(f"{server.http_url}/live")
        page.await_text("#notice", "a key is needed")
        page.script("document.querySelector('#secret').focus()")
        page.keys("key-91c2\n")
        page.await_text("#link", "live")
        assert page.text("#notice") == ""


def test_models_are_selected_and_sorted_from_the_keyboard(watch: Watch, server: Server) -> None:
    page = watch(server)
    # Narrow screens have no heads.
    with screen(page.driver, 1280, "light"):
        page.open("#double%2F1")
        names = "#models tbody button span:first-child"
        assert page.texts(names) == [NAME, "double", "same"]
        page.script("document.querySelector('#models [data-key=\"double/1\"]').focus()")
        page.keys("\ue015")
        until(lambda: page.text("#detail-title").startswith("same"), "the next model")
        assert page.script("return document.activeElement.dataset.key") == "same/1"
        assert page.script("return location.hash") == "#same%2F1"
        assert page.texts("#detail figure .instance") == ["#0"]
        page.script("document.querySelector('#models thead button').focus()")
        page.keys("\ue007")
        until(lambda: page.texts(names) == ["same", "double", NAME], "the other order")
        sorts = page.script("return [...document.querySelectorAll('#models [aria-sort]')].map((one) => one.ariaSort)")
        assert sorts[0] == "descending"
        assert set(sorts[1:]) == {"none"}


def test_paused_page_stays_as_it_is(watch: Watch, server: Server) -> None:
    page = watch(server)
    page.open()
    page.script("document.querySelector('#pause').click()")
    before = page.text("#about")
    events = page.script("return current.server.time")
    until(lambda: page.script("return current.server.time") > events + 1500, "two events", PATIENT)
    assert page.text("#about") == before
    page.script("document.querySelector('#pause').click()")
    assert page.text("#about") != before
    assert page.texts("#pause") == ["Pause"]


def test_charts_have_a_table_for_readers(watch: Watch, server: Server) -> None:
    page = watch(server)
    page.open("#double%2F1")
    page.script("document.querySelector('.figures').open = true")
    until(lambda: page.texts(".figures tbody tr"), "figures", PATIENT)
    assert page.script("return document.querySelectorAll('.figures thead th').length") == 6
    labels = page.script("return [...document.querySelectorAll('#detail .plot svg')].map((one) => one.ariaLabel)")
    assert [label.split(":")[0] for label in labels] == ["Requests a second", "Latency", "Waiting requests"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_page_has_no_violations_of_accessibility(watch: Watch, server: Server, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_core_python.selenium", reason="axe-core-python is not installed").Axe()
    page = watch(server)
    folder = os.environ.get("PENSTOCK_SCREENSHOTS")
    with screen(page.driver, width, scheme), traffic(server):
        page.open("#double%2F1")
        fail(server, 1)
        fail(server, 2)
        page.await_text("#errors", "LookupError")
        until(lambda: len(page.texts("#slow tbody tr")) >= 5, "slow requests", PATIENT)
        page.script("document.querySelectorAll('#errors details')[0].open = true")
        page.script("document.querySelector('.figures').open = true")
        until(lambda: page.texts(".figures tbody tr"), "figures", PATIENT)
        # The figures stand still meanwhile.
        page.script("document.querySelector('#pause').click()")
        found = axe.run(page.driver)["violations"]
        assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []
        assert page.script("return document.documentElement.scrollWidth <= innerWidth"), "it scrolls sideways"
        if folder:
            image = page.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
            Path(folder, f"live-{width}-{scheme}.png").write_bytes(base64.b64decode(image["data"]))
