"""A model whose files a client sends with the request to load it.

They lie in a temporary folder of their own for as long as something of the model is there, and are gone
afterwards. A client's names become paths only below that folder, and only in a narrow form.
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
from penstock._repository.sources import Offer, Version, is_name, offered
from penstock._spec.definition import Definition, Handler
from penstock._spec.versions import VersionPolicy
from penstock.errors import InvalidInput

__all__ = ["offer"]

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_EXPECTED = "'file:<version>/<file>', whose parts begin with a letter, digit or '_' and hold these, '.' and '-' only"
_DEEPEST = 8
_MOST_FILES = 1000


def offer(model: str, files: Mapping[str, bytes], policy: VersionPolicy) -> Offer:
    """What the files offer. Their bytes are bounded by the largest body that a request may have.

    Raises:
        InvalidInput: a name is none that a model or file can have, there are too many, or they make no model.
    """
    if not is_name(model):
        raise InvalidInput(f"model '{printable(model)}': a model whose files are sent cannot have that name")
    if len(files) > _MOST_FILES:
        raise InvalidInput(f"{len(files)} load parameters 'file:...' were sent, expected at most {_MOST_FILES}")
    paths = {name: _checked(name) for name in files}
    folder = _Folder()
    for name, parts in paths.items():
        path = folder.path.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Never over what is there: two names may mean one file where case does not count.
            with path.open("xb") as file:
                file.write(files[name])
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise InvalidInput(f"load parameter 'file:{printable(name)}' is in the way of another one") from None
    found = offered(folder.path, model, policy)
    if found is None:
        raise InvalidInput(f"the files that were sent make no model '{model}', expected 'file:<version>/model.py'")
    return replace(found, versions={name: _holding(folder, one) for name, one in found.versions.items()})


def _checked(name: str) -> list[str]:
    parts = name.split("/")
    if not 2 <= len(parts) <= _DEEPEST or not is_name(parts[0]) or not all(map(_PART.fullmatch, parts)):
        raise InvalidInput(f"load parameter 'file:{printable(name)}' is not {_EXPECTED}")
    return parts


class _Folder:
    """A temporary folder that goes when nobody holds this any more, at the latest with the interpreter."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="penstock-model-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class _Factory:
    """Builds instances whose code lies in a folder."""

    def __init__(self, folder: _Folder, factory: Callable[[], Handler]) -> None:
        self._folder, self._factory = folder, factory

    def __call__(self) -> Handler:
        return self._factory()


def _holding(folder: _Folder, version: Version) -> Version:
    def define() -> Definition:
        made = version.define()
        return replace(made, factory=_Factory(folder, made.factory))

    return replace(version, define=define)
