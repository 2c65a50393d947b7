"""Sources of code."""

from __future__ import annotations

import base64
import functools
import http.server
import io
import os
import stat
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from functions import ECHO, entity, handler_code, serving, write_function

from penstock.compat.openinference import parse_definition
from penstock.compat.openinference._sources import git
from penstock.compat.openinference._sources.fetch import FetchedCode, fetch_code
from penstock.errors import LoadError, StartupError


def fetch(
    tmp_path: Path, source: str | None, handler: str = "handler", base: Path | None = None, **more: str
) -> FetchedCode:
    folder = tmp_path / "fetched"
    folder.mkdir()
    spec = {"handler": handler, **more, **({} if source is None else {"source": source})}
    return fetch_code(parse_definition(entity(source=spec), base or tmp_path), folder)


def zipped(**files: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/") + ".py", text)
    return packed.getvalue()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Runs a server of files. Yields its folder and its address."""
    folder = tmp_path / "web"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_d02_base64_code_of_the_definition_is_written(tmp_path: Path) -> None:
    code = fetch(tmp_path, None, base64=base64.b64encode(ECHO.encode()).decode())
    assert (code.module, code.function, (code.root / "main.py").read_text()) == ("main", "handler", ECHO)


def test_d02_code_in_the_definition_keeps_its_path(tmp_path: Path) -> None:
    code = fetch(tmp_path, "src/infer.py", code=ECHO)
    assert (code.module, (code.root / "src" / "infer.py").read_text()) == ("src.infer", ECHO)


def test_d02_local_file_and_folder(tmp_path: Path) -> None:
    (tmp_path / "base" / "src").mkdir(parents=True)
    (tmp_path / "base" / "src" / "infer.py").write_text(ECHO)
    code = fetch(tmp_path, "src/infer.py", base=tmp_path / "base")
    assert (code.root, code.module) == (tmp_path / "base", "src.infer")
    (tmp_path / "fetched").rmdir()
    code = fetch(tmp_path, "src", "infer:handler", base=tmp_path / "base")
    assert (code.root, code.module) == (tmp_path / "base" / "src", "infer")


def test_d02_archive_on_disk_and_over_http(tmp_path: Path, web: tuple[Path, str]) -> None:
    (web[0] / "a.zip").write_bytes(zipped(pkg__mod=ECHO))
    for source in (str(web[0] / "a.zip"), f"zip+{web[1]}/a.zip"):
        code = fetch(tmp_path, source, "pkg.mod:handler")
        assert (code.root / "pkg" / "mod.py").read_text() == ECHO
        (tmp_path / "fetched").rename(tmp_path / f"fetched{source.count(':')}")


def test_d02_single_file_over_http_needs_no_module(tmp_path: Path, web: tuple[Path, str]) -> None:
    (web[0] / "infer.py").write_text(ECHO)
    write_function(tmp_path, source={"source": f"{web[1]}/infer.py?token=secret", "handler": "handler"})
    with serving(tmp_path) as served:
        # The file is fetched once, not by each process.
        (web[0] / "infer.py").unlink()
        assert served.infer_row(1)[0] == 200


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Creates a Git repository with a branch, a tag, and an unnamed commit."""
    folder = tmp_path / "repository"
    folder.mkdir()

    def git(*arguments: str) -> str:
        options = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
        done = subprocess.run(["git", *options, *arguments], cwd=folder, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    for name in ("first", "tagged", "last"):
        (folder / "infer.py").write_text(f"def handler(request): ...\nNAME = {name!r}\n")
        git("add", ".")
        git("commit", "-qm", name)
        if name == "first":
            (tmp_path / "first").write_text(git("rev-parse", "HEAD"))
        elif name == "tagged":
            git("tag", "v1")
    git("branch", "other", "v1")
    return folder


@pytest.mark.parametrize(
    ("ref", "name"), [("", "last"), ("#main", "last"), ("#other", "tagged"), ("#v1", "tagged"), ("#COMMIT", "first")]
)
def test_d02_git_by_branch_tag_and_commit(tmp_path: Path, repository: Path, ref: str, name: str) -> None:
    ref = ref.replace("COMMIT", (tmp_path / "first").read_text())
    code = fetch(tmp_path, f"git+file://{repository}{ref}", "infer:handler")
    assert f"NAME = {name!r}" in (code.root / "infer.py").read_text()
    assert not (code.root / ".git").exists()


def test_d02_unknown_git_ref_is_rejected(tmp_path: Path, repository: Path) -> None:
    with pytest.raises(StartupError, match=r"function 'f': git cannot fetch file://.*: .*nothing"):
        fetch(tmp_path, f"git+file://{repository}#nothing", "infer:handler")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"GIT_TOKEN": "github_pat_abc"}, ("oauth2", "github_pat_abc")),
        ({"GIT_TOKEN": "glpat-abc"}, ("oauth2", "glpat-abc")),
        ({"GIT_TOKEN": "abc", "GIT_USERNAME": "u"}, ("abc", "x-oauth-basic")),
        ({"GIT_USERNAME": "u", "GIT_PASSWORD": "p"}, ("u", "p")),
        ({}, ("", "")),
    ],
)
def test_d25_git_credentials_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], expected: tuple[str, str]
) -> None:
    for name in ("GIT_TOKEN", "GIT_USERNAME", "GIT_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert git.credentials() == expected


def test_d25_credentials_reach_git_but_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TOKEN", "hush-hush")
    # A fake git that prints its arguments and the output of the credential helper.
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@ : $PENSTOCK_GIT_USER $PENSTOCK_GIT_PASSWORD" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(StartupError) as raised:
        fetch(tmp_path, "git+https://example.com/a/b", "infer:handler")
    assert "*** x-oauth-basic" in str(raised.value) or "*** ***" in str(raised.value)
    assert "hush-hush" not in str(raised.value)
    assert "echo" in str(raised.value)  # the error shows the helper, without its output


def test_d25_urls_with_credentials_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="the URL contains credentials: set GIT_TOKEN") as raised:
        fetch(tmp_path, "git+https://{}{}example.com/a".format("me:hush", "@"), "infer:handler")
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("none.py", "there is no file or folder none.py"),
        ("s3://bucket/key", "s3:// is for archives only: write zip[+]s3://"),
        ("ftp://host/a.py", "ftp:// is not supported, expected git[+]https"),
        ("http://127.0.0.1:9/a.zip", r"names no Python file; an archive is zip\+http://"),
        ("http://127.0.0.1:9/a.py?token=hush", "http://127.0.0.1:9/a.py cannot be fetched"),
        ("zip+http://127.0.0.1:9/a.zip", "cannot be fetched"),
        ("zip+s3://bucket", "expected a bucket and an object"),
    ],
)
def test_d02_unsupported_sources_are_rejected(tmp_path: Path, source: str, error: str) -> None:
    with pytest.raises(StartupError, match=error) as raised:
        fetch(tmp_path, source)
    assert "hush" not in str(raised.value)


