"""Description of a benchmark: the part of its result that is known before the load."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from penstock._bench.record import FORMAT, Record
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock._bench.plan import BenchSettings
    from penstock.client import Client

__all__ = ["head", "title"]


def head(client: Client, model: tuple[str, str | None], settings: BenchSettings, input_format: str) -> Record:
    """Format, server, model, client and settings."""
    from penstock import _core

    try:
        metadata: dict[str, Any] = client.server_metadata()
    except (PenstockError, ValueError):
        metadata = {}
    name, version = model
    return {
        "format": FORMAT,
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "url": client.url,
        "model": name,
        "model_version": version,
        "server": {"name": str(metadata.get("name", "")), "version": str(metadata.get("version", ""))},
        "client": {"version": _core.version, "processors": _core.available_processors()},
        "loop": "open" if settings.is_open else "closed",
        "settings": {
            name: value
            for name, value in dataclasses.asdict(settings).items()
            if name not in ("steps", "is_open", "percentiles")
        }
        | {"input_format": input_format},
        "percentiles": list(settings.percentiles),
    }


def title(result: Record) -> str:
    """One line about the benchmark."""
    settings, server = result["settings"], result["server"]
    limits = [f"{settings['seconds']:g} s"] if settings["seconds"] else []
    limits += [f"{settings['requests']:,} requests"] if settings["requests"] else []
    if result["loop"] == "open":
        loop = (
            f"open loop, {'Poisson' if settings['poisson'] else 'constant'} arrivals, latency from the scheduled time"
        )
    else:
        loop = "closed loop"
    rounds = f", {settings['repeat']} rounds" if settings["repeat"] > 1 else ""
    version = f" version {result['model_version']}" if result["model_version"] else ""
    name = " ".join(filter(None, server.values()))
    return (
        f"model {result['model']}{version} at {result['url']}{f' ({name})' if name else ''}: {loop}; "
        f"{' or '.join(limits)} a step{rounds}, after {settings['warmup']:g} s of warm-up"
    )
