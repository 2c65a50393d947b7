"""The forms of the page at /docs: plain requests of values and files, what comes back, code to copy, and search."""

from __future__ import annotations

import base64
import enum
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from PIL import Image

from penstock import Batching, Server, Tensor, model, openai
from waiting import until

from .conftest import Browse, Page, screen


class Finish(enum.Enum):
    DRY = "dry"
    SWEET = "sweet"


@dataclass
class Wine:
    alcohol: float
    year: int = 2020
    colour: Literal["red", "white"] = "red"
    finish: Finish = Finish.DRY
    organic: bool = False
    name: str = ""


@model
def grade(wine: Wine, strict: bool = False) -> dict[str, Any]:
    """Marks of a wine."""
    return {"points": wine.alcohol * 2, "colour": wine.colour, "finish": wine.finish.value, "organic": wine.organic}


@model
def classify(text: str) -> dict[str, float]:
    """Scores of three labels."""
    return {"sad": 0.125, "glad": 0.75, "calm": 0.0625}


@model
def flip(image: Image.Image, angle: int = 90) -> Image.Image:
    """A turned image."""
    return image.rotate(angle, expand=True)


@model(batching=Batching(max_size=8))
def areas(image: list[Image.Image]) -> list[int]:
    return [one.width * one.height for one in image]


@model
def words(text: str) -> Iterator[str]:
    """Words, one after another."""
    for word in text.split():
        yield f"{word} "


@model
def faulty(text: str) -> Iterator[str]:
    yield text
    raise ValueError("no second piece")


@model
def square(side: int) -> bytes:
    """PNG bytes of a square."""
    content = io.BytesIO()
    Image.new("L", (side, side)).save(content, "PNG")
    return content.getvalue()


@model
def exact(number: int) -> int:
    return number


@model(inputs=[Tensor("x", np.float32, [2, -1])], outputs=[Tensor("y", np.float32, [])])
def tensor(x: Any) -> Any:
    return x.sum()


@model(inputs=[Tensor("x", np.uint8, [64, 64])], outputs=[Tensor("sum", np.int64, [])])
def large(x: Any) -> Any:
    return x.sum(dtype=np.int64)


MODELS = [
    grade, classify, flip, areas, words, faulty, square, exact, tensor, large,
    classify.with_options(version="2"), classify.with_options(version="3"),
    openai.routes(openai.Completions(words)),
]  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(*MODELS, http="127.0.0.1:0", grpc=None) as server:
        yield server


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pictures") / "a picture.png"
    Image.new("RGB", (60, 30), (200, 80, 40)).save(path)
    return path


def control(page: Page, label: str) -> Any:
    """The control whose label begins with this text."""
    (found,) = [one for one in page.all("label[for]") if one.text.split(" ")[0] == label]
    return page.one(f"#{found.get_attribute('for')}")


def fill(page: Page, label: str, value: str) -> None:
    field = control(page, label)
    field.clear()
    field.send_keys(value)


def choose(page: Page, label: str, value: str) -> None:
    (option,) = [one for one in control(page, label).find_elements("css selector", "option") if one.text == value]
    option.click()


