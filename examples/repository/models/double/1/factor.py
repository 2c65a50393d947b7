"""Factor of version 1."""

FACTOR = 2
