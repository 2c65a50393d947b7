"""R6: the clients of a process, cached by arguments."""

from __future__ import annotations

import asyncio

from penstock.compat.kserve.inference_client import RESTConfig
from penstock.compat.kserve.utils.inference_client_factory import InferenceClientFactory


def test_r6_clients_are_cached_by_server_and_options() -> None:
    async def main() -> None:
        factory = InferenceClientFactory()
        assert factory is InferenceClientFactory()
        one = factory.get_grpc_client("127.0.0.1:1", retries=1)
        assert factory.get_grpc_client("127.0.0.1:1", retries=1) is one
        # In KServe all servers share the first client.
        assert factory.get_grpc_client("127.0.0.1:2", retries=1) is not one
        assert factory.get_grpc_client("127.0.0.1:1", retries=2) is not one
        rest = factory.get_rest_client()
        assert factory.get_rest_client(RESTConfig(protocol="v1")) is rest
        assert factory.get_rest_client(RESTConfig(protocol="v2")) is not rest
        assert factory.get_rest_client(RESTConfig(timeout=1)) is not rest
        await factory.close()
        assert factory.get_rest_client() is not rest
        await factory.close()

    asyncio.run(main())
