"""Texts of settings, by kind."""

from __future__ import annotations

from dataclasses import fields

from penstock import ServerConfig
from penstock._config import settings

SAMPLES = {
    "address": ("127.0.0.1:9", "unix:/tmp/a", "fd:3", "off"),
    "address|same": ("same", "127.0.0.1:9", "off"),
    "listeners": ("http=127.0.0.1:9", "metrics=unix:/tmp/a"),
    "files": ("a.pem", "b.pem,c.pem"),
    "hosts": ("a.test", "*"),
    "origins": ("https://a.test", "*"),
    "networks": ("10.0.0.0/8,unix", "::1"),
    "names": ("a", "b,c"),
    "folders": ("a", "b"),
    "amounts": ("gpu0=1", "gpu0=2,disk=1"),
    "policy": ("all", "latest:2", "specific:1,2"),
    "count": ("3", "4"),
    "positive": ("5", "6"),
    "size": ("1MiB", "2KiB"),
    "size|auto": ("1MiB", "auto"),
    "seconds": ("1s", "2m"),
    "share": ("0.5", "0.25"),
    "switch": ("on", "off"),
    "text": ("one", "two"),
    "text|off": ("one", "off"),
    "pattern": ("x-.*", "off"),
    "path|off": ("/a", "/b"),
    "attach": ("auto", "unix:/tmp/a"),
    "secret": ("one-key", "off"),
    "rules": ("inference:x-key=one-key", "off"),
}
"""Texts of each kind that is not one of several words."""


OWN = {
    "access_log_fields": ("tls", "time,route"),
    "otlp_endpoint": ("http://127.0.0.1:9", "off"),
    "trace_sampler": ("always_on", "auto"),
    "admin_only": ("metrics", "trace,debug"),
}
"""Texts of settings that a rule restricts further."""

KINDS = {entry.name: entry.metadata["kind"] for entry in fields(ServerConfig)}
"""Kind of each setting."""


def samples(name: str, count: int) -> list[str]:
    """Texts of a setting, different ones next to each other."""
    texts = OWN.get(name) or settings.choices(KINDS[name]) or SAMPLES[KINDS[name]]
    return [texts[place % len(texts)] for place in range(count)]
