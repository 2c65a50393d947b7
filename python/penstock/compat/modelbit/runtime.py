"""Functions for the code of deployments, as of `import modelbit`."""

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

_state = {"branch": MAIN}


def in_modelbit() -> bool:
    """Returns whether the calling code is a deployment's."""
    return Deployment.current() is not None


def get_deployment_info() -> dict[str, Any]:
    """Returns the name, version and branch of the running deployment."""
    here = Deployment.current()
    if here is None:
        print("get_deployment_info: not called by the code of a deployment")
    return {
        "branch": here.branch if here else _state["branch"],
        "name": here.name if here else None,
        "version": str(here.version) if here else None,
    }


def get_branch() -> str:
    """Returns the branch of the running deployment; outside one, the branch to deploy to."""
    here = Deployment.current()
    return here.branch if here else _state["branch"]


def switch_branch(branch: str) -> None:
    """Sets the branch of later calls."""
    _state["branch"] = branch


def load_value(name: str, restoreClass: type | None = None) -> Any:
    """Loads a pickle of the deployment's folder.

    Pickles are code, as trusted as source.py in the same folder. Files outside the folder, and data from the network,
    are never unpickled.

    Args:
        name: Path of the file relative to the deployment's folder, such as "data/model.pkl".
        restoreClass: Accepted and unused.

    Raises:
        UserFacingError: the folder has no such file.
    """
    here = Deployment.current()
    try:
        path = here.resolve(name) if here else _next_to_main(name)
        return pickles.read(path)
    except ValueError as error:
        raise UserFacingError(str(error)) from None
    except FileNotFoundError:
        raise UserFacingError(f"there is no file {name!r} in the deployment's folder") from None


def save_value(obj: Any, filepath: str) -> None:
    """Pickles an object to a file for `load_value`. In a deployment, a relative path starts at its folder."""
    pickles.write(obj, _resolve(filepath))


def get_secret(
    name: str,
    deployment: str | None = None,
    branch: str | None = None,
    encoding: str = "utf8",
    ignore_missing: bool = False,
) -> str:
    """Returns a secret from the secrets file, else from the environment variable of that name.

    Args:
        name: Name of the secret.
        deployment: Accepted and unused: all deployments share the secrets.
        branch: Accepted and unused.
        encoding: Accepted and unused: the file is UTF-8.
        ignore_missing: Whether to return an empty string for a missing secret.

    Raises:
        UserFacingError: the secret is missing.
    """
    here = Deployment.current()
    file = here.secrets if here else os.environ.get("MB_SECRETS", "")
    found = _secret(Path(file), name) if file else None
    if found is None:
        found = os.environ.get(name)
    if found is None:
        if ignore_missing:
            return ""
        raise UserFacingError(f"there is no secret {name!r}: put it into secrets.yaml, or a variable of that name")
    return found


def get_model(name: str, file: str | None = None, branch: str | None = None) -> Any:
    """Loads a model of the registry: the repository's `registry/NAME.pkl`.

    Raises:
        UserFacingError: the model is missing.
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
    """Loads models of the registry by names, or all whose names start with a prefix.

    Raises:
        UserFacingError: a named model is missing.
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
    """Writes an image into the folder of the option `images` and its name into the request log.

    Does nothing without that option.

    Args:
        obj: An object with `save` (Pillow) or `savefig` (matplotlib), or the path of an image.
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
        source = _resolve(obj)
        path = path.with_suffix(source.suffix or ".png")
        path.write_bytes(source.read_bytes())
    else:
        raise UserFacingError(f"log_image takes an image of Pillow, a figure, or a path, not {type(obj).__name__}")
    if captured is not None:
        captured.images.append(path.name)


@contextlib.contextmanager
def trace(name: str) -> Iterator[None]:
    """Prints the duration of the block; the request log has standard output."""
    started = time.monotonic()
    try:
        yield
    finally:
        print(f"{name}: {(time.monotonic() - started) * 1000:.1f} ms")


@contextlib.contextmanager
def setup(name: str) -> Iterator[None]:
    """Marks code that runs once, when the deployment starts. Has no effect here."""
    yield


def parseArg(s: str) -> Any:
    """Parses a string as JSON; returns it unchanged if it is not JSON."""
    try:
        return json.loads(s)
    except ValueError:
        return s


def login(branch: str | None = None, region: str | None = None) -> Any:
    """Returns this module. There is no account to log in to."""
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
        from penstock.integrations.files import read_yaml

        found = read_yaml(path, extra="modelbit")
    value = found.get(name) if isinstance(found, dict) else None
    return None if value is None else str(value)


def _resolve(name: str | os.PathLike[str]) -> Path:
    """Returns a path relative to the deployment's folder: the server's working directory is another."""
    here = Deployment.current()
    return Path(here.folder if here else "") / name


def _next_to_main(name: str) -> Path:
    path = Path(name)
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return path if path.exists() or main is None else Path(main).parent / name
