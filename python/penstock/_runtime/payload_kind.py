"""Kinds of payload that a child process of a model receives, each a prefix of five bytes."""

from __future__ import annotations

import json

__all__ = ["BY_NAME", "BY_VALUE", "IN_FOLDER", "MADE", "in_folder"]

BY_NAME = b"name "
"""JSON: a module or file, and the name of an object in it."""
IN_FOLDER = b"fold "
"""JSON: a folder of a model repository, with the model's name and version."""
BY_VALUE = b"code "
"""The pickled definition."""
MADE = b"made "
"""JSON: `module:function` and its arguments; the function returns the model."""


def in_folder(folder: str, name: str, version: str) -> bytes:
    """The payload of a model in a repository folder."""
    return IN_FOLDER + json.dumps({"folder": folder, "name": name, "version": version}).encode()
