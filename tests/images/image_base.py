"""Base of a real build without a registry: a root file system with the Python of the tests, and a wheel."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path

import numpy as np

import penstock

PROGRAMS = ("sh", "env", "id", "ls", "cat", "mkdir", "chown", "chmod", "rm", "touch")
LEFT_OUT = ("test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "__pycache__", "site-packages", "config-*")


def write_system(root: Path) -> None:
    """Writes a root file system with a shell, a few programs, and this Python with NumPy."""
    for name in ("tmp", "etc", "usr/local/bin", "usr/bin", "proc", "sys", "dev", "run", "var"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for link, target in (("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")):
        (root / target).mkdir(exist_ok=True)
        (root / link).symlink_to(target)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    python = root / "usr/local/bin" / version
    shutil.copyfile(Path(sys.executable).resolve(), python)
    python.chmod(0o755)
    (root / "usr/local/bin/python3").symlink_to(version)
    library = root / "usr/local/lib" / version
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    _copy_dependencies(library / "site-packages")
    programs = [Path(found).resolve() for name in PROGRAMS if (found := shutil.which(name, path="/usr/bin:/bin"))]
    for name, program in zip(PROGRAMS, programs, strict=True):
        shutil.copy(program, root / "usr/bin" / name)
    _copy_libraries([*programs, Path(sys.executable).resolve(), *library.rglob("*.so")], root)


def write_wheel(folder: Path) -> Path:
    """Writes a wheel of the package under test with its native module."""
    tag = f"cp310-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    dist_info = f"penstock-{penstock.__version__}.dist-info"
    package = Path(penstock.__file__).parent
    contents = {
        f"penstock/{path.relative_to(package).as_posix()}": path.read_bytes()
        for path in sorted(package.rglob("*"))
        if path.is_file() and path.suffix in (".py", ".so", ".typed")
    }
    contents[f"{dist_info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: penstock\nVersion: {penstock.__version__}\nRequires-Dist: msgspec>=0.22\n"
        "Requires-Dist: numpy>=1.24\n".encode()
    )
    contents[f"{dist_info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    )
    contents[f"{dist_info}/entry_points.txt"] = b"[console_scripts]\npenstock = penstock._cli.main:main\n"
    lines = [f"{name},sha256={_hash(content)},{len(content)}" for name, content in contents.items()]
    contents[f"{dist_info}/RECORD"] = "\n".join([*lines, f"{dist_info}/RECORD,,", ""]).encode()
    wheel = folder / f"penstock-{penstock.__version__}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED, 1)
    return wheel


def _copy_dependencies(target: Path) -> None:
    source = Path(np.__file__).parent.parent
    for name in ("msgspec", "numpy", "numpy.libs"):
        if (source / name).is_dir():
            shutil.copytree(
                source / name, target / name, ignore=shutil.ignore_patterns("tests", "__pycache__", "*.pyi")
            )
    for name in ("msgspec", "numpy"):
        distribution = metadata.distribution(name)
        info = Path(str(distribution.locate_file("."))) / f"{name}-{distribution.version}.dist-info"
        shutil.copytree(info, target / info.name)


def _copy_libraries(programs: list[Path], root: Path) -> None:
    libraries: set[str] = set()
    for program in programs:
        done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
        libraries.update(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", done.stdout, re.MULTILINE))
    libc = next(path for path in libraries if "/libc.so" in path)
    for path in sorted(libraries):
        if path.startswith(str(root)):
            continue
        # The loader has a fixed path; libraries are copied to the folder that it searches first.
        path_in_image = Path(path) if "/ld-" in path else Path(libc).parent / Path(path).name
        target = root / str(path_in_image).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(path), target)


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
