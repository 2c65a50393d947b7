"""Code in git repositories, fetched by the program git."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["clone", "credentials"]

# git reads credentials from the environment, so neither the process list, nor a file, nor an error shows them.
_CREDENTIAL_HELPER = (
    '!f() { test "$1" = get && echo "username=$PENSTOCK_GIT_USER" && echo "password=$PENSTOCK_GIT_PASSWORD"; }; f'
)
_OAUTH2_PREFIXES = ("github_pat_", "glpat", "ghp_")


def credentials() -> tuple[str, str]:
    """Returns user and password from GIT_TOKEN, else from GIT_USERNAME and GIT_PASSWORD."""
    token = os.environ.get("GIT_TOKEN", "")
    if token:
        return ("oauth2", token) if token.startswith(_OAUTH2_PREFIXES) else (token, "x-oauth-basic")
    return os.environ.get("GIT_USERNAME", ""), os.environ.get("GIT_PASSWORD", "")


def clone(uri: str, folder: Path) -> None:
    """Clones a commit and its submodules into a folder, without the history.

    Args:
        uri: `git+https://host/path#ref`. The ref is a branch, a tag or a commit, by default the main branch.
        folder: Empty destination folder.

    Raises:
        RuntimeError: git is not installed or fails, or the repository has links that lead out of it.
    """
    parts = urlsplit(uri)
    if parts.username or parts.password:
        raise RuntimeError("the URL contains credentials: set GIT_TOKEN, or GIT_USERNAME and GIT_PASSWORD")
    ref, url = parts.fragment, parts._replace(scheme=parts.scheme.removeprefix("git+"), fragment="").geturl()
    if ref.startswith("-"):
        raise RuntimeError(f"{ref!r} is not a branch, tag or commit")
    _run_git(folder, "init", "--quiet")
    if not _fetch(folder, url, ref or "HEAD"):
        # Some servers do not serve commits by hash. Then all branches are fetched, once.
        _run_git(folder, "fetch", "--quiet", "--tags", url, "+refs/heads/*:refs/remotes/origin/*", uri=url)
        _run_git(folder, "checkout", "--quiet", "--detach", ref, uri=url)
    else:
        _run_git(folder, "checkout", "--quiet", "--detach", "FETCH_HEAD", uri=url)
    if (folder / ".gitmodules").is_file():
        _run_git(folder, "submodule", "update", "--quiet", "--init", "--recursive", "--depth", "1", uri=url)
    _reject_escaping_links(folder)
    shutil.rmtree(folder / ".git")


def _fetch(folder: Path, url: str, ref: str) -> bool:
    try:
        _run_git(folder, "fetch", "--quiet", "--depth", "1", url, ref, uri=url)
    except RuntimeError:
        if not _is_commit(ref):
            raise
        return False
    return True


def _is_commit(ref: str) -> bool:
    return 7 <= len(ref) <= 40 and set(ref.lower()) <= set("0123456789abcdef")


def _run_git(folder: Path, *arguments: str, uri: str = "") -> None:
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
    # The empty value resets the list, so that no credential helper of the machine runs.
    helpers = ["-c", "credential.helper=", "-c", f"credential.helper={_CREDENTIAL_HELPER}"] if user else []
    command = ["git", *helpers, "-C", str(folder), *arguments]
    try:
        completed = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)  # noqa: S603
    except FileNotFoundError:
        raise RuntimeError("git sources need the program git, which is not installed") from None
    if completed.returncode != 0:
        message = completed.stderr.strip()
        for secret in filter(None, (password, os.environ.get("GIT_TOKEN"))):
            message = message.replace(secret, "***")
        raise RuntimeError(f"git cannot fetch {uri}: {message}")


def _reject_escaping_links(root: Path) -> None:
    inside = root.resolve()
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                raise RuntimeError(
                    f"refused {str(path.relative_to(root))!r}: it is a link that leads out of the repository"
                )
