"""R9: hubs, by fakes of their packages; container images, by a fake registry."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import platform
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from stored import FILES, files_in

from penstock.compat.kserve.storage import Storage

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
SECRET = base64.b64encode(b"user:pass").decode()
LAYER = "application/vnd.oci.image.layer.v1.tar"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())


class GatedRepoError(Exception):
    pass


class RepositoryNotFoundError(Exception):
    pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The requests to both hubs."""
    downloads: list[dict[str, Any]] = []

    def snapshot_download(**arguments: Any) -> None:
        downloads.append(arguments)
        if "gated" in arguments["repo_id"]:
            raise GatedRepoError("403 of gated repo")
        if "none" in arguments["repo_id"]:
            raise RepositoryNotFoundError("404 Client Error")
        Path(arguments["local_dir"], "model.bin").write_bytes(b"m")

    for name in ("huggingface_hub", "modelscope_hub", "modelscope_hub.compat"):
        module = ModuleType(name)
        module.snapshot_download = snapshot_download  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    return downloads


def test_r9_hugging_face_download_arguments(hub: list[dict[str, Any]], tmp_path: Path) -> None:
    out = str(tmp_path)
    assert files_in(Storage.download("hf://owner/model", out)) == {"model.bin": b"m"}
    Storage.download("hf://owner/model:v1", out, ["*.json"], ["*.md"])
    plain = {"repo_id": "owner/model", "revision": None, "local_dir": out}
    patterns = {"allow_patterns": ["*.json"], "ignore_patterns": ["*.md"]}
    assert hub == [plain, {**plain, "revision": "v1", **patterns}]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("disabled", [False, True])
def test_bars_of_the_hub_give_way_to_the_line_of_a_terminal(
    disabled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, seen = [disabled], []
    monkeypatch.setitem(sys.modules, "huggingface_hub.utils", ModuleType("huggingface_hub.utils"))
    utils = ModuleType("huggingface_hub.utils.tqdm")
    utils.are_progress_bars_disabled = lambda: state[0]  # type: ignore[attr-defined]
    utils.disable_progress_bars = lambda: state.__setitem__(0, True)  # type: ignore[attr-defined]
    utils.enable_progress_bars = lambda: state.__setitem__(0, False)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub.utils.tqdm", utils)
    monkeypatch.setattr(sys.modules["huggingface_hub"], "snapshot_download", lambda **_: seen.append(state[0]))
    os.environ["TERM"] = "xterm"
    for stream, expected in ((Terminal(), True), (io.StringIO(), disabled)):
        monkeypatch.setattr(sys, "stderr", stream)
        Storage.download("hf://owner/model", str(tmp_path))
        assert (seen.pop(), state[0]) == (expected, disabled)


def test_r9_modelscope_download_arguments(hub: list[dict[str, Any]], tmp_path: Path) -> None:
    os.environ["MODELSCOPE_API_TOKEN"] = "t"
    Storage.download("modelscope://owner/model:v1", str(tmp_path))
    assert hub == [{"repo_id": "owner/model", "revision": "v1", "local_dir": str(tmp_path), "token": "t"}]


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("hf://model", r"Invalid Hugging Face URI format. Expected 'hf://owner/model\[:revision\]', got 'hf://model'"),
        ("hf://a/b/c", "Invalid Hugging Face URI format"),
        ("hf:///model", "Hugging Face repository owner cannot be empty in URI: hf:///model"),
        ("hf://owner/:v1", "Hugging Face model name cannot be empty in URI: hf://owner/:v1"),
        ("modelscope://model", r"Invalid ModelScope URI format. Expected 'modelscope://owner/model\[:revision\]'"),
        (
            "hf://owner/gated",
            "HuggingFace authentication failed. Set HF_TOKEN or request access to the gated repository.",
        ),
        ("hf://owner/none", "HuggingFace resource 'owner/none' not found."),
        ("modelscope://owner/none", "ModelScope resource 'owner/none' not found."),
    ],
)
def test_r9_invalid_or_missing_hub_models_are_errors(
    hub: list[dict[str, Any]], tmp_path: Path, uri: str, text: str
) -> None:
    with pytest.raises(RuntimeError, match=text):
        Storage.download(uri, str(tmp_path))


