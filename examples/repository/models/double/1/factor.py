"""What version 1 multiplies by."""

FACTOR = 2
