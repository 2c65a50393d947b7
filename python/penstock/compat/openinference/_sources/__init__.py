"""Download of a function's code."""
