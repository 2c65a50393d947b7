"""`RemoteTriton`: callables of this process, served by a server that another process of this machine has started."""

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

_DETACHED_WITHIN = 30.0
"""Seconds that requests under way have when models are taken back."""


class RemoteTriton(TritonBase):
    """Callables of this process, served by a `Triton` that another process of this machine and user has started.

    The server needs no token for it: it takes models over a socket that only its own user reaches.

    Args:
        url: Where clients of this machine reach the server, over HTTP or gRPC.
        workspace: A folder, or where to make one. It is removed by `stop`.
        access_token: The server's, which scripts of PyTriton's give.

    Raises:
        PyTritonClientInvalidUrlError: the URL is none.

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
        self._begin()

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
            self._attached.add(*map(self._made, models))
        for one in models:
            one.loaded = True

    def _is_alive_impl(self) -> bool:
        return self._attached is None or self._attached.alive

    def _heed(self, signals: Signals) -> None:
        signals.heed(self._attached, _DETACHED_WITHIN)

    def _stop_impl(self, timeout: float | None = None) -> None:
        if (attached := self._attached) is not None:
            if not attached.detach(_DETACHED_WITHIN if timeout is None else timeout):
                LOGGER.warning("Requests were cut off that had not finished after %g s", _DETACHED_WITHIN)
            self._attached = None
