"""Code in repositories of git, got by the program git."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["clone", "credentials"]

# Read from the environment: neither the list of processes, nor a file, nor an error shows it.
_HELPER = '!f() { test "$1" = get && echo "username=$PENSTOCK_GIT_USER" && echo "password=$PENSTOCK_GIT_PASSWORD"; }; f'
_OWN_TOKENS = ("github_pat_", "glpat", "ghp_")


def credentials() -> tuple[str, str]:
    """User and password of the environment: GIT_TOKEN, else GIT_USERNAME and GIT_PASSWORD."""
    token = os.environ.get("GIT_TOKEN", "")
    if token:
        return ("oauth2", token) if token.startswith(_OWN_TOKENS) else (token, "x-oauth-basic")
    return os.environ.get("GIT_USERNAME", ""), os.environ.get("GIT_PASSWORD", "")


def clone(uri: str, folder: Path) -> None:
    """Gets what a URI names into a folder, submodules too.

    Args:
        uri: `git+https://host/path#ref`, where the ref is a branch, a tag or a commit; without one the main branch.
        folder: Where to, which is empty.

    Raises:
        RuntimeError: git is not installed, or does not get it, or it has links that lead out of it.
    """
    parts = urlsplit(uri)
    if parts.username or parts.password:
        raise RuntimeError("an address is no place for credentials: set GIT_TOKEN, or GIT_USERNAME and GIT_PASSWORD")
    ref, url = parts.fragment, parts._replace(scheme=parts.scheme.removeprefix("git+"), fragment="").geturl()
    if ref.startswith("-"):
        raise RuntimeError(f"{ref!r} is no branch, tag or commit")
    _git(folder, "init", "--quiet")
    if not _fetch(folder, url, ref or "HEAD"):
        # Some servers give no commit by its name: all of it then, once.
        _git(folder, "fetch", "--quiet", "--tags", url, "+refs/heads/*:refs/remotes/origin/*", uri=url)
        _git(folder, "checkout", "--quiet", "--detach", ref, uri=url)
    else:
        _git(folder, "checkout", "--quiet", "--detach", "FETCH_HEAD", uri=url)
    if (folder / ".gitmodules").is_file():
        _git(folder, "submodule", "update", "--quiet", "--init", "--recursive", "--depth", "1", uri=url)
    _refuse_links_out(folder)
    shutil.rmtree(folder / ".git")


def _fetch(folder: Path, url: str, ref: str) -> bool:
    try:
        _git(folder, "fetch", "--quiet", "--depth", "1", url, ref, uri=url)
    except RuntimeError:
        if not _is_commit(ref):
            raise
        return False
    return True


def _is_commit(ref: str) -> bool:
    return 7 <= len(ref) <= 40 and set(ref.lower()) <= set("0123456789abcdef")


def _git(folder: Path, *arguments: str, uri: str = "") -> None:
    user, password = credentials()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_TERMINAL_PROMPT": "0",
        "PENSTOCK_GIT_USER": user,
        "PENSTOCK_GIT_PASSWORD": password,
    }
    for name in ("GIT_SSL_CAINFO", "GIT_SSL_NO_VERIFY", "GIT_PROXY_SSL_CAINFO"):
        if name in os.environ:
            environment[name] = os.environ[name]
    # The empty one first: no helper of the machine's is asked, or told.
    helpers = ["-c", "credential.helper=", "-c", f"credential.helper={_HELPER}"] if user else []
    command = ["git", *helpers, "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)  # noqa: S603
    except FileNotFoundError:
        raise RuntimeError("sources of git need the program git, which is not installed") from None
    if done.returncode != 0:
        said = done.stderr.strip()
        for secret in filter(None, (password, os.environ.get("GIT_TOKEN"))):
            said = said.replace(secret, "***")
        raise RuntimeError(f"git cannot get {uri}: {said}")


def _refuse_links_out(root: Path) -> None:
    inside = root.resolve()
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                raise RuntimeError(
                    f"refused {str(path.relative_to(root))!r}: it is a link that leads out of the repository"
                )
