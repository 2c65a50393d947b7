"""KServe's clients: `InferenceRESTClient`, `InferenceGRPCClient`, and the synchronous client of 0.13.

They use Penstock's own client and need neither httpx nor grpcio. Their exceptions are classes
of this module, and classes of httpx or grpc too if the script has imported these.
"""

from __future__ import annotations

from penstock.compat.kserve._clients.config import RESTConfig
from penstock.compat.kserve._clients.defaults import USE_CLIENT_DEFAULT
from penstock.compat.kserve._clients.grpc_client import InferenceGRPCClient
from penstock.compat.kserve._clients.grpc_errors import RpcError, StatusCode
from penstock.compat.kserve._clients.http_errors import (
    ConnectError,
    ConnectTimeout,
    HTTPStatusError,
    InvalidURL,
    ReadError,
    ReadTimeout,
)
from penstock.compat.kserve._clients.rest import InferenceRESTClient
from penstock.compat.kserve._clients.server_client import InferenceServerClient

__all__ = [
    "USE_CLIENT_DEFAULT",
    "ConnectError",
    "ConnectTimeout",
    "HTTPStatusError",
    "InferenceGRPCClient",
    "InferenceRESTClient",
    "InferenceServerClient",
    "InvalidURL",
    "RESTConfig",
    "ReadError",
    "ReadTimeout",
    "RpcError",
    "StatusCode",
]