@pytest.mark.parametrize(
    ("uri", "module", "package"),
    [
        ("hf://a/b", "huggingface_hub", "huggingface_hub"),
        ("modelscope://a/b", "modelscope_hub", "modelscope-hub"),
    ],
)
def test_r9_missing_hub_packages_are_named_in_the_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uri: str, module: str, package: str
) -> None:
    for name in (module, f"{module}.compat"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"needs the package {package}: pip install {package}"):
        Storage.download(uri, str(tmp_path))


class Registry:
    """A fake image registry with configurable authentication."""

    def __init__(self) -> None:
        self.blobs: dict[str, tuple[str, bytes]] = {}
        self.demand: str | None = None
        self.seen: list[tuple[str, str | None]] = []
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                authorization = self.headers.get("Authorization")
                registry.seen.append((self.path, authorization))
                if self.path.startswith("/token?"):
                    return self.respond(200, "application/json", b'{"token": "t"}', {})
                if registry.demand and authorization not in (f"Basic {SECRET}", "Bearer t"):
                    return self.respond(401, "text/plain", b"", {"WWW-Authenticate": registry.demand})
                kind, body = registry.blobs.get(self.path.rpartition("/")[2], ("", b""))
                return self.respond(200 if body else 404, kind, body, {})

            def respond(self, status: int, kind: str, body: bytes, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def put(self, kind: str, body: bytes, name: str | None = None) -> dict[str, Any]:
        """Adds a blob or a manifest, optionally under a tag; returns its descriptor."""
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        self.blobs[digest] = self.blobs[name or digest] = (kind, body)
        return {"mediaType": kind, "digest": digest, "size": len(body)}

    def image(self, *layers: dict[str, Any], tag: str | None = None) -> dict[str, Any]:
        """Adds an image."""
        config = self.put("application/vnd.oci.image.config.v1+json", b"{}")
        body = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": list(layers)}
        return self.put(MANIFEST, json.dumps(body).encode(), tag)


@pytest.fixture
def registry() -> Iterator[Registry]:
    os.environ["KSERVE_OCI_INSECURE_REGISTRY"] = "true"
    registry = Registry()
    yield registry
    registry.server.shutdown()
    registry.server.server_close()


def layer(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def test_r9_image_layers_are_unpacked(registry: Registry, tmp_path: Path) -> None:
    base = registry.put(f"{LAYER}+gzip", layer({"etc/passwd": b"root", "models/a.txt": b"old"}))
    models = registry.put(LAYER, layer({f"./models/{name}": content for name, content in FILES.items()}, "w"))
    other = {"mediaType": "application/vnd.in-toto+json", "digest": "sha256:0", "size": 1}
    registry.image(base, models, other, tag="v1")
    assert files_in(Storage.download(f"oci://{registry.host}/team/model:v1", str(tmp_path / "out"))) == FILES


def test_r9_image_size_is_bounded(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big = layer({"models/m": bytes(1 << 20)})
    descriptor = registry.put(f"{LAYER}+gzip", big)
    # The sizes in a manifest raise no limit.
    registry.image({**descriptor, "size": 1 << 40}, tag="v1")
    monkeypatch.setattr("penstock.integrations._bounds._LEAST", 0)
    with pytest.raises(RuntimeError, match="the archive holds more than"):
        Storage.download(f"oci://{registry.host}/model:v1", str(tmp_path))
    os.environ["PENSTOCK_STORAGE_MAX_BYTES"] = str(len(big) - 1)
    with pytest.raises(RuntimeError, match=rf"the (image|archive) holds more than {len(big) - 1} bytes"):
        Storage.download(f"oci://{registry.host}/model:v1", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_r9_multi_platform_image_selects_this_platform(registry: Registry, tmp_path: Path) -> None:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    images = [
        {**registry.image(registry.put(f"{LAYER}+gzip", layer({"models/m": name.encode()}))), "platform": target}
        for name, target in [
            ("unknown", {"os": "unknown", "architecture": "unknown"}),
            ("ours", {"os": "linux", "architecture": machine}),
        ]
    ]
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": images}
    registry.put(INDEX, json.dumps(index).encode(), "v1")
    assert files_in(Storage.download(f"oci://{registry.host}/model:v1", str(tmp_path / "out"))) == {"m": b"ours"}
    registry.put(INDEX, json.dumps({**index, "manifests": images[:1]}).encode(), "v2")
    with pytest.raises(RuntimeError, match=f"has no manifest for linux/{machine}"):
        Storage.download(f"oci://{registry.host}/model:v2", str(tmp_path / "out"))


def test_r9_images_without_model_files_are_rejected(registry: Registry, tmp_path: Path) -> None:
    registry.image(registry.put(f"{LAYER}+gzip", layer({"etc/passwd": b"root"})), tag="v1")
    with pytest.raises(RuntimeError, match="has no /models/ directory; its top-level entries: etc"):
        Storage.download(f"oci://{registry.host}/model:v1", str(tmp_path))
    registry.image(registry.put(f"{LAYER}+zstd", b"zstd"), tag="v2")
    with pytest.raises(RuntimeError, match=r"OCI layer: got '.*\+zstd', expected tar or gzip"):
        Storage.download(f"oci://{registry.host}/model:v2", str(tmp_path))
    registry.image(registry.put(f"{LAYER}+gzip", layer({"models/../../evil": b"x"})), tag="v3")
    with pytest.raises(RuntimeError, match="leads out of the folder"):
        Storage.download(f"oci://{registry.host}/model:v3", str(tmp_path / "out"))
    with pytest.raises(RuntimeError, match=r"OCI resource '.*/model' not found\."):
        Storage.download(f"oci://{registry.host}/model:none", str(tmp_path))


@pytest.mark.parametrize("scheme", ["Basic", "Bearer"])
def test_r9_image_registry_credentials_are_used(registry: Registry, tmp_path: Path, scheme: str) -> None:
    registry.image(registry.put(f"{LAYER}+gzip", layer({"models/m": b"m"})), tag="v1")
    realm = "r" if scheme == "Basic" else f"http://{registry.host}/token"
    registry.demand = f'{scheme} realm="{realm}",service="s",scope="repository:a/b:pull"'
    (tmp_path / "config.json").write_text(json.dumps({"auths": {registry.host: {"auth": SECRET}}}))
    os.environ["KSERVE_OCI_DOCKER_CONFIG"] = str(tmp_path / "config.json")
    assert files_in(Storage.download(f"oci://{registry.host}/a/b:v1", str(tmp_path / "out"))) == {"m": b"m"}
    seen = [(path.partition("/blobs/")[0], authorization) for path, authorization in registry.seen]
    manifest = "/v2/a/b/manifests/v1"
    if scheme == "Basic":
        assert seen == [(manifest, None), (manifest, f"Basic {SECRET}"), ("/v2/a/b", f"Basic {SECRET}")]
    else:
        token = ("/token?service=s&scope=repository%3Aa%2Fb%3Apull", f"Basic {SECRET}")
        assert seen == [(manifest, None), token, (manifest, "Bearer t"), ("/v2/a/b", "Bearer t")]


def test_r9_missing_registry_credentials_are_an_error(registry: Registry, tmp_path: Path) -> None:
    registry.demand = 'Basic realm="r"'
    os.environ["KSERVE_OCI_DOCKER_CONFIG"] = str(tmp_path / "none.json")
    with pytest.raises(RuntimeError, match=r"OCI authentication failed for '.*/a/b'\. Verify KSERVE_OCI_DOCKER_CONFIG"):
        Storage.download(f"oci://{registry.host}/a/b:v1", str(tmp_path / "out"))


def test_r9_image_digests_are_verified(registry: Registry, tmp_path: Path) -> None:
    models = registry.put(LAYER, layer({"models/m": b"m"}, "w"))
    registry.blobs[models["digest"]] = (LAYER, layer({"models/m": b"M"}, "w"))
    registry.image(models, tag="v1")
    with pytest.raises(RuntimeError, match=f"the registry returned sha256:\\w+, expected {models['digest']}"):
        Storage.download(f"oci://{registry.host}/a/b:v1", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_r9_unreachable_registry_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"Failed to connect to OCI registry '127\.0\.0\.1:1'"):
        Storage.download("oci://127.0.0.1:1/a/b", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"Invalid OCI URI; expected 'oci://<registry>/<repo>\[:tag\|@digest\]'"):
        Storage.download("oci://image", str(tmp_path))
