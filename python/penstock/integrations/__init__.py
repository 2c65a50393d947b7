"""Integrations: detection and loading of folders and files of other frameworks; `Integration` is their protocol."""

from __future__ import annotations

from penstock._handler import json_text
from penstock._spec.instances import processors
from penstock.integrations._api import detect, load, settings
from penstock.integrations._protocol import Finding, Integration

__all__ = ["Finding", "Integration", "detect", "json_text", "load", "processors", "settings"]