def test_typed_request_is_sent_from_its_fields(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open("#grade/1")
    fill(page, "alcohol", "9.25")
    choose(page, "colour", "white")
    choose(page, "finish", "sweet")
    control(page, "organic").click()
    assert page.send() == "200 OK"
    assert page.response() == {"points": 18.5, "colour": "white", "finish": "sweet", "organic": True}
    assert " ms · " in page.texts(".outcome")[0]


def test_numbers_keep_their_digits(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open("#exact/1")
    fill(page, "number", "9007199254740993")
    assert page.send() == "200 OK"
    assert page.texts("pre.wrap") == ["9007199254740993"]
    assert '"{\\"number\\": 9007199254740993}"' in page_code(page, "JavaScript")


def test_scores_have_bars_in_their_order(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open("#classify/3")
    assert page.send() == "200 OK"
    assert page.texts(".bars .label") == ["glad", "sad", "calm"]
    whole, part = (page.driver.execute_script(f"return document.querySelectorAll('.bar')[0]{inner}.clientWidth")
                   for inner in ("", ".firstChild"))  # fmt: skip
    assert part / whole == pytest.approx(0.75, abs=0.02)


def test_image_is_uploaded_and_its_answer_shown(browse: Browse, server: Server, picture: Path) -> None:
    page = browse(server)
    page.open("#flip/1")
    control(page, "image").send_keys(str(picture))
    assert page.texts(".previews figcaption")[0].startswith("a picture.png, ")
    assert page.send() == "200 OK"
    until(lambda: "30 \u00d7 60 pixels" in "".join(page.texts("figure.answer figcaption")), "the image")
    drawn = (
        "return [...document.querySelectorAll('figure canvas')].map((one) => [one.width, one.height, "
        "...one.getContext('2d').getImageData(1, 1, 1, 1).data.slice(0, 3)])"
    )
    colour = [200, 80, 40]
    assert page.driver.execute_script(drawn) == [[60, 30, *colour], [30, 60, *colour]]


def test_several_files_are_rows_of_a_batch(browse: Browse, server: Server, picture: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.png"
    Image.new("L", (5, 5)).save(other)
    page = browse(server)
    page.open("#areas/1")
    control(page, "image").send_keys(f"{picture}\n{other}")
    assert page.send() == "200 OK"
    assert page.response() == [1800, 25]


def test_stream_of_text_grows(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open("#words/1")
    fill(page, "text", "one two three")
    assert page.send() == "200 OK"
    assert page.texts(".grown") == ["one two three "]
    assert "3 pieces" in page.texts(".outcome")[0]


def test_error_after_text_is_shown_below_it(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open("#faulty/1")
    page.send()
    assert page.texts(".outcome .chip") == ["200 OK", "ended with an error"]
    assert page.texts(".grown") == ["text"]
    assert page.texts(".pieces .bad code") == ['{"error":"model \'faulty\' failed: ValueError"}']


def test_image_within_json_is_shown(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open("#square/1")
    fill(page, "side", "7")
    assert page.send() == "200 OK"
    until(lambda: "7 \u00d7 7 pixels" in "".join(page.texts("figure.answer figcaption")), "the image")


def test_long_example_is_made_when_it_is_sent(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open("#large/1")
    assert page.send() == "200 OK"
    assert page.response() == 64 * 64
    assert "request.json" in page_code(page, "curl")


def test_error_of_the_server_marks_its_field(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open("#tensor/1")
    fill(page, "x", "[[1], 2]")
    assert page.send() == "400 Bad Request"
    assert page.texts("main .notice")[0].startswith("input 'x'")
    assert control(page, "x").get_attribute("aria-invalid") == "true"
    page.refusals = 1


@pytest.mark.parametrize(
    ("view", "label", "value", "message"),
    [("tensor", "x", "[1", "x is not JSON: "), ("exact", "number", "", "number: "), ("flip", "image", None, "image: ")],
)
def test_unusable_value_is_not_sent(
    browse: Browse, server: Server, view: str, label: str, value: str | None, message: str
) -> None:
    page = browse(server)
    page.open(f"#{view}/1")
    if value is not None:
        fill(page, label, value)
    assert page.send() == "not sent"
    assert page.texts("main .notice")[0].startswith(message)
    assert page.driver.switch_to.active_element == control(page, label)
    assert control(page, label).get_attribute("aria-invalid") == "true"


def page_code(page: Page, tab: str) -> str:
    page.click(tab)
    return page.texts("#code code")[0]


@pytest.mark.parametrize("name", ["grade", "classify", "flip", "areas", "words", "exact", "tensor"])
def test_code_of_the_form_runs(browse: Browse, server: Server, name: str, picture: Path) -> None:
    page = browse(server)
    page.open(f"#{name}/{3 if name == 'classify' else 1}")
    files = page.all("input[type=file]")
    for one in files:
        one.send_keys(str(picture))
    if name in ("classify", "words"):
        fill(page, "text", 'it\'s "one" äöü')
    shown: dict[str, Any] = {}
    for tab in page.texts("[aria-label=Code] [role=tab]"):
        command = {"curl": ["bash", "-c"], "JavaScript": ["node", "--input-type=module", "-e"]}.get(
            tab, [sys.executable, "-c"]
        )
        if shutil.which(command[0]) is None:
            continue
        answer = picture.parent / "answer.png"
        answer.unlink(missing_ok=True)
        done = subprocess.run(
            [*command, page_code(page, tab)], capture_output=True, text=True, check=False, timeout=60,
            cwd=picture.parent, env=os.environ,
        )  # fmt: skip
        assert done.returncode == 0, (tab, done.stderr)
        shown[tab] = done.stdout
        if name == "flip":
            with Image.open(answer) as image:
                shown[tab] = image.size
        assert "error" not in str(shown[tab]), tab
    assert len(shown) >= 3
    if name == "flip":
        assert set(shown.values()) == {(30, 60)}
    elif name != "words":
        assert all(shown.values())


def test_same_versions_are_folded_away(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open()
    assert [text.split("\n")[0] for text in page.texts("#side > ul > li > a")].count("classify") == 1
    page.one("#side .folded summary").click()
    assert [text.split("\n")[-1] for text in page.texts("#side .folded a")] == ["v1", "v2"]
    page.open("#classify/1")
    assert "2 (same types) 3 (same types)" in " ".join(page.texts(".facts"))


def test_search_finds_models_and_routes(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open()
    page.one("#search").send_keys("marks wine")
    assert [row.text.split()[0] for row in page.all("main tbody tr") if row.is_displayed()] == ["grade"]
    page.one("#search").clear()
    page.one("#search").send_keys("completions")
    (link,) = [one for one in page.all("#found a") if one.text.endswith("/v1/completions")]
    link.click()
    until(lambda: page.texts("h1") == ["Routes"], "the routes")
    assert "POST /v1/completions" in page.driver.switch_to.active_element.text
    assert page.driver.switch_to.active_element.tag_name == "tr"


def test_form_is_sent_from_the_keyboard(browse: Browse, server: Server) -> None:
    page = browse(server)
    page.open("#classify/3")
    control(page, "text").send_keys("\ue009\ue007")  # Ctrl+Enter
    until(lambda: page.texts(".outcome .chip") == ["200 OK"], "the response")
    seen = page.driver.execute_script(
        "return [...document.querySelectorAll('main a, main button, main input, main select, main textarea')]"
        ".filter((one) => one.tabIndex < 0 && one.getAttribute('role') !== 'tab').map((one) => one.outerHTML)"
    )
    assert seen == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_views_have_no_violations_of_accessibility(
    browse: Browse, server: Server, width: int, scheme: str, picture: Path
) -> None:
    axe = pytest.importorskip("axe_core_python.selenium", reason="axe-core-python is not installed").Axe()
    page = browse(server)
    # A folder for the images of all views, to look at.
    folder = os.environ.get("PENSTOCK_SCREENSHOTS")
    with screen(page.driver, width, scheme):
        page.open()
        for view in ("", "#routes", "#access", "#grade/1", "#classify/3", "#flip/1", "#words/1", "#tensor/1"):
            page.switch(view)
            for one in page.all("input[type=file]"):
                one.send_keys(str(picture))
            if "/" in view:
                assert page.send() == "200 OK"
            found = axe.run(page.driver)["violations"]
            assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == [], view
            assert page.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth"), view
            if folder:
                name = f"{view.strip('#').replace('/', '-') or 'all'}-{width}-{scheme}.png"
                image = page.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
                Path(folder, name).write_bytes(base64.b64decode(image["data"]))


def test_card_has_the_numbers_of_its_model(browse: Browse) -> None:
    x, y = Tensor("x", np.float32, [1]), Tensor("y", np.float32, [1])

    @model(instances=2, batching=Batching(max_size=8), inputs=[x], outputs=[y])
    def doubled(x: Any) -> Any:
        return 2 * x

    first = "Batches of up to 8 rows, 2 instances."
    with Server(doubled, http="127.0.0.1:0", grpc=None) as server:
        page = browse(server)
        page.open("#doubled/1")
        until(lambda: page.texts(".numbers") == [f"{first} 0 requests."], "the numbers")
        page.send()
        until(lambda: "1 request, 1 rows a batch, " in page.texts(".numbers")[0], "the numbers of the request")
        times = r" [\d.]+ (µs|ms) in the queue and [\d.]+ (µs|ms) in the handler, on average\.$"
        assert re.search(times, page.texts(".numbers")[0])
