"""`Workspace`: a folder for a script's files, with the lifetime of a server. Serving itself does not need it."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import warnings
import weakref
from pathlib import Path

__all__ = ["CleanupWarning", "Workspace"]

LOGGER = logging.getLogger("pytriton.utils.workspace")


class CleanupWarning(UserWarning):
    """A workspace could not be removed."""


class Workspace:
    """A new folder with a subfolder `model-store`.

    Args:
        workspace_path: Path of the new folder. None creates a uniquely named folder in `constants.PYTRITON_HOME`, which
            is removed with the process at the latest.

    Raises:
        FileExistsError: the path exists.
    """

    def __init__(self, workspace_path: str | os.PathLike[str] | None = None) -> None:
        if workspace_path is None:
            from penstock.compat.pytriton.constants import PYTRITON_HOME

            PYTRITON_HOME.mkdir(parents=True, exist_ok=True)
            self._path = Path(tempfile.mkdtemp(prefix="workspace_", dir=PYTRITON_HOME)).resolve()
            weakref.finalize(self, shutil.rmtree, self._path, ignore_errors=True)
        else:
            self._path = Path(workspace_path).resolve()
            self._path.mkdir(parents=True)
        self.model_store_path = self._path / "model-store"
        self.model_store_path.mkdir()
        LOGGER.debug("workspace %s", self._path)

    @property
    def path(self) -> Path:
        """Path of the folder."""
        return self._path

    def exists(self) -> bool:
        """True if the folder exists."""
        return self._path.exists()

    def is_empty(self) -> bool:
        """True if the folder is empty, apart from names with a leading dot."""
        return not self._visible()

    def clean(self) -> None:
        """Removes the folder and its content. Names with a leading dot stay, and then the folder stays too.

        Warns:
            CleanupWarning: the folder could not be removed.
        """
        try:
            for entry in self._visible():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
            if self._path.exists():
                self._path.rmdir()
        except OSError as error:
            warnings.warn(f"Could not clean workspace {self._path}. {error}", CleanupWarning, stacklevel=2)

    def _visible(self) -> list[Path]:
        return [entry for entry in self._path.glob("*") if not entry.name.startswith(".")]
