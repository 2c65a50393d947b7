"""Server side of one attaching process: its messages, its models, and cleanup when it disconnects."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock._attach import definition_json, messages
from penstock._attach.table import AttachedModels, Key
from penstock._spec.placement import Channels
from penstock.errors import InvalidInput, LoadError, PenstockError, Unavailable

if TYPE_CHECKING:
    from penstock import _core
    from penstock._spec.definition import Definition

__all__ = ["Session"]

_log = logging.getLogger("penstock.attach")


class Session:
    """Serves one process until it disconnects, on a separate thread.

    Args:
        connection: The connection to the process.
        table: The attached models of all sessions.
        sessions: All sessions that are connected; this one is in it until it disconnects.
    """

    def __init__(self, connection: _core.ControlChannel, table: AttachedModels, sessions: set[Session]) -> None:
        self._connection, self._table, self._sessions = connection, table, sessions
        self._send_lock = threading.Lock()
        self._channels: list[_core.InstanceChannel] = []
        self._keys: list[Key] = []
        """Models that it has attached, or that are being attached."""
        self._disconnected = False
        self.thread = threading.Thread(target=self._run, name="penstock-attached", daemon=True)
        self.thread.start()

    def end(self, reason: str) -> None:
        """Reports the reason to the process, and closes the connection."""
        with suppress(OSError):
            self._send({"end": reason})
        self._connection.close()

    def _run(self) -> None:
        self._sessions.add(self)
        reason = "it has left"
        try:
            while True:
                if (received := messages.receive(self._connection)) is not None:
                    self._carry_out(*received)
        except EOFError:
            pass
        except Exception as error:
            reason = f"it sent an invalid message ({type(error).__name__})"
        finally:
            self._disconnect(reason)

    def _carry_out(self, message: dict[str, Any], parts: list[bytes], channels: list[_core.InstanceChannel]) -> None:
        command = message.get("do")
        if command == "attach":
            with self._table.lock:
                self._channels += channels
            # On a separate thread: this one must notice when the process dies or hangs while it builds instances.
            arguments = (message, parts, channels)
            threading.Thread(target=self._attach, args=arguments, name="penstock-attaching", daemon=True).start()
        elif command in ("withdraw", "detach"):
            if names := self._withdraw():
                _log.info("models are detached by their process: %s", names)
            if command == "detach":
                self._send({"do": "end"})
        else:
            raise ValueError(f"unknown command {command!r}")

    def _attach(self, message: dict[str, Any], parts: list[bytes], channels: list[_core.InstanceChannel]) -> None:
        try:
            self._publish(message, parts, channels)
        except BaseException as error:
            if not isinstance(error, PenstockError):
                _log.exception("models could not be attached")
            for channel in channels:
                channel.close()
            response = messages.error_message(error)
        else:
            response = {"do": "serve"}
        with suppress(OSError):
            self._send(response)

    def _publish(self, message: dict[str, Any], parts: list[bytes], channels: list[_core.InstanceChannel]) -> None:
        definitions = _read_definitions(message, parts, channels)
        keys = [(definition.name, definition.version) for definition in definitions]
        self._table.reserve(keys)
        try:
            # The process builds instances only once the names are reserved.
            self._send({"do": "build"})
            models = self._table.models
            ready = [(key, models.prepare(definition)) for key, definition in zip(keys, definitions, strict=True)]
            with self._table.lock:
                if self._disconnected:
                    raise Unavailable("the process that attaches it is gone")
                models.check_routes([model for _, model in ready], [])
                self._table.publish(ready)
                self._keys += keys
        except LoadError as error:
            self._table.release(keys)
            # Without the cause: the process itself has the traceback.
            raise LoadError(str(error)) from None
        except BaseException:
            self._table.release(keys)
            raise
        _log.info("models are attached by another process: %s", _shown(keys))

    def _withdraw(self) -> str:
        """Withdraws the process's models; they finish the requests that they have. Returns their names."""
        with self._table.lock:
            keys, self._keys = self._keys, []
            self._table.withdraw(keys)
        return _shown(keys)

    def _disconnect(self, reason: str) -> None:
        with self._table.lock:
            self._disconnected = True
            lost = bool(self._keys)
        names = self._withdraw()
        # Batches that have not finished fail now.
        for channel in self._channels:
            channel.close()
        self._connection.close()
        if lost and not self._table.models.closed:
            _log.warning("the process that attached models is gone (%s): %s", reason, names)
        self._sessions.discard(self)

    def _send(self, message: Mapping[str, str]) -> None:
        with self._send_lock:
            messages.send(self._connection, message)


def _read_definitions(
    message: dict[str, Any], parts: list[bytes], channels: list[_core.InstanceChannel]
) -> list[Definition]:
    from penstock import _core

    if (version := message.get("penstock")) != _core.version:
        raise InvalidInput(
            f"the server runs Penstock {_core.version}, this process Penstock {version}: both must be the same"
        )
    if not isinstance(models := message.get("models"), list):
        raise InvalidInput("invalid message: got no list of models")
    remaining = list(channels)
    definitions = []
    for model in models:
        count = model.get("instances") if isinstance(model, dict) else None
        if not isinstance(count, int) or not 1 <= count <= len(remaining):
            raise InvalidInput(f"invalid model description: {count!r} instances, {len(remaining)} channels")
        own, remaining = remaining[:count], remaining[count:]
        definitions.append(definition_json.from_json(model, parts, Channels(own)))
    return definitions


def _shown(keys: list[Key]) -> str:
    return ", ".join(f"'{name}' version '{version}'" for name, version in keys)
