"""`InferenceClientFactory`: clients of a process, one per server and options."""

from __future__ import annotations

from typing import Any

from penstock.compat.kserve.inference_client import InferenceGRPCClient, InferenceRESTClient, RESTConfig

__all__ = ["InferenceClientFactory"]


class InferenceClientFactory:
    """The factory of clients, a singleton; the same arguments return the same client."""

    _instance: InferenceClientFactory | None = None
    _clients: dict[Any, Any]

    def __new__(cls) -> InferenceClientFactory:
        """Returns the singleton."""
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance._clients = {}
        return cls._instance

    def get_grpc_client(self, url: str, **options: Any) -> InferenceGRPCClient:
        """Returns the client of a server.

        Args:
            url: As for `InferenceGRPCClient`.
            options: Its other arguments.
        """
        key = ("grpc", url, *sorted((name, repr(value)) for name, value in options.items()))
        client: InferenceGRPCClient = self._cached(key, lambda: InferenceGRPCClient(url, **options))
        return client

    def get_rest_client(self, config: RESTConfig | None = None) -> InferenceRESTClient:
        """Returns the client of a configuration, for any server."""
        config = config or RESTConfig()
        key = ("rest", *sorted((name, repr(value)) for name, value in vars(config).items()))
        client: InferenceRESTClient = self._cached(key, lambda: InferenceRESTClient(config))
        return client

    async def close(self) -> None:
        """Closes all clients; later ones are new."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    def _cached(self, key: Any, make: Any) -> Any:
        if key not in self._clients:
            self._clients[key] = make()
        return self._clients[key]
