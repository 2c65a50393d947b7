"""`attach`: serves models of this process behind a server that runs in another process of the same machine."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from penstock._attach import definition_json, messages, socket_path
from penstock._attach.workers import Workers, attachable
from penstock._runtime import at_exit
from penstock.errors import LoadError, PenstockError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from penstock import _core
    from penstock._model.model import Model

__all__ = ["Attached", "attach"]

_log = logging.getLogger("penstock.attach")

_CONNECT_INTERVAL = 0.05
"""Seconds between two attempts to connect."""

_END_TIMEOUT = 1.0
"""Seconds in which a server that closes a channel also reports the end of the connection."""

_EXIT_TIMEOUT = 5.0
"""Seconds that requests have to finish when the interpreter ends."""


def attach(
    address: str,
    *models: Model[..., Any] | Any,
    timeout: float = 30.0,
    on_wait: Callable[[str], object] | None = None,
) -> Attached:
    """Serves models of this process behind a server of the same machine and user.

    To the server's clients they are models like any other; their handlers run here, on threads. The server
    must have been started with the setting `attach`.

    Args:
        address: `unix:/path` as in the server's setting, or with `attach="auto"` the server's HTTP or gRPC address.
        models: The models, as `Server` takes them; more can be added later.
        timeout: Seconds to wait for the server. Loading the models is not limited.
        on_wait: Called once with the reason, if the server is not there at once.

    Returns:
        The attached models, once all of them are ready: a context manager that detaches on exit.

    Raises:
        Unavailable: no server listens there, or it stops.
        AlreadyExists: a model of that name and version is served already.
        LoadError: a model failed while it was built; `__cause__` is its own exception.
        SignatureError: a model cannot be attached as it is declared.
        ConfigError: not an address of this machine.

    Example:
        >>> with attach("http://localhost:8000", double) as attached:
        ...     attached.wait()
    """
    attached = Attached(_connect(address, timeout, on_wait))
    try:
        if models:
            attached.add(*models)
    except BaseException:
        attached.detach(0.0)
        raise
    return attached


class Attached:
    """Models of this process that a server in another process serves. Created by `attach`."""

    def __init__(self, connection: _core.ControlChannel) -> None:
        self._connection = connection
        self._request_lock = threading.Lock()
        self._responses: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._workers = Workers()
        self._names: list[tuple[str, str]] = []
        self._ended = threading.Event()
        self._reason: str | None = None
        threading.Thread(target=self._read_messages, name="penstock-attached", daemon=True).start()
        at_exit.watch(self)

    @property
    def alive(self) -> bool:
        """True if the server still serves the models."""
        return not self._ended.is_set()

    @property
    def reason(self) -> str | None:
        """The reason for the end; None while the models are served."""
        return self._reason

    @property
    def models(self) -> list[tuple[str, str]]:
        """Name and version of each attached model."""
        return list(self._names)

    def add(self, *models: Model[..., Any] | Any) -> None:
        """Attaches more models: all of them, or none. Returns when they are ready.

        Raises:
            PenstockError: as `attach`.
        """
        from penstock import _core

        definitions = attachable(models)
        parts: list[bytes] = []
        descriptions = [definition_json.to_json(definition, parts) for definition in definitions]
        with self._request_lock:
            # For each instance the server's end of a channel, and the end of this process.
            channels = [
                (definition, *_core.InstanceChannel.pair())
                for definition in definitions
                for _ in range(definition.instances)
            ]
            message = {"do": "attach", "penstock": _core.version, "models": descriptions}
            self._send(message, parts, [server_end for _, server_end, _ in channels])
            self._await_response()
            # The names are reserved now, so instances are not built in vain.
            group = self._workers.start([(definition, own_end) for definition, _, own_end in channels], self._lost)
            try:
                self._await_response()
            except LoadError as error:
                raise error from group.failure()
            self._names += [(definition.name, definition.version) for definition in definitions]

    def detach(self, timeout: float | None = 30.0) -> bool:
        """Withdraws all models: new requests do not reach them, and those under way are finished.

        Args:
            timeout: Seconds until requests that still run are cut off; None for no limit.

        Returns:
            Whether all requests have finished. A second call does nothing.
        """
        if self.alive:
            # If the server stops meanwhile, the models are withdrawn too.
            with contextlib.suppress(PenstockError), self._request_lock:
                self._send({"do": "detach"})
                self._await_response()
        ended = self._workers.join(timeout)
        self._end("it was detached")
        return ended

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until the server has stopped or the models are detached.

        Returns:
            False if neither happened within `timeout` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        if not self._ended.wait(timeout):
            return False
        return self._workers.join(None if until is None else max(0.0, until - time.monotonic()))

    def stop(self, timeout: float | None = None) -> list[str]:
        """Detaches at interpreter exit, within 5 seconds. Ignores `timeout`. Returns the models that were cut off."""
        del timeout
        return [] if self.detach(_EXIT_TIMEOUT) else self.stuck()

    def stuck(self) -> list[str]:
        """The models whose handlers have not returned."""
        return self._workers.stuck()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    def _send(self, message: dict[str, Any], parts: list[bytes] | None = None, channels: Any = ()) -> None:
        if not self.alive:
            raise Unavailable(f"nothing can be attached any more: {self._reason}")
        try:
            messages.send(self._connection, message, parts or [], channels)
        except OSError as error:
            raise Unavailable(f"the server does not listen any more: {error}") from None

    def _await_response(self) -> None:
        if "error" in (response := self._responses.get()):
            raise messages.error_from_message(response)

    def _read_messages(self) -> None:
        reason = "the server is gone"
        try:
            while True:
                if (received := messages.receive(self._connection)) is None:
                    continue
                message = received[0]
                if "end" in message:
                    reason = str(message["end"])
                    break
                self._responses.put(message)
        except (EOFError, OSError, ValueError):
            pass
        finally:
            self._end(reason)

    def _lost(self, model: str, error: BaseException | None) -> None:
        """Detaches everything after the loss of an instance: its model would serve with fewer instances, or none."""
        # If the server is gone, the connection reports the better reason.
        if not self._ended.wait(_END_TIMEOUT):
            reason = "the server has hung up on an instance of"
            if error is not None and not isinstance(error, OSError):
                _log.error("model '%s': an instance has ended", model, exc_info=error)
                reason = f"{type(error).__name__} has ended an instance of"
            self._end(f"{reason} model '{model}'")

    def _end(self, reason: str) -> None:
        if self._reason is None:
            self._reason = reason
        self._connection.close()
        self._ended.set()
        # Wakes a thread that waits for a response.
        self._responses.put(messages.error_message(Unavailable(self._reason)))


def _connect(address: str, timeout: float, on_wait: Callable[[str], object] | None) -> _core.ControlChannel:
    from penstock import _core

    until = time.monotonic() + timeout
    while True:
        problem = "no server is there that was started with attach"
        for path in socket_path.candidates(address):
            try:
                connection = _core.ControlChannel.connect(path)
            except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
                continue
            except OSError as error:
                problem = f"it cannot be reached: {error}"
                continue
            if socket_path.check_peer(connection):
                return connection
            problem = "the server there is of another user"
        if time.monotonic() >= until:
            raise Unavailable(f"attach: {address}: {problem}")
        if on_wait is not None:
            on_wait(problem)
            on_wait = None
        time.sleep(_CONNECT_INTERVAL)
