"""`attach`: serves models of this process behind a server that runs in another one on the same machine."""

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
    from types import TracebackType

    from typing_extensions import Self

    from penstock import _core
    from penstock._model.model import Model

__all__ = ["Attached", "attach"]

_log = logging.getLogger("penstock.attach")

_LOOKS_EVERY = 0.05
"""Seconds between two looks at whether a server is there."""

_TOLD_WITHIN = 1.0
"""Seconds in which a server that has hung up says why, or is seen to be gone."""

_END_WITHIN = 5.0
"""Seconds that what is under way has when the interpreter ends."""


def attach(address: str, *models: Model[..., Any] | Any, timeout: float = 30.0) -> Attached:
    """Serves models of this process behind a server of the same machine and user.

    To the server's clients they are models like any other; their handlers run here, on threads. The server
    must have been started with the setting `attach`.

    Args:
        address: Where it is: `unix:/path` as in its setting, or with `attach="auto"` the address of its HTTP or
            gRPC port, as clients are given it.
        models: What to serve, as `Server` takes it; more can be added later.
        timeout: How many seconds to wait for the server to be there. Models load for as long as they need.

    Returns:
        What has been attached, when all of it is ready: a context manager that detaches on exit.

    Raises:
        Unavailable: no server is there, or it stops.
        AlreadyExists: a model of that name and version is served already.
        LoadError: a model failed while it was built; `__cause__` is its own exception.
        SignatureError: a model cannot be attached as it is declared.
        ConfigError: the address is none of this machine.

    Example:
        >>> with attach("http://localhost:8000", double) as attached:
        ...     attached.wait()
    """
    attached = Attached(_line(address, timeout))
    try:
        if models:
            attached.add(*models)
    except BaseException:
        attached.detach(0.0)
        raise
    return attached


class Attached:
    """Models of this process that a server in another one serves. Made by `attach`."""

    def __init__(self, line: _core.Line) -> None:
        self._line = line
        self._asks = threading.Lock()
        self._answers: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._workers = Workers()
        self._names: list[tuple[str, str]] = []
        self._over = threading.Event()
        self._reason: str | None = None
        threading.Thread(target=self._listen, name="penstock-line", daemon=True).start()
        at_exit.watch(self)

    @property
    def alive(self) -> bool:
        """Whether the server still serves them."""
        return not self._over.is_set()

    @property
    def reason(self) -> str | None:
        """Why it has ended; None while it has not."""
        return self._reason

    @property
    def models(self) -> list[tuple[str, str]]:
        """Name and version of each model that was attached."""
        return list(self._names)

    def add(self, *models: Model[..., Any] | Any) -> None:
        """Attaches more models: all of them, or none. Returns when they are ready.

        Raises:
            PenstockError: as `attach`.
        """
        from penstock import _core

        definitions = attachable(models)
        parts: list[bytes] = []
        found = [definition_json.to_json(one, parts) for one in definitions]
        names = [(one.name, one.version) for one in definitions]
        with self._asks:
            pairs = [(one, _core.Channel.pair()) for one in definitions for _ in range(one.instances)]
            asked = {"do": "attach", "penstock": _core.version, "models": found}
            self._say(asked, parts, [theirs for _, (theirs, _) in pairs])
            self._answer()
            # The names are free: it is worth while to load.
            started = self._workers.start([(one, ours) for one, (_, ours) in pairs], self._lost)
            try:
                self._answer()
            except LoadError as error:
                raise error from started.failure()
            self._names += names

    def detach(self, timeout: float | None = 30.0) -> bool:
        """Takes all models back: no new request finds them, and those under way are finished.

        Args:
            timeout: Seconds until what still runs is cut off; None for as long as it needs.

        Returns:
            Whether all of it has ended well. A second call does nothing.
        """
        if self.alive:
            # A server that goes meanwhile is as good.
            with contextlib.suppress(PenstockError), self._asks:
                self._say({"do": "detach"})
                self._answer()
        ended = self._workers.join(timeout)
        self._end("it was detached")
        return ended

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until the server has stopped, or it was detached; at most `timeout` seconds. Whether it is over."""
        until = None if timeout is None else time.monotonic() + timeout
        if not self._over.wait(timeout):
            return False
        return self._workers.join(None if until is None else max(0.0, until - time.monotonic()))

    def stop(self, timeout: float | None = None) -> list[str]:
        """Detaches when the interpreter ends, within a few seconds, whatever the timeout. What is cut off."""
        del timeout
        return [] if self.detach(_END_WITHIN) else self.stuck()

    def stuck(self) -> list[str]:
        """The models whose handlers have not returned."""
        return self._workers.stuck()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    def _say(self, head: dict[str, Any], parts: list[bytes] | None = None, channels: Any = ()) -> None:
        if not self.alive:
            raise Unavailable(f"nothing can be attached any more: {self._reason}")
        try:
            messages.say(self._line, head, parts or [], channels)
        except OSError as error:
            raise Unavailable(f"the server does not listen any more: {error}") from None

    def _answer(self) -> None:
        if "error" in (answer := self._answers.get()):
            raise messages.refused(answer)

    def _listen(self) -> None:
        reason = "the server is gone"
        try:
            while True:
                if (heard := messages.hear(self._line)) is None:
                    continue
                head = heard[0]
                if "end" in head:
                    reason = str(head["end"])
                    break
                self._answers.put(head)
        except (EOFError, OSError, ValueError):
            pass
        finally:
            self._end(reason)

    def _lost(self, model: str, error: BaseException | None) -> None:
        """An instance is lost. Its model would serve with fewer, or none, so all is given up."""
        # Of a server that is gone, the line tells as well.
        if not self._over.wait(_TOLD_WITHIN):
            reason = "the server has hung up on an instance of"
            if error is not None and not isinstance(error, OSError):
                _log.error("model '%s': an instance has ended", model, exc_info=error)
                reason = f"{type(error).__name__} has ended an instance of"
            self._end(f"{reason} model '{model}'")

    def _end(self, reason: str) -> None:
        if self._reason is None:
            self._reason = reason
        self._line.hang_up()
        self._over.set()
        # Whoever waits for an answer gets none.
        self._answers.put(messages.refusal(Unavailable(self._reason)))


def _line(address: str, timeout: float) -> _core.Line:
    from penstock import _core

    until = time.monotonic() + timeout
    while True:
        problem = "no server is there that was started with attach"
        for path in socket_path.candidates(address):
            try:
                line = _core.Line.connect(path)
            except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
                continue
            except OSError as error:
                problem = f"it cannot be reached: {error}"
                continue
            if socket_path.check_partner(line):
                return line
            problem = "the server there is of another user"
        if time.monotonic() >= until:
            raise Unavailable(f"attach: {address}: {problem}")
        time.sleep(_LOOKS_EVERY)
