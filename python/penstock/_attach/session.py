"""One process that has come with models, from the server's side: what it asks, and what is left when it goes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock._attach import definition_json, messages
from penstock._attach.table import Key, Table
from penstock._spec.placement import Channels
from penstock.errors import InvalidInput, LoadError, PenstockError, Unavailable

if TYPE_CHECKING:
    from penstock import _core
    from penstock._spec.definition import Definition

__all__ = ["Guest"]

_log = logging.getLogger("penstock.attach")


class Guest:
    """Serves one process until it leaves, on a thread of its own.

    Args:
        line: What is said to it and heard of it.
        table: The models that are attached, of all guests.
    """

    def __init__(self, line: _core.Line, table: Table) -> None:
        self._line, self._table = line, table
        self._says = threading.Lock()
        self._channels: list[_core.Channel] = []
        self._keys: list[Key] = []
        """What it has attached, or is about to."""
        self._left = False
        self.thread = threading.Thread(target=self._run, name="penstock-attached", daemon=True)
        self.thread.start()

    def end(self, reason: str) -> None:
        """Says that it is over, and why."""
        with suppress(OSError):
            self._say({"end": reason})
        self._line.hang_up()

    def _run(self) -> None:
        reason = "it has left"
        try:
            while True:
                if (heard := messages.hear(self._line)) is not None:
                    self._carry_out(*heard)
        except EOFError:
            pass
        except Exception as error:
            reason = f"it said what is no message of Penstock's ({type(error).__name__})"
        finally:
            self._leave(reason)

    def _carry_out(self, head: dict[str, Any], parts: list[bytes], channels: list[_core.Channel]) -> None:
        if head.get("do") == "attach":
            with self._table.lock:
                self._channels += channels
            # Whoever builds its instances for ever, or dies over it, is heard of meanwhile.
            work = (head, parts, channels)
            threading.Thread(target=self._attach, args=work, name="penstock-attaching", daemon=True).start()
        elif head.get("do") in ("withdraw", "detach"):
            if names := self._withdraw():
                _log.info("models are detached by their process: %s", names)
            if head["do"] == "detach":
                self._say({"do": "end"})
        else:
            raise ValueError("it asks for what there is not")

    def _attach(self, head: dict[str, Any], parts: list[bytes], channels: list[_core.Channel]) -> None:
        try:
            self._bring(head, parts, channels)
        except BaseException as error:
            if not isinstance(error, PenstockError):
                _log.exception("models could not be attached")
            for channel in channels:
                channel.hang_up()
            answer = messages.refusal(error)
        else:
            answer = {"do": "serve"}
        with suppress(OSError):
            self._say(answer)

    def _bring(self, head: dict[str, Any], parts: list[bytes], channels: list[_core.Channel]) -> None:
        definitions = _definitions(head, parts, channels)
        keys = [(one.name, one.version) for one in definitions]
        self._table.reserve(keys)
        try:
            # Nothing is built there before its name is free.
            self._say({"do": "build"})
            ready = [(key, self._table.models.prepare(one)) for key, one in zip(keys, definitions, strict=True)]
            with self._table.lock:
                if self._left:
                    raise Unavailable("the process that attaches it is gone")
                self._table.models.check_routes([model for _, model in ready], [])
                self._table.publish(ready)
                self._keys += keys
        except LoadError as error:
            self._table.release(keys)
            # Its process knows more of what it raised.
            raise LoadError(str(error)) from None
        except BaseException:
            self._table.release(keys)
            raise
        _log.info("models are attached by another process: %s", _named(keys))

    def _withdraw(self) -> str:
        """Takes its models away, which finish what they have."""
        with self._table.lock:
            keys, self._keys = self._keys, []
            self._table.withdraw(keys)
        return _named(keys)

    def _leave(self, reason: str) -> None:
        with self._table.lock:
            self._left = True
            lost = bool(self._keys)
        names = self._withdraw()
        # What they compute now fails, if they have not ended by themselves.
        for channel in self._channels:
            channel.hang_up()
        self._line.hang_up()
        if lost and not self._table.models.closed:
            _log.warning("the process that attached models is gone (%s): %s", reason, names)
        self._table.guests.discard(self)

    def _say(self, head: Mapping[str, str]) -> None:
        with self._says:
            messages.say(self._line, head)


def _definitions(head: dict[str, Any], parts: list[bytes], channels: list[_core.Channel]) -> list[Definition]:
    from penstock import _core

    if (theirs := head.get("penstock")) != _core.version:
        raise InvalidInput(
            f"the server runs Penstock {_core.version}, this process Penstock {theirs}: both must be the same"
        )
    if not isinstance(models := head.get("models"), list):
        raise InvalidInput("no models are described")
    left = list(channels)
    found = []
    for one in models:
        count = one.get("instances") if isinstance(one, dict) else None
        if not isinstance(count, int) or not 1 <= count <= len(left):
            raise InvalidInput("a model is described that has no channels for its instances")
        own, left = left[:count], left[count:]
        found.append(definition_json.from_json(one, parts, Channels(own)))
    return found


def _named(keys: list[Key]) -> str:
    return ", ".join(f"'{name}' version '{version}'" for name, version in keys)
