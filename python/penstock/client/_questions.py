"""What may be asked beside inferences: health, metadata, statistics, the repository."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.client._base import Ask, Headers, Timeout, ask_of, load_of, unload_of

__all__ = ["AsyncQuestions", "Questions"]


class Questions:
    """The questions of a `Client`. `headers` and `timeout` are of the one call, beside the client's own."""

    def live(self, *, headers: Headers = None, timeout: Timeout = ...) -> bool:
        """Whether the server runs."""
        return bool(self._ask(ask_of("live"), headers, timeout))

    def ready(self, *, headers: Headers = None, timeout: Timeout = ...) -> bool:
        """Whether the server and all its models can answer."""
        return bool(self._ask(ask_of("ready"), headers, timeout))

    def model_ready(
        self, model: str, *, version: str | None = None, headers: Headers = None, timeout: Timeout = ...
    ) -> bool:
        """Whether a model can answer.

        Raises:
            NotFound: there is no such model. Over gRPC the protocol says False of it.
        """
        return bool(self._ask(ask_of("model_ready", model, version), headers, timeout))

    def server_metadata(self, *, headers: Headers = None, timeout: Timeout = ...) -> dict[str, Any]:
        """The server's `name`, `version` and `extensions`."""
        return dict(self._ask(ask_of("server_metadata"), headers, timeout))

    def metadata(
        self, model: str, *, version: str | None = None, headers: Headers = None, timeout: Timeout = ...
    ) -> dict[str, Any]:
        """A model's `name`, `versions`, `platform`, `inputs` and `outputs`."""
        return dict(self._ask(ask_of("metadata", model, version), headers, timeout))

    def config(
        self, model: str, *, version: str | None = None, headers: Headers = None, timeout: Timeout = ...
    ) -> dict[str, Any]:
        """A model's configuration, in Triton's form."""
        return dict(self._ask(ask_of("config", model, version), headers, timeout))

    def statistics(
        self,
        model: str | None = None,
        *,
        version: str | None = None,
        headers: Headers = None,
        timeout: Timeout = ...,
    ) -> dict[str, Any]:
        """Counts and times of past inferences, of one model or all, in Triton's form."""
        return dict(self._ask(ask_of("statistics", model, version), headers, timeout))

    def index(self, *, headers: Headers = None, timeout: Timeout = ...) -> list[dict[str, Any]]:
        """The models that the server knows, each with its `state`."""
        return list(self._ask(ask_of("index"), headers, timeout))

    def load(
        self,
        model: str,
        *,
        config: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
        headers: Headers = None,
        timeout: Timeout = ...,
    ) -> None:
        """Loads a model, or loads it anew, from the repository or from here.

        Args:
            model: The model's name.
            config: Its configuration in Triton's form, instead of the repository's.
            files: Its files by name (`"file:1/model.py"`), instead of the repository's; they need a
                `config` beside them.
            headers: Headers (gRPC: metadata) of this call.
            timeout: Seconds that the call may take, instead of the client's.

        Raises:
            Unsupported: the server takes no files from clients.
        """
        self._ask(load_of(model, config, files), headers, timeout)

    def unload(self, model: str, *, dependents: bool = False, headers: Headers = None, timeout: Timeout = ...) -> None:
        """Unloads a model, and with `dependents` those that only it needs."""
        self._ask(unload_of(model, dependents), headers, timeout)

    def _ask(self, ask: Ask, headers: Headers, timeout: Timeout) -> Any:
        raise NotImplementedError


class AsyncQuestions:
    """The questions of an `AsyncClient`; see `Questions`."""

    async def live(self, *, headers: Headers = None, timeout: Timeout = ...) -> bool:
        """Whether the server runs."""
        return bool(await self._ask(ask_of("live"), headers, timeout))

    async def ready(self, *, headers: Headers = None, timeout: Timeout = ...) -> bool:
        """Whether the server and all its models can answer."""
        return bool(await self._ask(ask_of("ready"), headers, timeout))

    async def model_ready(
        self, model: str, *, version: str | None = None, headers: Headers = None, timeout: Timeout = ...
    ) -> bool:
        """Whether a model can answer; see `Client.model_ready`."""
        return bool(await self._ask(ask_of("model_ready", model, version), headers, timeout))

    async def server_metadata(self, *, headers: Headers = None, timeout: Timeout = ...) -> dict[str, Any]:
        """The server's `name`, `version` and `extensions`."""
        return dict(await self._ask(ask_of("server_metadata"), headers, timeout))

    async def metadata(
        self, model: str, *, version: str | None = None, headers: Headers = None, timeout: Timeout = ...
    ) -> dict[str, Any]:
        """A model's `name`, `versions`, `platform`, `inputs` and `outputs`."""
        return dict(await self._ask(ask_of("metadata", model, version), headers, timeout))

    async def config(
        self, model: str, *, version: str | None = None, headers: Headers = None, timeout: Timeout = ...
    ) -> dict[str, Any]:
        """A model's configuration, in Triton's form."""
        return dict(await self._ask(ask_of("config", model, version), headers, timeout))

    async def statistics(
        self,
        model: str | None = None,
        *,
        version: str | None = None,
        headers: Headers = None,
        timeout: Timeout = ...,
    ) -> dict[str, Any]:
        """Counts and times of past inferences, of one model or all, in Triton's form."""
        return dict(await self._ask(ask_of("statistics", model, version), headers, timeout))

    async def index(self, *, headers: Headers = None, timeout: Timeout = ...) -> list[dict[str, Any]]:
        """The models that the server knows, each with its `state`."""
        return list(await self._ask(ask_of("index"), headers, timeout))

    async def load(
        self,
        model: str,
        *,
        config: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
        headers: Headers = None,
        timeout: Timeout = ...,
    ) -> None:
        """Loads a model, or loads it anew; see `Client.load`."""
        await self._ask(load_of(model, config, files), headers, timeout)

    async def unload(
        self, model: str, *, dependents: bool = False, headers: Headers = None, timeout: Timeout = ...
    ) -> None:
        """Unloads a model, and with `dependents` those that only it needs."""
        await self._ask(unload_of(model, dependents), headers, timeout)

    async def _ask(self, ask: Ask, headers: Headers, timeout: Timeout) -> Any:
        raise NotImplementedError
