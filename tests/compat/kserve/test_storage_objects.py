"""R9: object stores by fsspec: S3 by moto, WebHDFS by a fake, others by the arguments of fsspec."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from stored import FILES, files_in, packed_tar

from penstock.compat.kserve.storage import Storage, _objects, _stores
from penstock.compat.kserve.storage._patterns import Patterns

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3: str) -> Any:
    """A bucket with some models."""
    import boto3

    os.environ |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    os.environ.pop("AWS_PROFILE", None)
    client = boto3.client("s3", endpoint_url=s3)
    client.create_bucket(Bucket="models")
    objects = {
        "resnet/": b"",
        "resnet/model.bin": b"m" * 100_000,
        "resnet/sub/config.json": b"{}",
        "resnet/sub/__init__.py": b"",
        "resnet-v2/model.bin": b"other",
        "packed/m.tar.gz": packed_tar(FILES),
    }
    for key, body in objects.items():
        client.put_object(Bucket="models", Key=key, Body=body)
    os.environ["STORAGE_CONFIG"] = json.dumps({"type": "s3", "endpoint_url": s3, "region": "eu-west-1"})
    os.environ["STORAGE_OVERRIDE_CONFIG"] = json.dumps({"region": "us-east-1"})
    return client


def test_r9_s3_folder_is_downloaded(bucket: Any, tmp_path: Path) -> None:
    out = Storage.download("s3://models/resnet", str(tmp_path / "out"))
    expected = {"model.bin": b"m" * 100_000, "sub/config.json": b"{}", "sub/__init__.py": b""}
    assert files_in(out) == expected
    # `resnet-v2` shares only the prefix.
    assert files_in(Storage.download("s3://models/resnet/", str(tmp_path / "again"))) == expected


def test_r9_s3_object_is_downloaded(bucket: Any, tmp_path: Path) -> None:
    assert files_in(Storage.download("s3://models/resnet/model.bin")) == {"model.bin": b"m" * 100_000}
    assert files_in(Storage.download("s3://models/packed/m.tar.gz", str(tmp_path / "a"))) == FILES
    assert files_in(Storage.download("s3://models/packed", str(tmp_path / "b"))) == FILES


def test_r9_s3_download_size_is_bounded(bucket: Any, tmp_path: Path) -> None:
    os.environ["PENSTOCK_STORAGE_MAX_BYTES"] = "100000"
    # No single file is too large.
    with pytest.raises(RuntimeError, match="the source holds more than 100000 bytes: PENSTOCK_STORAGE_MAX_BYTES"):
        Storage.download("s3://models/resnet", str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    os.environ["PENSTOCK_STORAGE_MAX_BYTES"] = "100002"
    os.environ["PENSTOCK_STORAGE_MAX_FILES"] = "2"
    with pytest.raises(RuntimeError, match="the source has more than 2 entries: PENSTOCK_STORAGE_MAX_FILES"):
        Storage.download("s3://models/resnet", str(tmp_path))
    os.environ["PENSTOCK_STORAGE_MAX_FILES"] = "3"
    assert len(files_in(Storage.download("s3://models/resnet", str(tmp_path)))) == 3


def test_r9_s3_patterns_select_objects(bucket: Any, tmp_path: Path) -> None:
    out = Storage.download("s3://models/resnet", str(tmp_path), ["*.json", "*.py"], ["*__init__*"])
    assert files_in(out) == {"sub/config.json": b"{}"}


def test_r9_s3_missing_objects_are_errors(bucket: Any, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"Failed to fetch model. No model found in s3://models/none\."):
        Storage.download("s3://models/none", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"S3 resource 'no-bucket' not found|No model found in s3://no-bucket/none"):
        Storage.download("s3://no-bucket/none", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_r9_s3_keys_outside_the_folder_are_refused(bucket: Any, tmp_path: Path) -> None:
    bucket.put_object(Bucket="models", Key="evil/../../out", Body=b"x")
    with pytest.raises(RuntimeError, match="leads out of the folder"):
        Storage.download("s3://models/evil", str(tmp_path / "out"))
    bucket.delete_object(Bucket="models", Key="evil/../../out")


def test_r9_s3_unreachable_endpoint_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("s3fs")
    os.environ |= {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "awsAnonymousCredential": "true", "S3_MAX_ATTEMPTS": "1"}
    with pytest.raises(RuntimeError, match=r"Failed to connect to S3 endpoint 'models'\."):
        Storage.download("s3://models/a", str(tmp_path))


class NameNode(BaseHTTPRequestHandler):
    """A fake of WebHDFS, as far as downloads need it."""

    tree: dict[str, bytes]
    requests: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name.lower(): values[0] for name, values in parse_qs(url.query).items()}
        path = url.path.removeprefix("/webhdfs/v1")
        type(self).requests.append((f"{query['op'].upper()} {path}", self.headers.get("X-Team")))
        below = [name for name in self.tree if name.startswith(f"{path}/")]
        if path not in self.tree and not below:
            missing = {"exception": "FileNotFoundException", "message": f"File {path} does not exist."}
            return self.respond(404, {"RemoteException": missing})
        match query["op"].upper():
            case "GETFILESTATUS":
                return self.respond(200, {"FileStatus": self.status(path, "")})
            case "LISTSTATUS":
                names = {name.removeprefix(f"{path}/").split("/")[0] for name in below}
                statuses = [self.status(f"{path}/{name}", name) for name in sorted(names)]
                return self.respond(200, {"FileStatuses": {"FileStatus": statuses}})
            case "OPEN":
                offset = int(query.get("offset", 0))
                return self.send(200, self.tree[path][offset:][: int(query.get("length", 1 << 30))])
        return self.send(400, b"")

    def status(self, path: str, name: str) -> dict[str, Any]:
        kind, length = ("FILE", len(self.tree[path])) if path in self.tree else ("DIRECTORY", 0)
        return {"pathSuffix": name, "type": kind, "length": length}

    def respond(self, status: int, body: dict[str, Any]) -> None:
        self.send(status, json.dumps(body).encode())

    def send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def namenode() -> Iterator[ThreadingHTTPServer]:
    NameNode.tree = {
        "/models/a/model.bin": b"model",
        "/models/a/sub/b.json": b"{}",
        "/models/m.tar.gz": packed_tar(FILES),
    }
    NameNode.requests = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), NameNode)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = {
        "type": "webhdfs",
        "HDFS_NAMENODE": f"http://127.0.0.1:{server.server_port}",
        "HEADERS": '{"X-Team": "a"}',
    }
    os.environ["STORAGE_CONFIG"] = json.dumps({**config, "TLS_CA": base64.b64encode(b"ca").decode()})
    yield server
    server.shutdown()
    server.server_close()


def test_r9_hdfs_files_are_downloaded(namenode: ThreadingHTTPServer, tmp_path: Path) -> None:
    pytest.importorskip("requests")
    out = Storage.download("hdfs://models/a", str(tmp_path / "out"))
    assert files_in(out) == {"model.bin": b"model", "sub/b.json": b"{}"}
    assert {team for _, team in NameNode.requests} == {"a"}
    assert files_in(Storage.download("webhdfs:///models/m.tar.gz", str(tmp_path / "packed"))) == FILES
    with pytest.raises(RuntimeError, match=r"HDFS resource .* not found|No model found"):
        Storage.download("webhdfs://models/none", str(tmp_path / "none"))


def test_r9_hdfs_requires_configuration(tmp_path: Path) -> None:
    os.environ["HDFS_SECRET_DIR"] = str(tmp_path / "none")
    with pytest.raises(RuntimeError, match="HDFS is not configured: there is no folder"):
        Storage.download("hdfs://models/a", str(tmp_path))
    os.environ["STORAGE_CONFIG"] = "[1]"
    with pytest.raises(RuntimeError, match="STORAGE_CONFIG is a JSON list, expected an object"):
        Storage.download("hdfs://models/a", str(tmp_path))


def test_r9_any_fsspec_file_system_is_supported(tmp_path: Path) -> None:
    system = fsspec.filesystem("memory")
    for name, content in FILES.items():
        system.pipe_file(f"/models/a/{name}", content)
    _objects.get(system, "memory://models/a", tmp_path, Patterns(), 2)
    assert files_in(tmp_path) == FILES


def test_r9_s3_options_come_from_the_environment() -> None:
    os.environ |= {
        "AWS_ENDPOINT_URL": "https://s3.amazonaws.com",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "awsAnonymousCredential": "true",
        "S3_USE_ACCELERATE": "true",
        "S3_VERIFY_SSL": "0",
        "S3_CONNECT_TIMEOUT": "1",
        "S3_MAX_FILE_CONCURRENCY": "9",
    }
    store = _stores.of("s3://models/a")
    assert (store.options["anon"], store.concurrency) == (True, 9)
    assert store.options["client_kwargs"] == {
        "verify": False,
        "endpoint_url": "https://s3.amazonaws.com",
        "region_name": "eu-west-1",
    }
    assert store.options["config_kwargs"]["s3"] == {"addressing_style": "virtual", "use_accelerate_endpoint": True}
    assert store.options["config_kwargs"]["connect_timeout"] == 1
    os.environ |= {"S3_VERIFY_SSL": "1", "AWS_CA_BUNDLE": "/no/such.pem"}
    with pytest.raises(RuntimeError, match=r"Failed to find ca bundle file\(/no/such\.pem\)\."):
        _stores.of("s3://models/a")
    os.environ |= {"AWS_CA_BUNDLE": "", "S3_MAX_ATTEMPTS": "many"}
    with pytest.raises(RuntimeError, match="S3_MAX_ATTEMPTS is 'many', expected a number"):
        _stores.of("s3://models/a")


@pytest.mark.parametrize(
    ("uri", "variables", "path", "options"),
    [
        ("https://acc.blob.core.windows.net/models/a/b/", {}, "models/a/b", {"account_name": "acc", "anon": True}),
        (
            "https://acc.z12.blob.storage.azure.net/models/a?sv=1&sig=s",
            {},
            "models/a",
            {"account_name": "acc", "sas_token": "sv=1&sig=s"},
        ),
        (
            "abfs://models@acc.dfs.core.windows.net/a",
            {"AZURE_STORAGE_ACCESS_KEY": "k"},
            "models/a",
            {"account_name": "acc", "account_key": "k"},
        ),
        (
            "az://models/a",
            {"AZURE_STORAGE_ACCOUNT": "acc", "AZ_CLIENT_ID": "c", "AZ_CLIENT_SECRET": "s", "AZ_TENANT_ID": "t"},
            "models/a",
            {"account_name": "acc", "client_id": "c", "client_secret": "s", "tenant_id": "t"},
        ),
        (
            "abfs://models/a",
            {"AZURE_STORAGE_ACCOUNT": "acc", "AZURE_CLIENT_ID": "c"},
            "models/a",
            {"account_name": "acc", "anon": False},
        ),
    ],
)
def test_r9_azure_options_come_from_uri_and_environment(
    uri: str, variables: dict[str, str], path: str, options: dict[str, Any]
) -> None:
    os.environ |= variables
    store = _stores.of(uri)
    assert (store.protocol, store.path, store.resource, store.options) == ("abfs", path, "models", options)


def test_r9_azure_unsupported_uris_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        RuntimeError, match=r"acc\.file\.core\.windows\.net is an Azure file share, which is not supported"
    ):
        Storage.download("https://acc.file.core.windows.net/models/a", str(tmp_path))
    with pytest.raises(RuntimeError, match="abfs://models has no Azure account or container"):
        Storage.download("abfs://models/a", str(tmp_path))


@pytest.mark.parametrize(
    ("uri", "name", "package"),
    [
        ("s3://a/b", "S3", "s3fs"),
        ("gs://a/b", "GCS", "gcsfs"),
        ("abfs://b@a.dfs.core.windows.net/c", "Azure", "adlfs"),
    ],
)
def test_r9_missing_fsspec_packages_are_named_in_the_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uri: str, name: str, package: str
) -> None:

    monkeypatch.setitem(sys.modules, package, None)
    for known in ("s3", "gs", "abfs"):
        monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, known, raising=False)
    with pytest.raises(ImportError, match=f"{name} needs the package {package}: pip install 'penstock\\[kserve\\]'"):
        Storage.download(uri, str(tmp_path))
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(ImportError, match=f"{name} needs the package fsspec"):
        Storage.download(uri, str(tmp_path))
