"""Records how the server's code is used, for the build of a wheel with profile-guided optimization.

    PENSTOCK_PROFILE=pgo make build     # runs it, and builds the wheel with its profile
    python -m benches.pgo FILE          # writes the profile to FILE

It builds an instrumented wheel, serves short runs of `benches.load` with it, and merges what they recorded: small
requests of each wire at several numbers of connections, large tensors, JSON of many numbers, streams. Nothing is
installed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]

RUNS: Sequence[Sequence[str]] = (
    ("benches.load", "run", "penstock", "m1b,m1", "--connections", "1,8,64", "--seconds", "1"),
    ("benches.load", "run", "inline,processes", "m1b", "--connections", "8", "--seconds", "0.5"),
    ("benches.load", "run", "penstock", "m2mean,m2json,m2out,m2new", "--connections", "8", "--seconds", "0.5"),
    ("benches.load.streams", "--clients", "16", "--repeats", "1", "penstock", "penstock, batched", "penstock, looped"),
)
"""The training: arguments of `python -m`."""


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="python -m benches.pgo", description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, metavar="FILE", help="the profile to write, for rustc's -Cprofile-use")
    target: Path = parser.parse_args().file.resolve()
    merger = llvm_profdata()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        instrumented(folder)
        for number, arguments in enumerate(RUNS):
            train(arguments, folder, folder / f"results-{number}.jsonl")
        merge(merger, folder / "raw", target)
    print(f"{target}: {target.stat().st_size:,} bytes")
    return 0


def llvm_profdata() -> Path:
    """The toolchain's program that merges profiles, of the same LLVM as rustc's."""
    sysroot = Path(output("rustc", "--print", "sysroot"))
    found = sysroot / "lib" / "rustlib" / host() / "bin" / "llvm-profdata"
    if not found.exists():
        sys.exit(f"llvm-profdata is missing at {found}, install it first: rustup component add llvm-tools")
    return found


def instrumented(folder: Path) -> None:
    """Builds an instrumented wheel, and unpacks it into `folder`/site."""
    # With a target, the flags do not apply to build scripts and macros, which would record themselves too.
    build = [sys.executable, "-m", "maturin", "build", "--locked", "--profile", "pgo", "--compatibility", "linux"]
    build += ["--target", host(), "--interpreter", sys.executable, "--out", str(folder / "dist")]
    run(build, {"RUSTFLAGS": f"{os.environ.get('RUSTFLAGS', '')} -Cprofile-generate={folder / 'raw'}".strip()})
    [wheel] = (folder / "dist").glob("*.whl")
    run([sys.executable, "-m", "pip", "install", "-q", "--target", str(folder / "site"), str(wheel)], {})


def train(arguments: Sequence[str], folder: Path, results: Path) -> None:
    """Runs one benchmark with the instrumented wheel. Its figures mean nothing."""
    paths = [str(folder / "site"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        # A file for each process.
        "LLVM_PROFILE_FILE": str(folder / "raw" / "%p-%m.profraw"),
    }
    out = ["--repeats", "1", "--out", str(results)] if arguments[0] == "benches.load" else []
    run([sys.executable, "-m", *arguments, *out], environment)


def merge(merger: Path, raw: Path, target: Path) -> None:
    """Merges the records of all processes."""
    recorded = sorted(raw.glob("*.profraw"))
    if not recorded:
        sys.exit(f"nothing was recorded in {raw}: the instrumented servers did not end by themselves")
    target.parent.mkdir(parents=True, exist_ok=True)
    merged = raw / "merged.profdata"
    run([str(merger), "merge", "-o", str(merged), *map(str, recorded)], {})
    shutil.move(merged, target)


def host() -> str:
    """The compiler's own target, such as `x86_64-unknown-linux-gnu`."""
    lines = output("rustc", "-vV").splitlines()
    return next(line.partition(": ")[2] for line in lines if line.startswith("host: "))


def output(*command: str) -> str:
    """The output of a command."""
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def run(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Runs a command at the repository's root; exits if it fails."""
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False)
    if done.returncode:
        sys.exit(f"failed with status {done.returncode}: {' '.join(command)}")


if __name__ == "__main__":
    sys.exit(main())
