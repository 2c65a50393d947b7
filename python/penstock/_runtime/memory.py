"""Memory of handlers' arrays, which numpy takes from the C library."""

from __future__ import annotations

__all__ = ["keep_freed_blocks"]

_NEARLY_32_MIB = (32 << 20) - (64 << 10)
"""Bytes of an array just below the largest block for which glibc adapts its thresholds."""


def keep_freed_blocks() -> None:
    """Makes glibc keep the memory of freed arrays for new ones, instead of returning it to the kernel.

    glibc maps a large block and unmaps it when it is freed, and a handler that creates the next array has a page fault
    for every page. After freeing a mapped block, up to 32 MiB, glibc takes blocks of that size from its heap, and keeps
    twice as much free memory there. This frees one such block, whose pages are never touched. It has no effect on other
    C libraries, nor where the environment sets these thresholds.
    """
    # Imported here: declaring models does not need numpy's extension.
    import numpy as np

    np.empty(_NEARLY_32_MIB, np.uint8)
