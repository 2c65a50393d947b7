"""`ResponseFuture`: the future of one inference of a `FuturesModelClient`, and the client that submits it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client import Pending
from penstock.compat.pytriton.client._base import without_batch_axis
from penstock.compat.pytriton.client._inputs import Values
from penstock.compat.pytriton.client._sync import ModelClient
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.compat.pytriton.client._in_flight_window import InFlightWindow

__all__ = ["InferArguments", "ResponseFuture", "SubmittingClient"]


class InferArguments(NamedTuple):
    """Arguments of one inference."""

    inputs: tuple[Any, ...]
    named: dict[str, Any]
    parameters: Values
    headers: Values
    is_sample: bool


class SubmittingClient(ModelClient):
    """A `ModelClient` that submits inferences without waiting for their responses."""

    @property
    def is_ready(self) -> bool:
        """True if the model is ready and its configuration is known."""
        return self._model_ready

    def wait_until_ready(self) -> None:
        """Waits until the model is ready."""
        self._wait_and_init_model_config(self._init_timeout_s)

    def submit(self, arguments: InferArguments, into: ResponseFuture) -> None:
        """Submits an inference, which settles the future `into`."""
        inputs, named, parameters, headers, is_sample = arguments
        config = self._checked_config(inputs, named, parameters, headers, is_sample=is_sample)
        into.is_sample_of_batch = is_sample and config.max_batch_size > 0
        tensors, options = self._coupled_arguments(config, inputs or named, is_sample, parameters, headers)
        self._open().submit(self._model_name, tensors, into=into, **options)

    def translate(self, error: BaseException) -> BaseException:
        """Returns the exception to raise instead of the native client's."""
        if not isinstance(error, PenstockError):
            return error
        client = self._client
        raised = self._error_texts().translate(error, client is None or client.closed)
        raised.__cause__ = error
        return raised


class ResponseFuture(Pending["dict[str, Any]"]):
    """Future of an inference's outputs by name.

    Args:
        arguments: Arguments of the inference.
        window: Window that counts the request.
        submit_next: Called after the request has left the window.
    """

    def __init__(
        self, arguments: InferArguments, window: InFlightWindow[ResponseFuture], submit_next: Callable[[], None]
    ) -> None:
        super().__init__()
        self.is_sample_of_batch = False
        self._arguments: InferArguments | None = arguments
        self._window, self._submit_next = window, submit_next
        self._client: SubmittingClient | None = None

    def submit(self, client: SubmittingClient) -> None:
        """Submits the inference, unless the future is cancelled."""
        arguments, self._arguments, self._client = self._arguments, None, client
        try:
            if arguments is not None and not self.cancelled():
                client.submit(arguments, self)
                return
        except Exception as error:
            if self.set_running_or_notify_cancel():
                self._settle(super().set_exception, client.translate(error))
                return
        self._settle(None)

    def fail(self, error: Exception) -> None:
        """Fails a request that was waiting in the window."""
        if self.set_running_or_notify_cancel():
            super().set_exception(error)
        self._window.notify_done()

    def cancel(self) -> bool:
        """Cancels the inference. Returns False if the future is done."""
        if not super().cancel():
            return False
        # A waiting request stays in the window until its turn comes.
        self._settle(None)
        self._submit_next()
        return True

    def set_result(self, result: Any) -> None:
        """Called by the native client with its result. The future's result is the outputs of it."""
        try:
            outputs = without_batch_axis(dict(result)) if self.is_sample_of_batch else dict(result)
        except Exception as error:
            self._settle(super().set_exception, error)
        else:
            self._settle(super().set_result, outputs)
        self._submit_next()

    def set_exception(self, exception: BaseException | None) -> None:
        """Called by the native client with its error. The future's error is PyTriton's."""
        if exception is not None and self._client is not None:
            exception = self._client.translate(exception)
        self._settle(super().set_exception, exception)
        self._submit_next()

    def _settle(self, settle: Callable[[Any], None] | None, outcome: Any = None) -> None:
        was_in_flight = self._window.remove(self)
        if settle is not None:
            settle(outcome)
        if was_in_flight:
            self._window.notify_done()
