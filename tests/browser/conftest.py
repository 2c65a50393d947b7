"""Headless browser, and the page object of the page at /docs."""

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
    # Chromium's sandbox does not run as root.
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
        """Number of refused requests; the browser logs each of them."""

    def open(self, view: str = "") -> None:
        """Opens a view and waits until it is drawn."""
        # A change of the fragment alone does not reload the page.
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}/docs{view}")
        until(lambda: self.all("main h1, main .notice"), "the page")
        self.wait_for_readiness()

    def open_tensors(self, view: str) -> None:
        """Opens a model's view of requests of the protocol."""
        self.open(view)
        if "Tensors" in self.texts("[role=tab]"):
            self.click("Tensors")

    def switch(self, view: str) -> None:
        """Switches to another view without a reload."""
        self.driver.execute_script("location.hash = arguments[0]; draw()", view)
        self.wait_for_readiness()

    def wait_for_readiness(self) -> None:
        """Waits until the page shows the readiness of the models."""
        until(lambda: "asking" not in self.texts(".chip"), "the readiness")

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> WebElement:
        elements = self.all(selector)
        assert elements, selector
        return elements[0]

    def texts(self, selector: str) -> list[str]:
        # One script call, because the page may be redrawn at any time.
        script = "return [...document.querySelectorAll(arguments[0])].map((element) => element.innerText)"
        return [str(text) for text in self.driver.execute_script(script, selector)]

    def click(self, label: str) -> None:
        """Clicks the button with this label."""
        (button,) = [one for one in self.all("button") if one.text == label]
        button.click()

    def write_request(self, body: Any) -> None:
        """Replaces the example with a request."""
        field = self.one("textarea")
        field.clear()
        field.send_keys(body if isinstance(body, str) else json.dumps(body))

    def request(self) -> Any:
        """The request in the form."""
        return json.loads(str(self.one("textarea").get_property("value")))

    def send(self) -> str:
        """Sends the request, waits for the end of the response, and returns its status."""
        self.click("Send")
        until(lambda: "Send" in self.texts(".send"), "the end of the response")
        return self.status()

    def status(self) -> str:
        return self.texts(".outcome .chip")[0]

    def response(self) -> Any:
        """The JSON below the form."""
        return json.loads(self.texts("pre.wrap")[-1])

    def enter_key(self, key: str, header: str | None = None) -> None:
        """Fills in the form for a key."""
        if header is not None:
            self.one("#header").clear()
            self.one("#header").send_keys(header)
        self.one("#secret").clear()
        self.one("#secret").send_keys(key)
        self.click("Use it")

    def snippet(self, client: str) -> str:
        """Code for a client."""
        self.click(client)
        return self.texts("#panel code")[0]


Browse = Callable[..., Page]


@pytest.fixture
def browse(browser: Chrome) -> Iterator[Browse]:
    """`browse(server)` opens its page. At the end: all requests went to the server, and the console has no errors."""
    pages: list[Page] = []

    def open_page(server: Server) -> Page:
        pages.append(Page(browser, server.http_url))
        return pages[-1]

    clear_logs(browser)
    yield open_page
    for page in pages:
        urls = requests(browser)
        assert urls, "the browser logged no request"
        assert not [url for url in urls if not url.startswith((f"{page.url}/", "about:"))]
        console = browser.get_log("browser")
        network_errors = [entry for entry in console if entry["source"] == "network"]
        assert [entry for entry in console if entry not in network_errors] == []
        assert len(network_errors) == page.refusals, network_errors


def clear_logs(browser: Chrome) -> None:
    """Discards earlier log entries."""
    browser.get("about:blank")
    for log in ("browser", "performance"):
        browser.get_log(log)


def requests(browser: Chrome) -> list[str]:
    """URLs of all requests since the last call."""
    entries = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    return [entry["params"]["request"]["url"] for entry in entries if entry["method"] == "Network.requestWillBeSent"]


@contextmanager
def screen(browser: Chrome, width: int, scheme: str) -> Iterator[None]:
    """Emulates a screen of this width with a preference for `light` or `dark`."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
