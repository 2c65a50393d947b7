"""`InferenceRESTClient`."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from penstock.compat.kserve._clients import urls
from penstock.compat.kserve._clients.config import RESTConfig, why_httpx
from penstock.compat.kserve._clients.defaults import USE_CLIENT_DEFAULT, Timeout, is_default
from penstock.compat.kserve._clients.http_errors import Response, status_error
from penstock.compat.kserve._clients.http_httpx import HttpxHttp
from penstock.compat.kserve._clients.http_native import NativeHttp
from penstock.compat.kserve.constants.constants import INFERENCE_CONTENT_LENGTH_HEADER
from penstock.compat.kserve.errors import UnsupportedProtocol
from penstock.compat.kserve.logging import trace_logger as logger
from penstock.compat.kserve.protocol import _json
from penstock.compat.kserve.protocol.infer_type import InferRequest, InferResponse

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["InferenceRESTClient"]

Headers = Mapping[str, str]


class InferenceRESTClient:
    """An asynchronous REST client of KServe servers; any number of tasks may use it at once.

    Each URL is that of a server, such as `https://example.com:443/serving`, and may differ from call to
    call. Timeouts are in seconds from end to end; None is no limit, and the default is the
    configuration's.

    Args:
        config: A `RESTConfig`; by default for the V1 protocol.

    Example:
        >>> async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        ...     response = await client.infer("http://127.0.0.1:8080", request, model_name="m")
    """

    def __init__(self, config: RESTConfig | None = None) -> None:
        self._config = RESTConfig() if config is None else config
        why = why_httpx(self._config)
        self._http: NativeHttp | HttpxHttp = NativeHttp(self._config) if why is None else HttpxHttp(self._config, why)
        self._proxies = urls.Proxies() if self._config.transport is None else None
        self._by_proxy: dict[str, HttpxHttp] = {}

    async def infer(  # noqa: PLR0917 - KServe's own order
        self,
        base_url: Any,
        data: InferRequest | dict[str, Any] | bytes | str,
        model_name: str | None = None,
        headers: Headers | None = None,
        response_headers: MutableMapping[str, str] | None = None,
        is_graph_endpoint: bool = False,
        timeout: Timeout = USE_CLIENT_DEFAULT,
    ) -> InferResponse | dict[str, Any]:
        """Runs one inference.

        Args:
            base_url: The server's URL; for an inference graph the whole URL.
            data: The request. A dict is sent as JSON, bytes and text unchanged.
            model_name: The model's name; optional for a graph.
            headers: Request headers.
            response_headers: Receives the response's headers.
            is_graph_endpoint: Whether the URL is that of an inference graph, whose response is a dict.
            timeout: Seconds.

        Returns:
            An `InferResponse` in the V2 protocol, else the response's JSON.

        Raises:
            HTTPStatusError: the status is not 2xx.
            ValueError: the model's name is missing.
            UnsupportedProtocol: the configuration's protocol is neither "v1" nor "v2".
        """
        if is_graph_endpoint:
            url = str(base_url)
        elif model_name is None:
            raise ValueError("model_name should not be 'None'")
        elif self._speaks("v1"):
            url = urls.joined(base_url, f"v1/models/{model_name}:predict")
        elif self._speaks("v2"):
            url = urls.joined(base_url, f"v2/models/{model_name}/infer")
        else:
            raise UnsupportedProtocol(self._config.protocol)
        body, sent = _encoded(data, headers)
        response = await self._checked_response("POST", url, sent, body, timeout)
        if response_headers is not None:
            response_headers.update(response.headers)
        if self._speaks("v2") and not is_graph_endpoint:
            length = response.headers.get(INFERENCE_CONTENT_LENGTH_HEADER)
            return InferResponse.from_bytes(response.content, len(response.content) if length is None else int(length))
        return _json.loads(response.content)  # type: ignore[no-any-return]

    async def explain(
        self,
        base_url: Any,
        model_name: str,
        data: dict[str, Any],
        headers: Headers | None = None,
        timeout: Timeout = USE_CLIENT_DEFAULT,
    ) -> dict[str, Any]:
        """Returns an explanation; V1 protocol only.

        Raises:
            HTTPStatusError: the status is not 2xx.
            UnsupportedProtocol: the configuration's protocol is not "v1".
        """
        if not self._speaks("v1"):
            raise UnsupportedProtocol(self._config.protocol)
        body, sent = _encoded(data, headers)
        url = urls.joined(base_url, f"v1/models/{model_name}:explain")
        return _json.loads((await self._checked_response("POST", url, sent, body, timeout)).content)  # type: ignore[no-any-return]

    async def is_server_ready(
        self, base_url: Any, headers: Headers | None = None, timeout: Timeout = USE_CLIENT_DEFAULT
    ) -> bool:
        """Returns whether the server is ready; V2 protocol only.

        Raises:
            HTTPStatusError: the status is not 2xx.
            UnsupportedProtocol: the configuration's protocol is not "v2".
        """
        if not self._speaks("v2"):
            raise UnsupportedProtocol(protocol_version=self._config.protocol)
        return bool((await self._get_json(urls.joined(base_url, "v2/health/ready"), headers, timeout)).get("ready"))

    async def is_server_live(
        self, base_url: Any, headers: Headers | None = None, timeout: Timeout = USE_CLIENT_DEFAULT
    ) -> bool:
        """Returns whether the server is live.

        Raises:
            HTTPStatusError: the status is not 2xx.
            UnsupportedProtocol: the configuration's protocol is neither "v1" nor "v2".
        """
        if self._speaks("v1"):
            status_body = await self._get_json(urls.joined(base_url, ""), headers, timeout)
            return str(status_body.get("status")).lower() == "alive"
        if self._speaks("v2"):
            return bool((await self._get_json(urls.joined(base_url, "v2/health/live"), headers, timeout)).get("live"))
        raise UnsupportedProtocol(protocol_version=self._config.protocol)

    async def is_model_ready(
        self, base_url: Any, model_name: str, headers: Headers | None = None, timeout: Timeout = USE_CLIENT_DEFAULT
    ) -> bool:
        """Returns whether a model is ready: in V2 False for any error status, in V1 for 503.

        Raises:
            HTTPStatusError: in the V1 protocol, another status is not 2xx.
            UnsupportedProtocol: the configuration's protocol is neither "v1" nor "v2".
        """
        if self._speaks("v1"):
            url = urls.joined(base_url, f"v1/models/{model_name}")
            response = await self._send("GET", url, headers or {}, None, timeout)
            if response.status_code == 503:
                return False
            if not response.is_success:
                raise status_error(response)
            return bool(response.json().get("ready"))
        if self._speaks("v2"):
            url = urls.joined(base_url, f"v2/models/{model_name}/ready")
            return (await self._send("GET", url, headers or {}, None, timeout)).is_success
        raise UnsupportedProtocol(protocol_version=self._config.protocol)

    async def close(self) -> None:
        """Closes the connections; later requests fail."""
        await self._http.close()
        for transport in self._by_proxy.values():
            await transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _speaks(self, protocol: str) -> bool:
        return str(self._config.protocol).lower() == protocol

    async def _get_json(self, url: str, headers: Headers | None, timeout: Timeout) -> dict[str, Any]:
        return (await self._checked_response("GET", url, headers or {}, None, timeout)).json()  # type: ignore[no-any-return]

    async def _checked_response(
        self, method: str, url: str, headers: Headers, body: bytes | None, timeout: Timeout
    ) -> Response:
        response = await self._send(method, url, headers, body, timeout)
        if not response.is_success:
            raise status_error(response)
        return response

    async def _send(self, method: str, url: str, headers: Headers, body: bytes | None, timeout: Timeout) -> Response:
        url, user = urls.without_user(url)
        user = user or (self._config.auth if isinstance(self._http, NativeHttp) else None)
        if user is not None and not any(name.lower() == "authorization" for name in headers):
            headers = {**headers, "authorization": urls.basic(*user)}
        if self._config.verbose:
            logger.info("url: %s", url)
            logger.info("request data: %s", body)
        limit = self._config.timeout if is_default(timeout) else timeout
        response = await self._transport(url).send(method, url, headers, body, limit)
        if self._config.verbose:
            logger.info("response code: %s, content: %s", response.status_code, response.text)
        return response

    def _transport(self, url: str) -> NativeHttp | HttpxHttp:
        proxy = None if self._proxies is None else self._proxies.of(url)
        if proxy is None:
            return self._http
        if proxy not in self._by_proxy:
            self._by_proxy[proxy] = HttpxHttp(self._config, f"way through the proxy {proxy}", proxy)
        return self._by_proxy[proxy]


def _encoded(data: Any, headers: Headers | None) -> tuple[bytes, dict[str, str]]:
    """Returns a request's body and headers, without changing the argument."""
    sent = dict(headers or {})
    if isinstance(data, InferRequest):
        rest_body: Any = data.to_rest()
        data, length = rest_body if isinstance(rest_body, tuple) else (rest_body, None)
        if length:
            sent = {name: value for name, value in sent.items() if name.lower() != "content-type"}
            sent[INFERENCE_CONTENT_LENGTH_HEADER] = str(length)
            sent["content-type"] = "application/octet-stream"
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data), sent
    if isinstance(data, str):
        return data.encode(), sent
    if not any(name.lower() == "content-type" for name in sent):
        sent["content-type"] = "application/json"
    return _json.dumps(data), sent
