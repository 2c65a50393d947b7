"""`FuturesModelClient`: calls that return futures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from penstock.compat.pytriton.client._in_flight_window import InFlightWindow
from penstock.compat.pytriton.client._inputs import Values
from penstock.compat.pytriton.client._response_future import InferArguments, ResponseFuture, SubmittingClient
from penstock.compat.pytriton.model_config.triton_model_config import TritonModelConfig

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FuturesModelClient"]

_MAX_IN_FLIGHT = 1000
"""Default limit of requests in flight: over HTTP each one needs a connection."""


class FuturesModelClient:
    """A client of one model whose calls return futures of the results of `ModelClient`'s calls.

    One thread of the process handles the responses of all requests.

    Args:
        url: As for `ModelClient`. An invalid URL is reported by the futures.
        model_name: Name of the model.
        model_version: Version of the model; None means the latest.
        max_workers: Maximum requests in flight; None means 1000.
        max_queue_size: Maximum waiting requests; None means no limit.
        non_blocking: Raise an error at once if the queue is full. Otherwise a call waits for room, up to
            `inference_timeout_s` if that is given.
        init_timeout_s: Timeout until the server and the model are ready; 300 s by default.
        inference_timeout_s: Timeout of one inference; 60 s by default.
        access_token: As for `ModelClient`.

    Raises:
        ValueError: a limit is not positive.

    Example:
        >>> with FuturesModelClient("localhost", "add") as client:
        ...     futures = [client.infer_sample(a, b) for a, b in pairs]
        ...     totals = [future.result()["sum"] for future in futures]
    """

    def __init__(
        self,
        url: str,
        model_name: str,
        model_version: str | None = None,
        *,
        max_workers: int | None = 128,
        max_queue_size: int | None = 128,
        non_blocking: bool = False,
        init_timeout_s: float | None = None,
        inference_timeout_s: float | None = None,
        access_token: str | None = None,
    ) -> None:
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if max_queue_size is not None and max_queue_size <= 0:
            raise ValueError("max_queue_size must be greater than 0")
        self._model = (url, model_name, model_version)
        self._options: dict[str, Any] = {
            "init_timeout_s": init_timeout_s,
            "inference_timeout_s": inference_timeout_s,
            "access_token": access_token,
        }
        max_requests = None if max_workers is None or max_queue_size is None else max_workers + max_queue_size
        self._window: InFlightWindow[ResponseFuture] = InFlightWindow(max_workers or _MAX_IN_FLIGHT, max_requests)
        self._enter_timeout_s = 0.0 if non_blocking else inference_timeout_s
        self._lock = threading.Lock()
        self._client: SubmittingClient | None = None
        self._init_thread: threading.Thread | None = None

    def infer_sample(
        self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any
    ) -> Future[dict[str, Any]]:
        """Runs one sample; see `ModelClient.infer_sample`. The future raises its errors.

        Raises:
            PyTritonClientClosedError: the client is closed.
            PyTritonClientQueueFullError: the queue is full.
        """
        return self._execute(InferArguments(inputs, named_inputs, parameters, headers, True))

    def infer_batch(
        self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any
    ) -> Future[dict[str, Any]]:
        """Runs a batch; see `ModelClient.infer_batch`. The future raises its errors.

        Raises:
            PyTritonClientClosedError: the client is closed.
            PyTritonClientQueueFullError: the queue is full.
        """
        return self._execute(InferArguments(inputs, named_inputs, parameters, headers, False))

    def wait_for_model(self, timeout_s: float) -> Future[None]:
        """Returns a future that is done when the server and the model are ready. Its result is None."""
        return self._call_in_thread(lambda client: client.wait_for_model(timeout_s))

    def model_config(self) -> Future[TritonModelConfig]:
        """Returns a future of the model's configuration, which is requested once."""
        self._window.check_open()
        client = self._client
        if client is None or not client.is_ready:
            return self._call_in_thread(lambda client: client.model_config)
        done: Future[TritonModelConfig] = Future()
        done.set_result(client.model_config)
        return done

    def close(self, wait: bool = True) -> None:
        """Rejects further calls. Earlier calls finish.

        Args:
            wait: Wait for the earlier calls.
        """
        self._window.close(wait)
        self._close_if_drained()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _execute(self, arguments: InferArguments) -> ResponseFuture:
        future = ResponseFuture(arguments, self._window, self._submit_waiting)
        self._window.add(future, self._enter_timeout_s)
        self._submit_waiting()
        return future

    def _submit_waiting(self) -> None:
        """Submits waiting requests, as long as the window has room."""
        while self._window.has_next():
            client = self._client
            if client is None or not client.is_ready:
                self._start_init()
                return
            future = self._window.take_next()
            if future is not None:
                future.submit(client)
        self._close_if_drained()

    def _start_init(self) -> None:
        with self._lock:
            if self._init_thread is None:
                self._init_thread = threading.Thread(target=self._init_client, name="penstock-futures", daemon=True)
                self._init_thread.start()

    def _init_client(self) -> None:
        """Waits for the model on a separate thread, because calls of this class do not block on it."""
        try:
            self._get_client().wait_until_ready()
        except Exception as error:
            with self._lock:
                self._init_thread = None
            for future in self._window.take_waiting():
                future.fail(error)
        self._submit_waiting()

    def _get_client(self) -> SubmittingClient:
        with self._lock:
            if self._client is None:
                self._client = SubmittingClient(*self._model, **self._options)
            return self._client

    def _call_in_thread(self, call: Callable[[SubmittingClient], Any]) -> Future[Any]:
        """Runs a call on a new thread. Returns its future."""
        future: Future[Any] = Future()
        self._window.add_in_flight(future)

        def run() -> None:
            try:
                outcome, error = call(self._get_client()), None
            except Exception as raised:
                outcome, error = None, raised
            self._window.remove(future)
            if future.set_running_or_notify_cancel():
                if error is None:
                    future.set_result(outcome)
                else:
                    future.set_exception(error)
            self._window.notify_done()
            self._submit_waiting()

        threading.Thread(target=run, name="penstock-futures-call", daemon=True).start()
        return future

    def _close_if_drained(self) -> None:
        if self._window.is_drained():
            with self._lock:
                client, self._client = self._client, None
            if client is not None:
                client.close()
