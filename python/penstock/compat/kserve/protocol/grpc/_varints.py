"""Varints, encoded and decoded in bulk."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["decoded", "encoded", "length_of", "number"]

_LONGEST = 10
_STEPS = np.array([1 << 7 * group for group in range(1, _LONGEST)], dtype=np.uint64)
_SHIFTS = np.arange(0, 7 * _LONGEST, 7, dtype=np.uint64)


def number(value: int) -> bytes:
    """Returns the varint of a number that is not negative."""
    if value < 0x80:
        return bytes((value,))
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def length_of(data: bytes) -> bytes:
    """Returns the varint of a length."""
    return number(len(data))


def encoded(values: np.ndarray[Any, Any]) -> bytes:
    """Returns integers or booleans as varints; negative ones as 64 bits in two's complement."""
    flat = values.ravel()
    if flat.size and flat.min() >= 0 and flat.max() < 0x80:
        return flat.astype(np.uint8).tobytes()
    wide = flat.astype(np.int64).view(np.uint64) if flat.dtype.kind == "i" else flat.astype(np.uint64)
    lengths = 1 + (wide[:, None] >= _STEPS).sum(axis=1)
    groups = ((wide[:, None] >> _SHIFTS) & np.uint64(0x7F)).astype(np.uint8)
    positions = np.arange(_LONGEST)
    groups[positions < lengths[:, None] - 1] |= 0x80
    written: bytes = groups[positions < lengths[:, None]].tobytes()
    return written


def decoded(data: Any) -> np.ndarray[Any, Any]:
    """Returns the numbers of a sequence of varints, as unsigned 64 bits.

    Raises:
        ValueError: the last varint is truncated, or one has more than ten bytes.
    """
    groups = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(groups < 0x80)
    if groups.size and (not ends.size or ends[-1] != groups.size - 1):
        raise ValueError("the last number is truncated")
    starts = np.concatenate([[0], ends[:-1] + 1]) if ends.size else ends
    lengths = ends - starts + 1
    if lengths.size and lengths.max() > _LONGEST:
        raise ValueError("a number has more than ten bytes")
    found = np.zeros(ends.size, dtype=np.uint64)
    for position in range(int(lengths.max(initial=0))):
        has_group = lengths > position
        found[has_group] |= (groups[starts[has_group] + position] & np.uint64(0x7F)).astype(np.uint64) << _SHIFTS[
            position
        ]
    return found
