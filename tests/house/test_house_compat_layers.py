"""Integrations in `penstock.compat`: no import cycles, no dependency on another integration, small folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from import_graph import check_no_circle, module_name, names

from house import ROOT, relative, sources

PACKAGE = "python/penstock/compat/"

INTEGRATIONS = sorted(
    {path.relative_to(ROOT / PACKAGE).parts[0] for path in sources(".py", under=PACKAGE)} - {"__init__.py"}
)


def modules(integration: str) -> dict[str, Path]:
    """The modules of an integration by name."""
    return {module_name(path): path for path in sources(".py", under=f"{PACKAGE}{integration}/")}


@pytest.mark.parametrize("integration", INTEGRATIONS)
def test_modules_have_no_import_cycles(integration: str) -> None:
    check_no_circle(modules(integration))


@pytest.mark.parametrize("integration", INTEGRATIONS)
def test_integration_does_not_import_another(integration: str) -> None:
    others = tuple(f"penstock.compat.{one}" for one in INTEGRATIONS if one != integration)
    for path in modules(integration).values():
        assert not [name for name in names(path) if name.startswith(others)], relative(path)


@pytest.mark.parametrize("integration", INTEGRATIONS)
def test_folder_has_at_most_20_modules(integration: str) -> None:
    for folder in {path.parent for path in modules(integration).values()}:
        assert len(list(folder.glob("*.py"))) <= 20, relative(folder)
