"""Git repositories, by the program git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

from penstock.compat.kserve.storage._errors import explained
from penstock.compat.kserve.storage._patterns import Patterns
from penstock.integrations.archives import staged

__all__ = ["clone", "download"]

# Credentials come from the environment: neither the process list nor a file shows them.
_HELPER = '!f() { test "$1" = get && echo "username=$PENSTOCK_GIT_USER" && echo "password=$PENSTOCK_GIT_PASSWORD"; }; f'


def download(uri: str, folder: Path, patterns: Patterns) -> None:
    """Clones the newest commit of a repository's default branch.

    The user is the URI's or GIT_USERNAME, the password GIT_PASSWORD.

    Raises:
        RuntimeError: git is not installed, or failed.
    """
    del patterns
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    user = unquote(parts.username or "") or os.environ.get("GIT_USERNAME", "")
    clone(parts._replace(netloc=host).geturl(), folder, user, os.environ.get("GIT_PASSWORD", ""))


def clone(uri: str, folder: Path, user: str = "", password: str = "") -> None:
    """Clones a repository into a folder.

    Raises:
        RuntimeError: git is not installed or failed, or a link leads out of the repository.
    """
    environment = {
        **os.environ,
        "GIT_TERMINAL_PROMPT": "0",
        "PENSTOCK_GIT_USER": user,
        "PENSTOCK_GIT_PASSWORD": password,
    }
    # The empty one first: it removes the machine's own helpers.
    helpers = ["-c", "credential.helper=", "-c", f"credential.helper={_HELPER}"] if user or password else []
    with staged(folder) as staging:
        checkout = staging / "repository"
        command = ["git", *helpers, "clone", "--quiet", "--depth", "1", "--", uri, str(checkout)]
        try:
            done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)  # noqa: S603
        except FileNotFoundError:
            raise RuntimeError("git repositories need the program git, which is not installed") from None
        if done.returncode != 0:
            raise explained("Git", uri, RuntimeError(done.stderr.strip()), uri)
        _refuse_links_out(checkout)
        for entry in list(checkout.iterdir()):
            os.rename(entry, staging / entry.name)
        checkout.rmdir()


def _refuse_links_out(root: Path) -> None:
    inside = root.resolve()
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                shown = str(path.relative_to(root))
                raise RuntimeError(f"refused {shown!r}: it is a link that leads out of the repository")
