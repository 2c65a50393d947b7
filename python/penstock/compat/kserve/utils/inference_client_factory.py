"""`InferenceClientFactory`: the clients of a process, each made once."""

from __future__ import annotations

from typing import Any

from penstock.compat.kserve.inference_client import InferenceGRPCClient, InferenceRESTClient, RESTConfig

__all__ = ["InferenceClientFactory"]


class InferenceClientFactory:
    """Makes clients, and gives the same one again for the same server and choices. There is one factory."""

    _instance: InferenceClientFactory | None = None
    _clients: dict[Any, Any]

    def __new__(cls) -> InferenceClientFactory:
        """The one factory."""
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance._clients = {}
        return cls._instance

    def get_grpc_client(self, url: str, **options: Any) -> InferenceGRPCClient:
        """The client of a server.

        Args:
            url: As for `InferenceGRPCClient`.
            options: Its other arguments.
        """
        key = ("grpc", url, *sorted((name, repr(value)) for name, value in options.items()))
        client: InferenceGRPCClient = self._kept(key, lambda: InferenceGRPCClient(url, **options))
        return client

    def get_rest_client(self, config: RESTConfig | None = None) -> InferenceRESTClient:
        """The client of a configuration, for any server."""
        config = config or RESTConfig()
        key = ("rest", *sorted((name, repr(value)) for name, value in vars(config).items()))
        client: InferenceRESTClient = self._kept(key, lambda: InferenceRESTClient(config))
        return client

    async def close(self) -> None:
        """Closes all of them; those that are asked for later are new ones."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()

    def _kept(self, key: Any, make: Any) -> Any:
        if key not in self._clients:
            self._clients[key] = make()
        return self._clients[key]
