"""A browser without a window, and what a test does on the page at /docs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from penstock import Server
from waiting import until

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("chromium or chromedriver is not installed; make browser installs both")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    # Its sandbox is not for root.
    for flag in (*FLAGS, "--no-sandbox") if os.geteuid() == 0 else FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


class Page:
    """The page at /docs of one server."""

    def __init__(self, driver: Chrome, url: str) -> None:
        self.driver, self.url = driver, url
        self.refusals = 0
        """How many of its requests were refused: the browser's console tells of each."""

    def open(self, view: str = "") -> None:
        """Goes to a view, and waits until it is there."""
        # The same page with another fragment would not be loaded again.
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}/docs{view}")
        until(lambda: self.all("main h1, main .notice"), "the page")
        self.settle()

    def turn(self, view: str) -> None:
        """Goes to another view of the same page."""
        self.driver.execute_script("location.hash = arguments[0]; draw()", view)
        self.settle()

    def settle(self) -> None:
        """Waits until the page shows what is ready."""
        until(lambda: "asking" not in self.texts(".chip"), "the readiness")

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> WebElement:
        found = self.all(selector)
        assert found, selector
        return found[0]

    def texts(self, selector: str) -> list[str]:
        # In one step: the page may be drawn anew at any time.
        script = "return [...document.querySelectorAll(arguments[0])].map((element) => element.innerText)"
        return [str(text) for text in self.driver.execute_script(script, selector)]

    def click(self, label: str) -> None:
        """Clicks the button of this label."""
        (button,) = [one for one in self.all("button") if one.text == label]
        button.click()

    def write(self, body: Any) -> None:
        """Writes a request in place of the example."""
        field = self.one("textarea")
        field.clear()
        field.send_keys(body if isinstance(body, str) else json.dumps(body))

    def request(self) -> Any:
        """The request that is written there."""
        return json.loads(str(self.one("textarea").get_property("value")))

    def send(self) -> str:
        """Sends it, waits for the end of the answer, and gives its status."""
        self.click("Send")
        until(lambda: "Send" in self.texts(".send"), "the answer's end")
        return self.status()

    def status(self) -> str:
        return self.texts(".outcome .chip")[0]

    def answer(self) -> Any:
        """The JSON below the form."""
        return json.loads(self.texts("pre.wrap")[-1])

    def enter(self, key: str, header: str | None = None) -> None:
        """Fills in the form that asks for a key."""
        if header is not None:
            self.one("#header").clear()
            self.one("#header").send_keys(header)
        self.one("#secret").clear()
        self.one("#secret").send_keys(key)
        self.click("Use it")

    def snippet(self, client: str) -> str:
        """The lines for a client."""
        self.click(client)
        return self.texts("#panel code")[0]


Browse = Callable[..., Page]


@pytest.fixture
def browse(browser: Chrome) -> Iterator[Browse]:
    """`browse(server)` is its page. In the end: no request went elsewhere, and nothing was complained of."""
    pages: list[Page] = []

    def opened(server: Server) -> Page:
        pages.append(Page(browser, server.http_url))
        return pages[-1]

    forget(browser)
    yield opened
    for page in pages:
        asked = requests(browser)
        assert asked, "the browser logged no request"
        assert not [url for url in asked if not url.startswith((f"{page.url}/", "about:"))]
        complaints = browser.get_log("browser")
        refused = [entry for entry in complaints if entry["source"] == "network"]
        assert [entry for entry in complaints if entry not in refused] == []
        assert len(refused) == page.refusals, refused


def forget(browser: Chrome) -> None:
    """Reads what was logged before."""
    browser.get("about:blank")
    for log in ("browser", "performance"):
        browser.get_log(log)


def requests(browser: Chrome) -> list[str]:
    """The URLs of all requests since the last time."""
    entries = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    return [entry["params"]["request"]["url"] for entry in entries if entry["method"] == "Network.requestWillBeSent"]


@contextmanager
def screen(browser: Chrome, width: int, scheme: str) -> Iterator[None]:
    """A screen of this width, whose owner wants `light` or `dark`."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
