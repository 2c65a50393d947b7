"""Methods of clients besides inference: health, metadata, statistics, the repository."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.client._base import Ask, Headers, Timeout, ask_of, load_of, unload_of

__all__ = ["AsyncQuestions", "Questions"]


class Questions:
    """Methods of `Client`. `headers` are added to the client's own, `timeout` replaces the client's."""

    def live(self, *, headers: Headers = None, timeout: Timeout = ...) -> bool:
        """Checks whether the server runs."""
        return bool(self._ask(ask_of("live"), headers, timeout))

    def ready(self, *, headers: Headers = None, timeout: Timeout = ...) -> bool:
        """Checks whether the server and all its models are ready."""
        return bool(self._ask(ask_of("ready"), headers, timeout))

    def model_ready(
        self, model: str, *, version: str | None = None, headers: Headers = None, timeout: Timeout = ...
    ) -> bool:
        """Checks whether a model is ready.

        Raises:
            NotFound: there is no such model. Over gRPC the result is False instead.
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
        """The models in the server's repository index, each with its `state`."""
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
        """Loads or reloads a model, from the repository or from given files.

        Args:
            model: The model's name.
            config: Configuration in Triton's form, in place of the repository's.
            files: Files by name (`"file:1/model.py"`), in place of the repository's; they need a `config`.
            headers: Headers (gRPC: metadata) of this call.
            timeout: Time limit in seconds, in place of the client's.

        Raises:
            Unsupported: the server does not accept files from clients.
        """
        self._ask(load_of(model, config, files), headers, timeout)

    def unload(self, model: str, *, dependents: bool = False, headers: Headers = None, timeout: Timeout = ...) -> None:
        """Unloads a model, and with `dependents` the models that only it needs."""
        self._ask(unload_of(model, dependents), headers, timeout)

    def _ask(self, ask: Ask, headers: Headers, timeout: Timeout) -> Any:
        raise NotImplementedError


class AsyncQuestions:
    """Methods of `AsyncClient`; see `Questions`."""

    async def live(self, *, headers: Headers = None, timeout: Timeout = ...) -> bool:
        """Checks whether the server runs."""
        return bool(await self._ask(ask_of("live"), headers, timeout))

    async def ready(self, *, headers: Headers = None, timeout: Timeout = ...) -> bool:
        """Checks whether the server and all its models are ready."""
        return bool(await self._ask(ask_of("ready"), headers, timeout))

    async def model_ready(
        self, model: str, *, version: str | None = None, headers: Headers = None, timeout: Timeout = ...
    ) -> bool:
        """Checks whether a model is ready; see `Client.model_ready`."""
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
        """The models in the server's repository index, each with its `state`."""
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
        """Loads or reloads a model; see `Client.load`."""
        await self._ask(load_of(model, config, files), headers, timeout)

    async def unload(
        self, model: str, *, dependents: bool = False, headers: Headers = None, timeout: Timeout = ...
    ) -> None:
        """Unloads a model, and with `dependents` the models that only it needs."""
        await self._ask(unload_of(model, dependents), headers, timeout)

    async def _ask(self, ask: Ask, headers: Headers, timeout: Timeout) -> Any:
        raise NotImplementedError
