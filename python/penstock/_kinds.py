"""What kind of function a handler is: plain or async, answering once or in pieces."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from penstock import _hints


def is_generator(handler: Callable[..., Any]) -> bool:
    """Whether a call of the handler makes a generator, plain or async."""
    bare = _hints.plain_function(handler)
    return inspect.isgeneratorfunction(bare) or inspect.isasyncgenfunction(bare)


def is_async(handler: Callable[..., Any]) -> bool:
    """Whether the handler runs on an event loop."""
    bare = _hints.plain_function(handler)
    return inspect.iscoroutinefunction(bare) or inspect.isasyncgenfunction(bare)
