"""Base of both clients: options, cached metadata, and renewal after a fork."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union

from penstock.client import _call, _options
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from types import EllipsisType

    from penstock.client._options import ClientOptions, Settings

__all__ = ["Base", "Timeout"]

Core = TypeVar("Core")
Timeout = Union["float", None, "EllipsisType"]
"""Seconds, None for no limit, or `...` for the client's default."""

Ask = tuple[str, str, str, "str | None", "list[tuple[str, bytes]]"]
"""Operation, model, version, further argument, and files by name."""
Headers = Union["Mapping[str, str]", None]
How = tuple["list[tuple[str, str]]", "float | None"]


class Base(Generic[Core]):
    """A server's address, and the connections of the compiled extension."""

    _core: Core

    def __init__(self, url: str, options: ClientOptions) -> None:
        self._url = url
        self._settings, self._timeout = _options.settings(options)
        self._declared: dict[tuple[str, str], _call.Declared] = {}
        self._closed = False
        self._core = self._make(url, self._settings)
        _LIVING.add(self)

    @property
    def url(self) -> str:
        """The server's URL."""
        return self._url

    @property
    def closed(self) -> bool:
        """True if the client is closed."""
        return self._closed

    def _make(self, url: str, settings: Settings) -> Core:
        raise NotImplementedError

    def _how(self, headers: Mapping[str, str] | None, timeout: Timeout) -> How:
        if self._closed:
            raise PenstockError(f"the client of {self._url} is closed")
        limit = self._timeout if timeout is ... else _options.seconds("timeout", timeout)
        return ([] if headers is None else list(headers.items()), limit)

    def _renew(self) -> None:
        self._leave(self._core)
        self._core = self._make(self._url, self._settings)

    @staticmethod
    def _leave(core: object) -> None:
        # Never deallocated in the child: the connections and locks belong to the parent.
        _OF_PARENTS.append(core)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._url}{', closed' if self._closed else ''}>"


_LIVING: weakref.WeakSet[Base[Any]] = weakref.WeakSet()
_OF_PARENTS: list[object] = []


def inputs_of(inputs: Mapping[str, Any] | None, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Inputs by name, from a mapping, keywords, or both."""
    if inputs is None:
        return named
    return {**inputs, **named} if named else inputs


def ask_of(what: str, model: str | None = None, version: str | None = None) -> Ask:
    """The arguments of an operation on the server or a model."""
    return (what, model or "", "" if version is None else str(version), None, [])


def load_of(model: str, config: Mapping[str, Any] | None, files: Mapping[str, bytes] | None) -> Ask:
    """The arguments of a load, with an optional configuration and files."""
    return ("load", model, "", None if config is None else json.dumps(dict(config)), list((files or {}).items()))


def unload_of(model: str, dependents: bool) -> Ask:
    """The arguments of an unload."""
    return ("unload", model, "", "dependents" if dependents else None, [])


def _after_fork() -> None:
    from penstock import _core

    _core.reset_clients()
    for client in list(_LIVING):
        client._renew()


os.register_at_fork(after_in_child=_after_fork)
