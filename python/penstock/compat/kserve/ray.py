"""Models that Ray Serve runs: `RayModel` hands each request to a deployment, wherever its replicas are.

Nothing here needs Ray until a deployment is to be started: a handle is anything whose `remote` gives an awaitable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Protocol

from penstock.compat.kserve.logging import logger
from penstock.compat.kserve.model import InferenceModel, InferenceVerb, InferReturnType

__all__ = ["RayModel", "deploy", "of_handle"]


class RayModel(InferenceModel):
    """A model that a Ray Serve deployment computes.

    Requests are handed on as they are, any number at once. Exceptions of the deployment's code are answered as if
    the code ran here. A handle of `handle.options(stream=True)` answers in pieces.

    Args:
        name: Its name on the wire.
        handle: The deployment's handle, as `serve.run` gives it.

    Example:
        >>> handle = serve.run(Double.bind("double"))
        >>> model = RayModel("double", handle)
        >>> model.load()
        >>> ModelServer().start([model])
    """

    computes_elsewhere = True
    """It is not sent to workers, however many the server has."""

    def __new__(cls, name: str, handle: Any) -> RayModel:
        """One that answers in pieces, where the handle does."""
        kind = _StreamingRayModel if cls is RayModel and _streams(handle) else cls
        return super().__new__(kind)

    def __init__(self, name: str, handle: Any) -> None:
        super().__init__(name)
        self._handle = handle

    async def __call__(
        self, body: Any, headers: Any = None, verb: InferenceVerb = InferenceVerb.PREDICT
    ) -> InferReturnType:
        """What the deployment answers."""
        return await _awaited(self._remote(body, headers, verb))

    def load(self) -> bool:
        """Has the deployment load, if it has a `load`, and waits for it unless this is an event loop.

        Raises:
            Exception: what the deployment's `load` raised.
        """
        response = self._handle.load.remote()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            try:
                response.result()
            except Exception as error:
                if not _has_no_such_method(error):
                    raise _cause(error) from None
        self.ready = True
        return True

    async def get_input_types(self) -> Any:
        """The inputs that the deployment says it has."""
        return await _described(self._handle.get_input_types.remote())

    async def get_output_types(self) -> Any:
        """The outputs that the deployment says it has."""
        return await _described(self._handle.get_output_types.remote())

    def _remote(self, body: Any, headers: Any, verb: InferenceVerb) -> Any:
        # Said only where it is not what deployments take it to be.
        more = {} if verb is InferenceVerb.PREDICT else {"verb": verb}
        return self._handle.remote(body, headers=headers, **more)


class _StreamingRayModel(RayModel):
    """One whose deployment answers in pieces."""

    async def __call__(
        self, body: Any, headers: Any = None, verb: InferenceVerb = InferenceVerb.PREDICT
    ) -> AsyncIterator[Any]:
        """The pieces of the answer, as they come."""
        return _pieces(self._remote(body, headers, verb))


def of_handle(name: str, handle: Any) -> RayModel:
    """The model of a handle that was registered as one: it is ready."""
    model = RayModel(name, handle)
    model.ready = True
    return model


class _TakesHandles(Protocol):
    def register_model_handle(self, name: str, model_handle: Any) -> None: ...


def deploy(server: _TakesHandles, deployments: dict[str, Any]) -> None:
    """Starts deployments, and has a server serve them by their names.

    Args:
        server: The `ModelServer`.
        deployments: Deployments of Ray Serve, or applications: deployments that are bound to arguments.

    Raises:
        RuntimeError: something among them is no deployment.
        ImportError: Ray is not installed.
    """
    try:
        from ray import serve
    except ImportError:
        raise ImportError("Ray Serve is not installed: pip install 'penstock[ray]'") from None
    kinds = (serve.Deployment, serve.Application)
    if not all(isinstance(one, kinds) for one in deployments.values()):
        raise RuntimeError("Model type should be RayServe Deployment")
    # Its own HTTP port would serve all of them to everybody.
    serve.start(proxy_location="Disabled")
    for name, one in deployments.items():
        application = one.bind() if isinstance(one, serve.Deployment) else one
        server.register_model_handle(name, serve.run(application, name=name, route_prefix=None))
        logger.info("Ray Serve runs %s", name)


def _streams(handle: Any) -> bool:
    return getattr(getattr(handle, "handle_options", None), "stream", False) is True


async def _awaited(response: Any) -> Any:
    try:
        return await response
    except asyncio.CancelledError:
        # The caller has left: whoever computes for it may stop.
        if hasattr(response, "cancel"):
            response.cancel()
        raise
    except Exception as error:
        raise _cause(error) from None


async def _pieces(response: Any) -> AsyncIterator[Any]:
    try:
        async for piece in response:
            yield piece
    except GeneratorExit:
        if hasattr(response, "cancel"):
            response.cancel()
        raise
    except Exception as error:
        raise _cause(error) from None


async def _described(response: Any) -> Any:
    try:
        return await response
    except Exception as error:
        if _has_no_such_method(error):
            return []
        raise _cause(error) from None


def _cause(error: Exception) -> BaseException:
    """What the deployment's code raised, without Ray's report of it."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error


def _has_no_such_method(error: Exception) -> bool:
    # In Ray's own words: an AttributeError may be of the method's code.
    return "Tried to call a method" in str(_cause(error))
