"""R9, D18: `Storage.download` of paths, HTTP servers and git."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from stored import FILES, files_in, packed_tar, packed_zip

from penstock.compat.kserve.storage import Storage

Reply = tuple[int, dict[str, str], bytes]


class Web:
    """A server with a response per path that records request headers."""

    def __init__(self) -> None:
        self.replies: dict[str, Reply] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.requests.append((self.path, dict(self.headers.items())))
                status, headers, body = web.replies.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    yield web
    web.server.shutdown()
    web.server.server_close()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # Restores variables that a download sets.
    monkeypatch.setattr(os, "environ", os.environ.copy())


def test_r9_local_path_without_out_dir_is_returned(tmp_path: Path) -> None:
    assert Storage.download(str(tmp_path)) == str(tmp_path)
    assert Storage.download(f"file://{tmp_path}") == str(tmp_path)
    spaced = tmp_path / "a b"
    spaced.mkdir()
    assert Storage.download(spaced.as_uri()) == str(spaced)


def test_r9_local_files_are_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    (source / "sub").mkdir(parents=True)
    (source / "model.json").write_bytes(b"{}")
    (source / "sub" / "b").write_bytes(b"b")
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert Storage.download("source", str(out)) == str(out)
    assert files_in(out) == {"model.json": b"{}"}
    assert (out / "sub" / "b").read_bytes() == b"b"
    assert (out / "model.json").is_symlink()
    single = Storage.download(f"file://{source}/model.json", str(tmp_path / "single"))
    assert files_in(single) == {"model.json": b"{}"}


def test_r9_missing_paths_are_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"Local path file:///no/such does not exist\."):
        Storage.download("file:///no/such")
    with pytest.raises(RuntimeError, match="Cannot locate source uri /mnt/pvc/no/such for PVC"):
        Storage.download("/mnt/pvc/no/such")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RuntimeError, match=r"Failed to fetch model. No model found in .*empty\."):
        Storage.download(str(tmp_path / "empty"), str(tmp_path / "out"))


@pytest.mark.parametrize("uri", ["ftp://host/a", "relative/that/is/not", "http://host"])
def test_r9_unknown_schemes_are_rejected(uri: str) -> None:
    with pytest.raises(RuntimeError, match=f"Cannot recognize storage type for {uri}"):
        Storage.download(uri)


def test_r9_mounted_model_folder_is_not_downloaded(tmp_path: Path) -> None:
    assert Storage.download("/mnt/models/a", str(tmp_path / "out")) == str(tmp_path / "out")


def test_r9_local_archive_is_unpacked_and_not_removed(tmp_path: Path) -> None:
    archive = tmp_path / "model.tar.gz"
    archive.write_bytes(packed_tar(FILES))
    out = Storage.download(str(archive), str(tmp_path / "out"))
    assert files_in(out) == FILES
    assert archive.exists()


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("m.zip", packed_zip(FILES)),
        ("m.tar", packed_tar(FILES, "w")),
        ("m.tar.gz", packed_tar(FILES)),
        ("m.tgz", packed_tar(FILES)),
        ("m.tar.bz2", packed_tar(FILES, "w:bz2")),
        ("m.tar.xz", packed_tar(FILES, "w:xz")),
        ("get?file=m.tar.gz", packed_tar(FILES)),
    ],
)
def test_r9_http_archives_are_unpacked(web: Web, tmp_path: Path, name: str, body: bytes) -> None:
    web.replies[f"/a/{name}"] = (200, {"Content-Type": "application/octet-stream"}, body)
    out = Storage.download(f"{web.url}/a/{name}", str(tmp_path / "out"))
    assert out == str(tmp_path / "out")
    assert files_in(out) == FILES


def test_r9_http_file_retains_its_name(web: Web) -> None:
    web.replies["/a/model%20one.pkl?token=1"] = (200, {"Content-Type": "application/json"}, b"[]")
    web.replies["/a/model.json.gz"] = (200, {}, gzip.compress(b"{}"))
    assert files_in(Storage.download(f"{web.url}/a/model%20one.pkl?token=1")) == {"model one.pkl": b"[]"}
    assert files_in(Storage.download(f"{web.url}/a/model.json.gz")) == {"model.json": b"{}"}


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ((401, {}, b""), r"HTTP authentication failed for '{}'\. Verify credentials\."),
        ((403, {}, b""), r"HTTP access denied for '{}'\. Verify permissions\."),
        ((404, {}, b""), r"HTTP resource not found at '{}'\."),
        ((500, {}, b""), r"HTTP request to '{}' failed with status code 500\."),
        ((200, {"Content-Type": "text/html"}, b"<p>log in"), r"URI: {} answered with a page .*text/html.*not with a"),
    ],
)
def test_r9_http_errors_have_kserve_texts(web: Web, tmp_path: Path, reply: Reply, text: str) -> None:
    web.replies["/m.zip"] = reply
    with pytest.raises(RuntimeError, match=text.format(f"{web.url}/m.zip")):
        Storage.download(f"{web.url}/m.zip", str(tmp_path / "out"))
    assert list((tmp_path / "out").iterdir()) == []


def test_r9_unreachable_http_server_is_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"Failed to connect to HTTP endpoint '127\.0\.0\.1'"):
        Storage.download("http://127.0.0.1:1/m.zip")
    with pytest.raises(RuntimeError, match=r"No filename contained in URI: http://127.0.0.1:1/a/"):
        Storage.download("http://127.0.0.1:1/a/?secret=1")


def test_r9_http_headers_are_sent_only_to_their_host(web: Web) -> None:
    other = Web()
    os.environ["127.0.0.1-headers"] = json.dumps({"Authorization": "Bearer s", "X-Own": "1"})  # noqa: SIM112 - KServe's name
    web.replies["/m"] = (302, {"Location": f"{other.url}/m"}, b"")
    web.replies["/n"] = (302, {"Location": f"{web.url}/m2"}, b"")
    web.replies["/m2"] = other.replies["/m"] = (200, {}, b"m")
    Storage.download(f"{web.url}/m")
    Storage.download(f"{web.url}/n")
    other.server.shutdown()
    other.server.server_close()
    assert [headers.get("Authorization") for _, headers in web.requests] == ["Bearer s"] * 3
    assert "Authorization" not in other.requests[0][1]
    assert "X-own" not in other.requests[0][1]


@pytest.mark.parametrize("least", [1 << 30, 0])
def test_r9_http_downloads_have_a_limit(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    out = tmp_path / "out"
    big = bytes(1_000_001)
    web.replies = {
        "/m.bin": (200, {}, big),
        "/m.json.gz": (200, {}, gzip.compress(big)),
        "/m.tar.gz": (200, {}, packed_tar({"m": big})),
    }
    if least:
        os.environ["PENSTOCK_STORAGE_MAX_BYTES"] = "1000000"
    else:
        # The default limit is a hundred times the size.
        monkeypatch.setattr("penstock.integrations._bounds._LEAST", 0)
        assert files_in(Storage.download(f"{web.url}/m.bin")) == {"m.bin": big}
        del web.replies["/m.bin"]
    for path in web.replies:
        with pytest.raises(RuntimeError, match=r"the (source|archive) holds more than \d+ bytes: PENSTOCK_STORAGE_MAX"):
            Storage.download(web.url + path, str(out))
        assert list(out.iterdir()) == []


def test_r9_truncated_http_downloads_fail(web: Web, tmp_path: Path) -> None:
    out = tmp_path / "out"
    packed = gzip.compress(os.urandom(1000))
    more = {"Content-Length": "100000"}
    web.replies = {"/m.bin": (200, more, b"m"), "/m.gz": (200, more, packed[:500]), "/n.gz": (200, {}, b"no")}
    for path, reason in [("/m.bin", "99999 bytes early"), ("/m.gz", "format is not valid"), ("/n.gz", "is not valid")]:
        with pytest.raises(RuntimeError, match=reason):
            Storage.download(web.url + path, str(out))
        assert list(out.iterdir()) == []


def test_r9_download_files_accepts_several_uris(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
        (folder / f"{folder.name}.txt").write_text("")
        (folder / "same.bin").write_text("")
    outs = [str(tmp_path / "out" / name) for name in "ab"]
    os.environ["STORAGE_IGNORE_PATTERNS"] = "*.bin, *.md"
    assert Storage.download_files([str(folder) for folder in folders], outs) == outs
    assert [sorted(os.listdir(out)) for out in outs] == [["a.txt"], ["b.txt"]]
    with pytest.raises(ValueError, match="out_dirs: got 1 folders, expected 2, one per URI"):
        Storage.download_files(["a", "b"], ["c"])


@pytest.mark.parametrize("patterns", ['["*.json", "*.bin"]', "*.json,*.bin", '"*.[jb]*"'])
def test_r9_environment_patterns_select_files(tmp_path: Path, patterns: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a.json", "b.bin", "c.md"):
        (source / name).write_text("")
    os.environ["STORAGE_ALLOW_PATTERNS"] = patterns
    assert sorted(os.listdir(Storage.download(str(source), str(tmp_path / "out")))) == ["a.json", "b.bin"]
    selected = Storage.download(str(source), str(tmp_path / "selected"), allow_patterns=["c*"])
    assert os.listdir(selected) == ["c.md"]


Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Runs git in a repository with one commit."""
    origin = tmp_path / "origin"
    origin.mkdir()

    def run(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        process = subprocess.run(["git", "-C", str(origin), *identity, *arguments], check=True, capture_output=True)
        return process.stdout.decode()

    run("init", "-q", "-b", "main")
    (origin / "model.bin").write_bytes(b"model")
    run("add", ".")
    run("commit", "-q", "-m", "one")
    return run


def redirect_git(prefix: str, other: str) -> None:
    """Redirects git to another address by prefix."""
    os.environ |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{other}.insteadOf", "GIT_CONFIG_VALUE_0": prefix}


def test_r9_git_repository_is_cloned(git: Git, tmp_path: Path) -> None:
    redirect_git("https://models.test/origin.git", f"file://{tmp_path}/origin")
    out = tmp_path / "out"
    out.mkdir()
    (out / "existing").write_bytes(b"existing")
    Storage.download("https://models.test/origin.git", str(out))
    assert (out / "model.bin").read_bytes() == b"model"
    assert (out / ".git").is_dir()
    assert sorted(os.listdir(out)) == [".git", "existing", "model.bin"]


def test_r9_git_links_outside_the_repository_are_refused(git: Git, tmp_path: Path) -> None:
    (tmp_path / "origin" / "link").symlink_to("/etc/passwd")
    git("add", ".")
    git("commit", "-q", "-m", "two")
    redirect_git("https://models.test/origin.git", f"file://{tmp_path}/origin")
    with pytest.raises(RuntimeError, match="refused 'link': it is a link that leads out of the repository"):
        Storage.download("https://models.test/origin.git", str(tmp_path / "out"))
    assert list((tmp_path / "out").iterdir()) == []


def test_r9_git_credentials_come_from_the_environment(web: Web, tmp_path: Path) -> None:
    redirect_git("https://models.test/", f"{web.url}/")
    path = "/origin.git/info/refs?service=git-upload-pack"
    web.replies[path] = (401, {"WWW-Authenticate": 'Basic realm="m"'}, b"")
    os.environ |= {"GIT_USERNAME": "user", "GIT_PASSWORD": "p'\"$a`b"}
    with pytest.raises(RuntimeError, match=r"Git authentication failed. Set GIT_USERNAME/GIT_PASSWORD"):
        Storage.download("https://models.test/origin.git", str(tmp_path / "out"))
    assert [headers.get("Authorization") for _, headers in web.requests] == [None, "Basic dXNlcjpwJyIkYWBi"]
    web.requests.clear()
    with pytest.raises(RuntimeError, match="Git authentication failed"):
        Storage.download("https://models.test/origin.git".replace("models", "other@models"), str(tmp_path / "out"))
    assert web.requests[1][1]["Authorization"].startswith("Basic b3RoZXI6")


def test_r9_missing_git_repository_is_an_error(tmp_path: Path) -> None:
    redirect_git("https://models.test/none.git", f"file://{tmp_path}/none")
    with pytest.raises(RuntimeError, match=r"Git resource 'https://models\.test/none\.git' not found\."):
        Storage.download("https://models.test/none.git", str(tmp_path / "out"))
    os.environ["PATH"] = str(tmp_path)
    with pytest.raises(RuntimeError, match="need the program git"):
        Storage.download("https://models.test/none.git", str(tmp_path / "out"))
