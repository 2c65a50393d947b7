"""Models whose files a client uploads with the request to load them.

The files are in a temporary folder that is deleted with the last instance of the model. File names of a client
become paths below that folder only, and only in a restricted form.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from penstock._repository.failures import printable
from penstock._repository.sources import Offer, Version, is_name, read_offer
from penstock._spec.definition import Definition, Handler
from penstock._spec.versions import VersionPolicy
from penstock.errors import InvalidInput

__all__ = ["offer"]

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_EXPECTED = "'file:<version>/<file>', whose parts begin with a letter, digit or '_' and hold these, '.' and '-' only"
_DEEPEST = 8
_MOST_FILES = 1000


def offer(model: str, files: Mapping[str, bytes], policy: VersionPolicy) -> Offer:
    """The versions in uploaded files. Their total size is bounded by `max_body_bytes`.

    Raises:
        InvalidInput: an invalid name of a model or file, too many files, or files that are not a model.
    """
    if not is_name(model):
        raise InvalidInput(f"model '{printable(model)}': a model whose files are sent cannot have that name")
    if len(files) > _MOST_FILES:
        raise InvalidInput(f"{len(files)} load parameters 'file:...' were sent, expected at most {_MOST_FILES}")
    paths = {name: _checked(name) for name in files}
    folder = _TemporaryFolder()
    for name, parts in paths.items():
        path = folder.path.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Exclusive: on a file system that ignores case, two names may be one file.
            with path.open("xb") as file:
                file.write(files[name])
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise InvalidInput(f"load parameter 'file:{printable(name)}' is in the way of another one") from None
    offer = read_offer(folder.path, model, policy)
    if offer is None:
        raise InvalidInput(f"the files that were sent make no model '{model}', expected 'file:<version>/model.py'")
    versions = {name: _retaining(folder, version) for name, version in offer.versions.items()}
    return replace(offer, versions=versions)


def _checked(name: str) -> list[str]:
    parts = name.split("/")
    if not 2 <= len(parts) <= _DEEPEST or not is_name(parts[0]) or not all(map(_PART.fullmatch, parts)):
        raise InvalidInput(f"load parameter 'file:{printable(name)}' is not {_EXPECTED}")
    return parts


class _TemporaryFolder:
    """A temporary folder that is deleted with this object, at the latest at interpreter exit."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="penstock-model-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class _Factory:
    """Builds instances, and retains the folder of their code."""

    def __init__(self, folder: _TemporaryFolder, factory: Callable[[], Handler]) -> None:
        self._folder, self._factory = folder, factory

    def __call__(self) -> Handler:
        return self._factory()


def _retaining(folder: _TemporaryFolder, version: Version) -> Version:
    def define() -> Definition:
        definition = version.define()
        return replace(definition, factory=_Factory(folder, definition.factory))

    return replace(version, define=define)
