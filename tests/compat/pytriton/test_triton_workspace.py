"""0, 1.12: `Workspace`, and the contents of the package."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.compat import pytriton
from penstock.compat.pytriton import constants
from penstock.compat.pytriton.utils.workspace import CleanupWarning, Workspace


def test_workspace_creates_a_new_folder(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "a" / "b")
    assert workspace.path == (tmp_path / "a" / "b").resolve()
    assert workspace.exists()
    assert workspace.model_store_path == workspace.path / "model-store"
    assert workspace.model_store_path.is_dir()
    assert not workspace.is_empty()
    with pytest.raises(FileExistsError):
        Workspace(str(tmp_path / "a" / "b"))


def test_clean_removes_the_content(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w")
    (workspace.path / "file").write_text("x")
    (workspace.path / "link").symlink_to(tmp_path)
    (workspace.model_store_path / "deep").mkdir()
    workspace.clean()
    assert not workspace.exists()
    assert tmp_path.exists()
    workspace.clean()


def test_hidden_files_are_retained_with_a_warning(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "w")
    (workspace.path / ".hidden").write_text("x")
    with pytest.warns(CleanupWarning, match=r"^Could not clean workspace .*/w\. "):
        workspace.clean()
    assert workspace.is_empty()
    assert (workspace.path / ".hidden").exists()


def test_default_workspace_is_in_the_users_cache_and_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "PYTRITON_HOME", tmp_path / "home")
    workspace = Workspace()
    path = workspace.path
    assert (path.parent, path.name.startswith("workspace_")) == ((tmp_path / "home").resolve(), True)
    assert path != Workspace().path
    del workspace
    gc.collect()
    assert not path.exists()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"PYTRITON_HOME": "$HOME/custom"}, "/nowhere/custom"),
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/pytriton"),
        ({}, "/nowhere/.cache/pytriton"),
    ],
)
def test_environment_sets_the_home_folder(environ: dict[str, str], expected: str) -> None:
    program = "from penstock.compat.pytriton.constants import PYTRITON_HOME; print(PYTRITON_HOME)"
    cleared = {name: value for name, value in os.environ.items() if name not in ("PYTRITON_HOME", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [sys.executable, "-c", program], env={**cleared, "HOME": "/nowhere", **environ}, capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == expected


def test_constants_equal_pytritons() -> None:
    assert (constants.DEFAULT_HTTP_PORT, constants.DEFAULT_GRPC_PORT, constants.DEFAULT_METRICS_PORT) == (
        8000,
        8001,
        8002,
    )
    assert (constants.TRITON_LOCAL_IP, constants.TRITON_CONTEXT_FIELD_NAME) == ("127.0.0.1", "triton_context")
    assert (constants.DEFAULT_TRITON_STARTUP_TIMEOUT_S, constants.CREATE_TRITON_CLIENT_TIMEOUT_S) == (120, 10)


def test_package_has_pytritons_version_and_modules() -> None:
    assert pytriton.__version__ == "0.7.0"
    program = (
        "import penstock.compat.pytriton as p; print(p.triton.Triton, p.model_config.ModelConfig, p.client.ModelClient)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
