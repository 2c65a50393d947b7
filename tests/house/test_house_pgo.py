"""The build with a recorded profile: its steps, and its refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from house import ROOT


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    """A folder with a `rustc` whose toolchain lacks the LLVM tools."""
    script = tmp_path / "rustc"
    script.write_text(f'#!/bin/sh\n[ "$1" = -vV ] && echo "host: some-target" || echo "{tmp_path}/sysroot"\n')
    script.chmod(0o755)
    return tmp_path


def run(*command: str, path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}", **environment}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_missing_llvm_tools_are_named_with_their_remedy(compiler: Path) -> None:
    profile = compiler / "profile"
    done = run(sys.executable, "-m", "benches.pgo", str(profile), path=compiler)
    assert done.returncode == 1
    assert done.stderr.endswith("bin/llvm-profdata, install it first: rustup component add llvm-tools\n")
    assert not profile.exists()


def test_profile_is_recorded_before_the_wheel_that_uses_it(compiler: Path) -> None:
    steps = run("make", "-nB", "build", path=compiler, PENSTOCK_PROFILE="pgo").stdout
    recorded, used = steps.find("-m benches.pgo .make/pgo.profdata"), steps.find("-Cprofile-use=")
    assert 0 <= recorded < used
    assert "--target some-target --locked --profile pgo" in steps[used:]


@pytest.mark.parametrize("profile", ["release", "fast"])
def test_other_profiles_record_nothing(compiler: Path, profile: str) -> None:
    steps = run("make", "-nB", "build", path=compiler, PENSTOCK_PROFILE=profile).stdout
    assert f"--profile {profile}" in steps
    assert "pgo" not in steps
