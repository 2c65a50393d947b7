"""Limit of open files (`ulimit -n`), which has to hold the connections that the settings allow."""

from __future__ import annotations

import functools
import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["raise_limit", "raised_limit", "report_limit"]

_RESERVE = 128
"""Files besides connections: listeners, event loops, models' processes, and what handlers open."""


@contextmanager
def raised_limit(max_connections: int) -> Iterator[None]:
    """Raises the soft limit so far as `max_connections` needs and the hard limit allows; restores it at the end.

    For processes that only serve: child processes inherit the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_limit(max_connections)
    try:
        yield
    finally:
        if resource.getrlimit(resource.RLIMIT_NOFILE)[0] != soft:
            _set(soft, hard)


def raise_limit(max_connections: int) -> None:
    """Raises the soft limit as `raised_limit` does, which restores it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = max_connections + _RESERVE
    if not _holds(soft, needed):
        _set(needed if _holds(hard, needed) else hard, hard)
        report_limit(max_connections, logging.WARNING)


def report_limit(max_connections: int, level: int = logging.INFO) -> None:
    """Logs, once for each limit, that the soft limit does not hold `max_connections`.

    A server within another program logs it as information: such programs seldom have so many clients.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if not _holds(soft, max_connections + _RESERVE):
        _log(max_connections, soft, hard, level)


@functools.lru_cache
def _log(max_connections: int, soft: int, hard: int, level: int) -> None:
    needed = max_connections + _RESERVE
    logging.getLogger("penstock").log(
        level,
        "max_connections is %d, which needs %d open files, but this process may open %d (hard limit: %s); further "
        "connections will wait until others close: start it after `ulimit -n %d` (systemd: LimitNOFILE=, docker: "
        "--ulimit nofile=), or lower max_connections",
        max_connections,
        needed,
        soft,
        "none" if hard == resource.RLIM_INFINITY else hard,
        needed,
    )


def _holds(limit: int, needed: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= needed


def _set(soft: int, hard: int) -> None:
    # Some sandboxes forbid it; `report_limit` names the limit that is in force.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
