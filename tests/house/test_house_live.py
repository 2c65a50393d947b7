"""Live settings: each is seen to change by a test, and nothing else claims to be live."""

from __future__ import annotations

import re
from dataclasses import fields

from house import ROOT, text
from penstock import ServerConfig

LIVE = {entry.name for entry in fields(ServerConfig) if entry.metadata["live"]}


def test_each_live_setting_has_a_test_of_its_effect() -> None:
    found = [
        name
        for path in sorted((ROOT / "tests" / "lifecycle").glob("*.py"))
        for name in re.findall(r'^@pytest\.mark\.live_setting\("(\w+)"\)$', path.read_text(), re.MULTILINE)
    ]
    assert sorted(found) == sorted(LIVE)


def test_live_settings_of_the_server_are_read_again() -> None:
    """All that the compiled part takes over is live, and the reverse. The time to drain is that of its caller."""
    limits = re.findall(r"^    pub (\w+): Live<", text("rust/server/src/settings/limits.rs"), re.MULTILINE)
    others = re.findall(r"^    pub (\w+): Live<", text("rust/server/src/settings/config.rs"), re.MULTILINE)
    assert {*limits, *others, "tls_handshake_timeout", "drain_timeout", "access_log", "log_level"} == LIVE
