"""`Workspace`: a folder that lasts as long as a server. Nothing that is served needs it; scripts put files there."""

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
    """A new folder, with a folder `model-store` in it.

    Args:
        workspace_path: Where it is made; None for a folder of a name that nobody has, in `constants.PYTRITON_HOME`. One
            that is made there goes with the process, if nobody cleans it before.

    Raises:
        FileExistsError: there is such a folder.
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
        """The folder."""
        return self._path

    def exists(self) -> bool:
        """Whether it is still there."""
        return self._path.exists()

    def is_empty(self) -> bool:
        """Whether nothing is in it. What has a dot before its name is not looked at."""
        return not self._visible()

    def clean(self) -> None:
        """Removes it with all that is in it. What has a dot before its name stays, and then so does the folder.

        Warns:
            CleanupWarning: it could not be removed.
        """
        try:
            for one in self._visible():
                if one.is_dir() and not one.is_symlink():
                    shutil.rmtree(one)
                else:
                    one.unlink()
            if self._path.exists():
                self._path.rmdir()
        except OSError as error:
            warnings.warn(f"Could not clean workspace {self._path}. {error}", CleanupWarning, stacklevel=2)

    def _visible(self) -> list[Path]:
        return [one for one in self._path.glob("*") if not one.name.startswith(".")]
