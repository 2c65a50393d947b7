"""What deployments' code finds in `import modelbit`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from penstock.compat.modelbit._function import capture, pickles
from penstock.compat.modelbit._spec.deployment import MAIN, Deployment
from penstock.compat.modelbit.errors import UserFacingError

__all__ = [
    "get_branch",
    "get_deployment_info",
    "get_model",
    "get_models",
    "get_secret",
    "in_modelbit",
    "load_value",
    "log_image",
    "login",
    "parseArg",
    "save_value",
    "setup",
    "switch_branch",
    "trace",
]

_here = {"branch": MAIN}


def in_modelbit() -> bool:
    """Whether a deployment's code asks."""
    return Deployment.current() is not None


def get_deployment_info() -> dict[str, Any]:
    """The name, version and branch of the deployment whose code asks."""
    here = Deployment.current()
    if here is None:
        print("get_deployment_info: this is no deployment's code")
    return {
        "branch": here.branch if here else _here["branch"],
        "name": here.name if here else None,
        "version": str(here.version) if here else None,
    }


def get_branch() -> str:
    """The branch that is deployed to, or of the deployment whose code asks."""
    here = Deployment.current()
    return here.branch if here else _here["branch"]


def switch_branch(branch: str) -> None:
    """Has later calls mean another branch."""
    _here["branch"] = branch


def load_value(name: str, restoreClass: type | None = None) -> Any:
    """What a pickle of the deployment's own folder holds.

    Such files are code: as trusted as source.py beside them. Nothing that came over the network is read so, and no file
    outside of the folder.

    Args:
        name: The file, from the deployment's folder on, such as "data/model.pkl".
        restoreClass: Not needed here.

    Raises:
        UserFacingError: there is no such file in the folder.
    """
    here = Deployment.current()
    try:
        path = here.inside(name) if here else _beside_main(name)
        return pickles.read(path)
    except ValueError as error:
        raise UserFacingError(str(error)) from None
    except FileNotFoundError:
        raise UserFacingError(f"there is no file {name!r} in the deployment's folder") from None


def save_value(obj: Any, filepath: str) -> None:
    """Pickles an object to a file, for `load_value`: in a deployment below its folder, if no other is named."""
    pickles.write(obj, _where(filepath))


def get_secret(
    name: str,
    deployment: str | None = None,
    branch: str | None = None,
    encoding: str = "utf8",
    ignore_missing: bool = False,
) -> str:
    """A secret: of the file of secrets, or else the environment variable of that name.

    Args:
        name: Its name.
        deployment: Whose secret; its own by default.
        branch: Of which branch; its own by default.
        encoding: Of no account here: the file is UTF-8.
        ignore_missing: Whether one that is not there is an empty text.

    Raises:
        UserFacingError: there is none.
    """
    here = Deployment.current()
    place = here.secrets if here else os.environ.get("MB_SECRETS", "")
    found = _secret(Path(place), name) if place else None
    if found is None:
        found = os.environ.get(name)
    if found is None:
        if ignore_missing:
            return ""
        raise UserFacingError(f"there is no secret {name!r}: put it into secrets.yaml, or a variable of that name")
    return found


def get_model(name: str, file: str | None = None, branch: str | None = None) -> Any:
    """A model of the registry: `registry/NAME.pkl` beside `deployments/`.

    Raises:
        UserFacingError: there is none.
    """
    if file is not None:
        raise UserFacingError("models that are files are not in a local registry; give the pickle's name")
    return load_value(f"registry/{name}.pkl")


def get_models(
    prefix: str | None = None,
    names: Iterable[str] | None = None,
    files: dict[str, str] | None = None,
    branch: str | None = None,
) -> dict[str, Any]:
    """Models of the registry by name: those that are named, or whose names begin so.

    Raises:
        UserFacingError: one that is named is not there.
    """
    if files is not None:
        raise UserFacingError("models that are files are not in a local registry; give the pickles' names")
    if names is None:
        here = Deployment.current()
        home = Path(here.root if here else ".") / "registry"
        known = sorted(one.relative_to(home).with_suffix("").as_posix() for one in home.rglob("*.pkl"))
        names = [one for one in known if one.startswith(prefix or "")]
    return {name: get_model(name) for name in names}


def log_image(obj: Any) -> None:
    """Writes an image into the folder of the setting `images`, named in the request log; without it, does nothing.

    Args:
        obj: Anything with a `save` (of Pillow) or a `savefig` (of matplotlib), or a path of an image.
    """
    here, captured = Deployment.current(), capture.current()
    if here is None or not here.images:
        return
    home = Path(here.images)
    home.mkdir(parents=True, exist_ok=True)
    path = home / f"{here.name}-{time.time_ns()}.png"
    if hasattr(obj, "savefig") or hasattr(obj, "save"):
        (obj.savefig if hasattr(obj, "savefig") else obj.save)(path)
    elif isinstance(obj, (str, os.PathLike)):
        source = _where(obj)
        path = path.with_suffix(source.suffix or ".png")
        path.write_bytes(source.read_bytes())
    else:
        raise UserFacingError(f"log_image takes an image of Pillow, a figure, or a path, not {type(obj).__name__}")
    if captured is not None:
        captured.images.append(path.name)


@contextlib.contextmanager
def trace(name: str) -> Iterator[None]:
    """Says on standard output how long the block took, so that the request log has it."""
    began = time.monotonic()
    try:
        yield
    finally:
        print(f"{name}: {(time.monotonic() - began) * 1000:.1f} ms")


@contextlib.contextmanager
def setup(name: str) -> Iterator[None]:
    """Marks code that is run once, when the deployment starts. Here it is only run."""
    yield


def parseArg(s: str) -> Any:
    """What a text stands for: JSON, or else itself."""
    try:
        return json.loads(s)
    except ValueError:
        return s


def login(branch: str | None = None, region: str | None = None) -> Any:
    """Gives this module: there is nobody to log in to."""
    if branch is not None:
        switch_branch(branch)
    return sys.modules["penstock.compat.modelbit"]


def _secret(path: Path, name: str) -> str | None:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return None
    if path.suffix == ".json":
        found = json.loads(text)
    else:
        from penstock.compat.modelbit._spec.metadata import read_yaml

        found = read_yaml(path)
    value = found.get(name) if isinstance(found, dict) else None
    return None if value is None else str(value)


def _where(name: str | os.PathLike[str]) -> Path:
    """A file as a deployment names it: where its function runs in the server, that works in another folder."""
    here = Deployment.current()
    return Path(here.folder if here else "") / name


def _beside_main(name: str) -> Path:
    path = Path(name)
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return path if path.exists() or main is None else Path(main).parent / name
