"""`FuturesModelClient`: calls whose answers are futures."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from penstock.compat.pytriton.client._in_flight_window import Window
from penstock.compat.pytriton.client._inputs import Values
from penstock.compat.pytriton.client._response_future import Answer, Asked, BeginningClient
from penstock.compat.pytriton.model_config.triton_model_config import TritonModelConfig

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["FuturesModelClient"]

_MOST_UNDER_WAY = 1000
"""Where the caller sets no bound: over HTTP each request under way needs a connection."""


class FuturesModelClient:
    """A client of one model whose calls do not wait: they give futures of what `ModelClient`'s calls give.

    No thread waits for a single request: one thread of the process serves all of them.

    Args:
        url: As for `ModelClient`. One that cannot be used is told of by the futures.
        model_name: The model.
        model_version: Its version; None is the latest.
        max_workers: The most requests that are under way at once; None is 1000.
        max_queue_size: The most requests that wait for their turn beside these; None is no limit.
        non_blocking: Whether a call is refused when there is no room; otherwise it waits for room as long
            as `inference_timeout_s`, if that is given.
        init_timeout_s: How long to wait for the server and the model to be ready; 300 s by default.
        inference_timeout_s: How long one inference may take; 60 s by default.
        access_token: As for `ModelClient`.

    Raises:
        ValueError: a bound is not positive.

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
        self._of_model = (url, model_name, model_version)
        self._options: dict[str, Any] = {
            "init_timeout_s": init_timeout_s,
            "inference_timeout_s": inference_timeout_s,
            "access_token": access_token,
        }
        most = None if max_workers is None or max_queue_size is None else max_workers + max_queue_size
        self._window: Window[Answer] = Window(max_workers or _MOST_UNDER_WAY, most)
        self._patience_s = 0.0 if non_blocking else inference_timeout_s
        self._lock = threading.Lock()
        self._client: BeginningClient | None = None
        self._starter: threading.Thread | None = None

    def infer_sample(
        self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any
    ) -> Future[dict[str, Any]]:
        """Runs one sample; see `ModelClient.infer_sample`, whose errors are the future's.

        Raises:
            PyTritonClientClosedError: the client is closed.
            PyTritonClientQueueFullError: there are as many requests as there may be.
        """
        return self._execute(Asked(inputs, named_inputs, parameters, headers, True))

    def infer_batch(
        self, *inputs: Any, parameters: Values = None, headers: Values = None, **named_inputs: Any
    ) -> Future[dict[str, Any]]:
        """Runs a batch; see `ModelClient.infer_batch`, whose errors are the future's.

        Raises:
            PyTritonClientClosedError: the client is closed.
            PyTritonClientQueueFullError: there are as many requests as there may be.
        """
        return self._execute(Asked(inputs, named_inputs, parameters, headers, False))

    def wait_for_model(self, timeout_s: float) -> Future[None]:
        """A future that is done, with None, when the server and the model can answer."""
        return self._beside(lambda client: client.wait_for_model(timeout_s))

    def model_config(self) -> Future[TritonModelConfig]:
        """A future of the model's configuration, which is asked for once."""
        self._window.check_open()
        client = self._client
        if client is None or not client.is_ready:
            return self._beside(lambda client: client.model_config)
        known: Future[TritonModelConfig] = Future()
        known.set_result(client.model_config)
        return known

    def close(self, wait: bool = True) -> None:
        """Refuses further calls. Those that were made are finished.

        Args:
            wait: Whether to wait for them.
        """
        self._window.close(wait)
        self._close_if_over()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _execute(self, asked: Asked) -> Answer:
        answer = Answer(asked, self._window, self._go_on)
        self._window.enter(answer, self._patience_s)
        self._go_on()
        return answer

    def _go_on(self) -> None:
        """Begins what waits, as far as there is room under way."""
        while self._window.has_next():
            client = self._client
            if client is None or not client.is_ready:
                self._start()
                return
            answer = self._window.next()
            if answer is not None:
                answer.begin(client)
        self._close_if_over()

    def _start(self) -> None:
        with self._lock:
            if self._starter is None:
                self._starter = threading.Thread(target=self._get_ready, name="penstock-futures-start", daemon=True)
                self._starter.start()

    def _get_ready(self) -> None:
        """Waits for the model, which no caller of this class does."""
        try:
            self._known_client().get_ready()
        except Exception as error:
            with self._lock:
                self._starter = None
            for answer in self._window.give_up():
                answer.give_up(error)
        self._go_on()

    def _known_client(self) -> BeginningClient:
        with self._lock:
            if self._client is None:
                self._client = BeginningClient(*self._of_model, **self._options)
            return self._client

    def _beside(self, call: Callable[[BeginningClient], Any]) -> Future[Any]:
        """The future of a call on a thread of its own."""
        future: Future[Any] = Future()
        self._window.enter_beside(future)

        def run() -> None:
            try:
                outcome, error = call(self._known_client()), None
            except Exception as raised:
                outcome, error = None, raised
            self._window.leave(future)
            if future.set_running_or_notify_cancel():
                if error is None:
                    future.set_result(outcome)
                else:
                    future.set_exception(error)
            self._window.settled()
            self._go_on()

        threading.Thread(target=run, name="penstock-futures-ask", daemon=True).start()
        return future

    def _close_if_over(self) -> None:
        if self._window.is_over():
            with self._lock:
                client, self._client = self._client, None
            if client is not None:
                client.close()
