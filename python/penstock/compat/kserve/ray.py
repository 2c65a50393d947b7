"""`RayModel`: sends requests to a Ray Serve deployment.

Ray is needed only to start deployments: a handle is an object whose `remote` returns an awaitable.
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

    Requests are sent unchanged, any number at once. Exceptions of the deployment's code are handled as if
    the code ran here. A handle of `handle.options(stream=True)` streams.

    Args:
        name: The name on the wire.
        handle: The deployment's handle, as `serve.run` gives it.

    Example:
        >>> handle = serve.run(Double.bind("double"))
        >>> model = RayModel("double", handle)
        >>> model.load()
        >>> ModelServer().start([model])
    """

    computes_elsewhere = True
    """The model is not sent to workers."""

    def __new__(cls, name: str, handle: Any) -> RayModel:
        """Creates a streaming model for a streaming handle."""
        kind = _StreamingRayModel if cls is RayModel and _streams(handle) else cls
        return super().__new__(kind)

    def __init__(self, name: str, handle: Any) -> None:
        super().__init__(name)
        self._handle = handle

    async def __call__(
        self, body: Any, headers: Any = None, verb: InferenceVerb = InferenceVerb.PREDICT
    ) -> InferReturnType:
        """Returns the deployment's response."""
        return await _awaited(self._remote(body, headers, verb))

    def load(self) -> bool:
        """Calls the deployment's `load`, if any, and waits for it unless on an event loop.

        Raises:
            Exception: the deployment's `load` raised it.
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
        """Returns the deployment's declared inputs."""
        return await _described(self._handle.get_input_types.remote())

    async def get_output_types(self) -> Any:
        """Returns the deployment's declared outputs."""
        return await _described(self._handle.get_output_types.remote())

    def _remote(self, body: Any, headers: Any, verb: InferenceVerb) -> Any:
        # Only if it differs from the deployments' default.
        more = {} if verb is InferenceVerb.PREDICT else {"verb": verb}
        return self._handle.remote(body, headers=headers, **more)


class _StreamingRayModel(RayModel):
    """A model whose deployment streams."""

    async def __call__(
        self, body: Any, headers: Any = None, verb: InferenceVerb = InferenceVerb.PREDICT
    ) -> AsyncIterator[Any]:
        """Returns the chunks of the response."""
        return _chunks(self._remote(body, headers, verb))


def of_handle(name: str, handle: Any) -> RayModel:
    """Returns the model of a registered handle; it is ready."""
    model = RayModel(name, handle)
    model.ready = True
    return model


class _HandleRegistry(Protocol):
    def register_model_handle(self, name: str, model_handle: Any) -> None: ...


def deploy(server: _HandleRegistry, deployments: dict[str, Any]) -> None:
    """Starts deployments, and registers their handles by name.

    Args:
        server: The `ModelServer`.
        deployments: Deployments of Ray Serve, or applications: deployments that are bound to arguments.

    Raises:
        RuntimeError: a value is neither.
        ImportError: Ray is not installed.
    """
    try:
        from ray import serve
    except ImportError:
        raise ImportError("Ray Serve is not installed: pip install 'penstock[ray]'") from None
    kinds = (serve.Deployment, serve.Application)
    if not all(isinstance(one, kinds) for one in deployments.values()):
        raise RuntimeError("Model type should be RayServe Deployment")
    # Ray's own HTTP proxy would serve all deployments to everyone.
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
        # The client has disconnected: the replica may stop computing.
        if hasattr(response, "cancel"):
            response.cancel()
        raise
    except Exception as error:
        raise _cause(error) from None


async def _chunks(response: Any) -> AsyncIterator[Any]:
    try:
        async for chunk in response:
            yield chunk
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
    """Returns the exception of the deployment's code, without Ray's wrapper."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error


def _has_no_such_method(error: Exception) -> bool:
    # By Ray's message: an AttributeError may come from the method's code.
    return "Tried to call a method" in str(_cause(error))
