"""Pages of the documentation run as they stand: each in an empty folder, block by block."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pages import Reader, blocks

ROOT = Path(__file__).resolve().parents[2]
RECIPES = sorted(path for path in (ROOT / "docs/recipes").glob("*.md") if path.stem != "index")

NEEDS = {
    "from-fastapi": ("pydantic",),
    "from-triton": ("tritonclient.grpc",),
    "images": ("PIL",),
    "onnxruntime": ("onnx", "onnxruntime", "sklearn"),
    "pytorch": ("torch",),
    "scikit-learn": ("sklearn",),
    "transformers": ("transformers", "torch"),
    "xgboost": ("xgboost", "sklearn"),
}
"""Packages that the code of a page imports; it is skipped where one is not installed."""

SHORTEST, LONGEST = 50, 120
"""Lines of a recipe."""

HEADINGS = ["The app", "Run", "Call", "Tune"]
"""Headings of each recipe, in this order, among others."""


def test_quickstart_runs_as_it_stands(tmp_path: Path) -> None:
    pytest.importorskip("tritonclient.http")
    with Reader(tmp_path) as reader:
        reader.read((ROOT / "docs/quickstart.md").read_text())
    assert len(reader.outputs) == 6


def test_first_model_of_the_readme_runs_as_it_stands(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    # Up to the section that builds the clone.
    with Reader(tmp_path) as reader:
        reader.read(readme[: readme.index("\n## ")])
    assert len(reader.outputs) == 1


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipe_runs_as_it_stands(path: Path, tmp_path: Path) -> None:
    for package in NEEDS.get(path.stem, ()):
        pytest.importorskip(package)
    with Reader(tmp_path, {"OMP_NUM_THREADS": "1"}) as reader:
        reader.read(path.read_text())
    assert reader.outputs


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipe_has_the_common_shape(path: Path) -> None:
    page = path.read_text()
    headings = [heading for heading in re.findall(r"^## (.+)$", page, re.MULTILINE) if heading in HEADINGS]
    assert headings == HEADINGS
    assert SHORTEST <= len(page.splitlines()) <= LONGEST
    assert re.match(r"# .+\n\n\*\*You get\*\* ", page), "it begins with what the reader gets"
    assert any(block.language in ("text", "json") for block in blocks(page)), "it shows an output"


def test_index_of_recipes_links_each() -> None:
    index = (ROOT / "docs/recipes/index.md").read_text()
    assert re.findall(r"^\| \[[^\]]+\]\(([\w-]+\.md)\)", index, re.MULTILINE)
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", index))
    assert linked == {path.name for path in RECIPES}
    toctree = index.partition("```{toctree}")[2].partition("```")[0]
    assert {f"{name}.md" for name in re.findall(r"^([\w-]+)$", toctree, re.MULTILINE)} == linked
