"""The future of one inference of a `FuturesModelClient`, and the client that begins it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client import Pending
from penstock.compat.pytriton.client._base import without_batch_axis
from penstock.compat.pytriton.client._inputs import Values
from penstock.compat.pytriton.client._sync import ModelClient
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.compat.pytriton.client._in_flight_window import Window

__all__ = ["Answer", "Asked", "BeginningClient"]


class Asked(NamedTuple):
    """What a caller asked for."""

    inputs: tuple[Any, ...]
    named: dict[str, Any]
    parameters: Values
    headers: Values
    is_sample: bool


class BeginningClient(ModelClient):
    """A `ModelClient` whose inferences only begin."""

    @property
    def is_ready(self) -> bool:
        """Whether all is known of the model that an inference needs."""
        return self._model_ready

    def get_ready(self) -> None:
        """Waits until it is."""
        self._wait_and_init_model_config(self._init_timeout_s)

    def begin(self, asked: Asked, into: Answer) -> None:
        """Begins an inference, whose outcome goes into a future."""
        inputs, named, parameters, headers, is_sample = asked
        config = self._checked(inputs, named, parameters, headers, is_sample=is_sample)
        into.is_stripped = is_sample and config.max_batch_size > 0
        given, more = self._coupled_call(config, inputs or named, is_sample, parameters, headers)
        self._open().submit(self._model_name, given, into=into, **more)

    def translated(self, error: BaseException) -> BaseException:
        """The exception to raise instead of the native client's."""
        if not isinstance(error, PenstockError):
            return error
        client = self._client
        raised = self._texts().of(error, client is None or client.closed)
        raised.__cause__ = error
        return raised


class Answer(Pending["dict[str, Any]"]):
    """A future of outputs by name.

    Args:
        asked: What is to be answered.
        window: Where it is counted.
        go_on: Called when it no longer is.
    """

    def __init__(self, asked: Asked, window: Window[Answer], go_on: Callable[[], None]) -> None:
        super().__init__()
        self.is_stripped = False
        self._asked: Asked | None = asked
        self._window, self._go_on = window, go_on
        self._client: BeginningClient | None = None

    def begin(self, client: BeginningClient) -> None:
        """Begins the inference, if it is still wanted."""
        asked, self._asked, self._client = self._asked, None, client
        try:
            if asked is not None and not self.cancelled():
                client.begin(asked, self)
                return
        except Exception as error:
            if self.set_running_or_notify_cancel():
                self._leave(super().set_exception, client.translated(error))
                return
        self._leave(None)

    def give_up(self, error: Exception) -> None:
        """Fails what the window has given up."""
        if self.set_running_or_notify_cancel():
            super().set_exception(error)
        self._window.settled()

    def cancel(self) -> bool:
        """Gives the inference up; False if its outcome is there already."""
        if not super().cancel():
            return False
        # One that waits for its turn is counted until then.
        self._leave(None)
        self._go_on()
        return True

    def set_result(self, result: Any) -> None:
        """For the native client: its result, of which this is the outputs."""
        try:
            outputs = without_batch_axis(dict(result)) if self.is_stripped else dict(result)
        except Exception as error:
            self._leave(super().set_exception, error)
        else:
            self._leave(super().set_result, outputs)
        self._go_on()

    def set_exception(self, exception: BaseException | None) -> None:
        """For the native client: its error, of which this is PyTriton's."""
        if exception is not None and self._client is not None:
            exception = self._client.translated(exception)
        self._leave(super().set_exception, exception)
        self._go_on()

    def _leave(self, settle: Callable[[Any], None] | None, outcome: Any = None) -> None:
        counted = self._window.leave(self)
        if settle is not None:
            settle(outcome)
        if counted:
            self._window.settled()