def test_d02_handler_without_its_module_is_reported(tmp_path: Path, web: tuple[Path, str]) -> None:
    (web[0] / "a.zip").write_bytes(zipped(infer=ECHO))
    with pytest.raises(
        StartupError, match="no module 'main' for the handler 'handler'; say where it is, as in module:"
    ):
        fetch(tmp_path, f"zip+{web[1]}/a.zip")


def archive_with_link() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        entry = zipfile.ZipInfo("main.py")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (zipped(**{"..__main": ECHO}), "leads out of the folder"),
        (zipped(**{"__etc__main": ECHO}), "leads out of the folder"),
        (archive_with_link(), "it is neither a file nor a folder"),
        (b"no archive", "not valid"),
    ],
)
def test_d04_unsafe_archives_are_rejected(tmp_path: Path, content: bytes, error: str) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(StartupError, match=error):
        fetch(tmp_path, "a.zip")
    assert [*(tmp_path / "fetched").rglob("main.py")] == []


def test_d03_archive_from_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moto = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    boto3 = pytest.importorskip("boto3")

    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name, value in {
            **{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"},
            "S3_ENDPOINT_URL": f"http://{host}:{port}",
        }.items():
            monkeypatch.setenv(name, value)
        store = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
        store.create_bucket(Bucket="bucket")
        store.put_object(Bucket="bucket", Key="a/b.zip", Body=zipped(main=ECHO))
        code = fetch(tmp_path, "zip+s3://bucket/a/b.zip")
        assert (code.root / "main.py").read_text() == ECHO
        (tmp_path / "fetched").rename(tmp_path / "before")
        with pytest.raises(StartupError, match=r"there is no s3://bucket/none.zip"):
            fetch(tmp_path, "zip+s3://bucket/none.zip")
    finally:
        server.stop()


TREE = {
    "main.py": handler_code("'main'"),
    "mod.py": handler_code("(sibling.NAME, open('data.txt').read())", before="import sibling"),
    "sibling.py": "NAME = 'sibling'",
    "pkg/__init__.py": "",
    "pkg/mod.py": handler_code("(near.NAME, sibling.NAME)", before="from . import near\nimport sibling"),
    "pkg/near.py": "NAME = 'near'",
    "random.py": handler_code("'local'"),
    "data.txt": "data",
}


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        ("handler", "main"),
        ("main:handler", "main"),
        ("mod:handler", "('sibling', 'data')"),
        ("pkg.mod:handler", "('near', 'sibling')"),
        # The standard library has a module of that name.
        ("random:handler", "local"),
    ],
)
def test_d05_handlers_import_modules_of_their_folder(tmp_path: Path, handler: str, expected: str) -> None:
    for name, text in TREE.items():
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).write_text(text)
    write_function(tmp_path, source={"source": "src", "handler": handler})
    with serving(tmp_path) as served:
        assert served.text() == expected


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("def other(): ...", "has no function 'handler', only other"),
        ("raise SystemExit(3)", "cannot import main: SystemExit: 3"),
    ],
)
def test_d05_failing_imports_are_reported_at_start(tmp_path: Path, code: str, error: str) -> None:
    write_function(tmp_path, code)
    with pytest.raises(LoadError, match=error):
        serving(tmp_path).__enter__()
