"""Base of both clients: options, cached metadata, and renewal after a fork."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union

from penstock.client import _call, _hints, _options
from penstock.client._options import Call, How
from penstock.errors import InvalidInput, NotFound, PenstockError

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


class Base(Generic[Core]):
    """A server's address, and the connections of the compiled extension."""

    _core: Core

    def __init__(self, url: str, options: ClientOptions) -> None:
        self._url = url
        self._settings, self._timeout = _options.settings(options)
        self._declared: dict[tuple[str, str], _call.Declared] = {}
        self._ambiguous: set[tuple[str, str]] = set()
        """Models with an input that has the name of an option of the client."""
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
        if timeout is ...:
            limit = self._timeout
        else:
            _hints.check_timeout(timeout)
            limit = _options.seconds("timeout", timeout)
        if headers is None:
            return ([], limit)
        _hints.check_type("headers", headers)
        return (list(headers.items()), limit)

    def _remember(self, key: tuple[str, str], metadata: Mapping[str, Any]) -> _call.Declared:
        """Keeps the inputs of a model."""
        known = self._declared[key] = _call.declared(metadata)
        if not _hints.OPTIONS.isdisjoint(known):
            self._ambiguous.add(key)
        return known

    def _refuse_options(self, call: Call, how: How) -> None:
        """Refuses an option that is an input of the model too, where this is known.

        Raises:
            InvalidInput: there is one.
        """
        if (key := (call[0], call[1])) in self._ambiguous:
            inputs = {name: value for name, value, _ in call[3]}
            _hints.check_names(_hints.options_of(call, how, self._timeout), self._declared[key], inputs)

    def _add_hint(self, error: PenstockError, call: Call, how: How, answer: Any) -> None:
        if isinstance(error, NotFound):
            _hints.explain_model(error, call[0], [str(one["name"]) for one in answer])
        elif isinstance(error, InvalidInput):
            declared = self._remember((call[0], call[1]), answer)
            _hints.explain_input(error, call, _hints.options_of(call, how, self._timeout), declared)

    def _renew(self) -> None:
        self._leave(self._core)
        self._core = self._make(self._url, self._settings)

    @staticmethod
    def _leave(core: object) -> None:
        # Never deallocated in the child: the connections and locks belong to the parent.
        _OF_PARENTS.append(core)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._url}{', closed' if self._closed else ''}>"


_HINT_TIMEOUT = 2.0
"""Seconds for a question that only improves an error's message."""

_LIVING: weakref.WeakSet[Base[Any]] = weakref.WeakSet()
_OF_PARENTS: list[object] = []


def inputs_of(inputs: Mapping[str, Any] | None, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Inputs by name, from a mapping, keywords, or both."""
    if inputs is None:
        # `inputs={...}` is the mapping; an input that has this name goes into the mapping.
        given = named.get("inputs")
        if not isinstance(given, Mapping):
            return named
        return {**given, **{name: value for name, value in named.items() if name != "inputs"}}
    return {**inputs, **named} if named else inputs


def ask_of(what: str, model: str | None = None, version: str | None = None) -> Ask:
    """The arguments of an operation on the server or a model."""
    return (what, model or "", "" if version is None else str(version), None, [])


def hint_of(error: PenstockError, call: Call, how: How) -> tuple[Ask, How] | None:
    """The question whose answer explains an error of the server; None if there is none."""
    if error.status is None:
        return None
    # Brief, since the error itself is known already.
    brief: How = (how[0], _HINT_TIMEOUT if how[1] is None else min(how[1], _HINT_TIMEOUT))
    return (ask_of("index") if isinstance(error, NotFound) else ask_of("metadata", call[0], call[1])), brief


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
