"""`RemoteTriton`: callables of this process, served by a server of another process on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

from penstock import Attached, Signals, Unavailable, attach
from penstock.compat.pytriton._server.base import LOGGER, TritonBase
from penstock.compat.pytriton._server.bound_models import BoundModel
from penstock.compat.pytriton.client.utils import TritonUrl
from penstock.compat.pytriton.constants import DEFAULT_TRITON_STARTUP_TIMEOUT_S
from penstock.compat.pytriton.utils.workspace import Workspace

__all__ = ["RemoteTriton"]

_DETACH_TIMEOUT = 30.0
"""Seconds for running requests to finish when models are detached."""


class RemoteTriton(TritonBase):
    """Callables of this process, served by a `Triton` in another process of the same machine and user.

    No token is needed: models are attached over a socket that only the server's own user can open.

    Args:
        url: HTTP or gRPC address of the server, for clients on this machine.
        workspace: A workspace, or the path of a new one. `stop` removes it.
        access_token: Token of the server. It is accepted because PyTriton's scripts pass it.

    Raises:
        PyTritonClientInvalidUrlError: the URL is invalid.

    Example:
        >>> with RemoteTriton("localhost") as triton:
        ...     triton.bind("double", double, inputs=[x], outputs=[y])
        ...     triton.serve()
    """

    def __init__(
        self,
        url: str,
        workspace: Workspace | str | os.PathLike[str] | None = None,
        access_token: str | None = None,
    ) -> None:
        super().__init__(TritonUrl.from_url(url).with_scheme, workspace, access_token=access_token)
        self._attached: Attached | None = None
        self._mark_started()

    def _wait_for_server(self) -> None:
        if self._attached is not None and self._attached.alive:
            return
        try:
            self._attached = attach(self._url, timeout=DEFAULT_TRITON_STARTUP_TIMEOUT_S)
        except Unavailable as error:
            raise TimeoutError(f"Triton Inference Server is not ready after timeout: {error}") from error

    def _load(self, models: Sequence[BoundModel]) -> None:
        assert self._attached is not None
        if models:
            self._attached.add(*map(self._create_model, models))
        for model in models:
            model.loaded = True

    def _is_alive_impl(self) -> bool:
        return self._attached is None or self._attached.alive

    def _drain_on(self, signals: Signals) -> None:
        signals.set_target(self._attached, _DETACH_TIMEOUT)

    def _stop_impl(self, timeout: float | None = None) -> None:
        if (attached := self._attached) is not None:
            if not attached.detach(_DETACH_TIMEOUT if timeout is None else timeout):
                LOGGER.warning("Requests that had not finished after %g s were cut off", _DETACH_TIMEOUT)
            self._attached = None
