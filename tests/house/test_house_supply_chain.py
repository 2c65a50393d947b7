"""Supply chain: the bill of materials of the installed wheel lists every linked crate."""

from __future__ import annotations

import json
import re
import subprocess
from importlib import metadata

import pytest

from house import ROOT


def test_bill_of_materials_lists_every_linked_crate() -> None:
    files = metadata.files("penstock") or []
    boms = [file for file in files if "sboms" in file.parts]
    if not boms:
        pytest.skip("penstock is not installed from a wheel")
    [bom] = boms
    document = json.loads(bom.read_text())
    assert document["bomFormat"] == "CycloneDX"
    listed = {(one["name"], one["version"]) for one in document["components"]}
    command = ["cargo", "tree", "--locked", "--offline", "-p", "penstock-py", "-e", "normal", "--prefix", "none"]
    tree = subprocess.run([*command, "--format", "{p}"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    linked = set(re.findall(r"^(\S+) v(\S+)", tree, re.MULTILINE))
    assert len(linked) > 100
    missing = {(name, version) for name, version in linked - listed if not name.startswith("penstock")}
    assert not missing
