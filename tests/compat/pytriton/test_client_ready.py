"""Readiness of servers and models, the functions of `client.utils`, tokens, and `from_existing_client`."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from native_server import Urls, plain, serving
from observe import free_ports

import penstock
from penstock import Server
from penstock.compat.pytriton import client as clients
from penstock.compat.pytriton.client import ModelClient, asyncio_utils, utils
from penstock.compat.pytriton.client import exceptions as errors
from penstock.compat.pytriton.client.auth import create_auth_headers, extract_access_token_from_headers
from penstock.compat.pytriton.client.utils import LATEST_MODEL_VERSION, ModelState, TritonUrl
from repositories import MODEL, Repository

A = np.ones(3, np.float32)
SECRET = "t" * 20


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("localhost", "http://localhost:8000"),
        ("localhost:81", "http://localhost:81"),
        ("http://host", "http://host:8000"),
        ("HTTP://host:9/a/path", "http://host:9"),
        ("grpc://host", "grpc://host:8001"),
        ("GRPC://host:5", "grpc://host:5"),
        ("10.0.0.1:5", "http://10.0.0.1:5"),
        ("grpc://[::1]:5", "grpc://[::1]:5"),
    ],
)
def test_urls_are_parsed(url: str, expected: str) -> None:
    parsed = TritonUrl.from_url(url)
    assert parsed.with_scheme == expected
    assert expected == f"{parsed.scheme}://{parsed.without_scheme}"
    assert parsed == TritonUrl(parsed.scheme, parsed.hostname, parsed.port)


@pytest.mark.parametrize("url", ["https://host", "ftp://host", "host:port", "", ":8000", "http://", "host:99999"])
def test_invalid_urls_are_rejected(url: str) -> None:
    with pytest.raises(errors.PyTritonClientInvalidUrlError, match=r"^Invalid url "):
        ModelClient(url, "m")


def test_url_must_be_a_string() -> None:
    with pytest.raises(errors.PyTritonClientInvalidUrlError, match=r"^Invalid url 3\. Url must be a string\.$"):
        ModelClient(3, "m")  # type: ignore[arg-type]


def test_refused_connection_times_out() -> None:
    for url in ("http://127.0.0.1:1", "grpc://127.0.0.1:1"):
        with pytest.raises(
            errors.PyTritonClientTimeoutError, match=r"^Waiting for server to be ready timed out\.$"
        ) as caught:
            ModelClient(url, "m", lazy_init=False, init_timeout_s=0.1)
        assert not isinstance(caught.value, errors.PyTritonClientModelUnavailableError)
        with ModelClient(url, "m") as client, pytest.raises(errors.PyTritonClientTimeoutError):
            client.wait_for_server(0.1)


def test_unknown_model_is_unavailable(url: str) -> None:
    with ModelClient(url, "nope", init_timeout_s=0.2) as client:
        for use in (lambda: client.infer_sample(A), lambda: client.model_config, lambda: client.wait_for_model(0.1)):
            with pytest.raises(
                errors.PyTritonClientTimeoutError,
                match=rf"^Waiting for model nope/{LATEST_MODEL_VERSION} to be ready timed out\.$",
            ) as caught:
                use()
            assert isinstance(caught.value, errors.PyTritonClientModelUnavailableError)


def test_client_waits_for_the_server_to_start() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    outputs: list[Any] = []
    client = ModelClient(address, "plain")
    thread = threading.Thread(target=lambda: outputs.append(client.infer_sample(A)["y"].tolist()))
    thread.start()
    with Server(plain, http=address, grpc=None):
        thread.join(20)
    client.close()
    assert outputs == [[2, 2, 2]]


def test_given_configuration_is_not_requested(url: str) -> None:
    with ModelClient(url, "plain", lazy_init=False) as client:
        config = client.model_config
    assert (config.model_name, config.max_batch_size, config.decoupled) == ("plain", 0, False)
    assert [spec.name for spec in config.inputs or ()] == ["x"]
    with ModelClient("127.0.0.1:1", "plain", model_config=config) as client:
        assert client.model_config is config
    with (
        ModelClient("127.0.0.1:1", "plain", model_config=config, init_timeout_s=0.1) as client,
        pytest.raises(errors.PyTritonClientTimeoutError, match=r"^Waiting for server"),
    ):
        client.infer_sample(A)


def test_from_existing_client_copies_configuration_scheme_and_token(url: str, urls: Urls) -> None:
    with ModelClient(url, "plain", access_token=SECRET, inference_timeout_s=7) as client:
        client.infer_sample(A)
        with ModelClient.from_existing_client(client) as other:
            assert other._triton_url.with_scheme == url
            assert other._headers == client._headers
            assert other._inference_timeout_s == 7
            assert other.model_config is client.model_config
            assert other.infer_sample(A)["y"].tolist() == [2, 2, 2]
    with (
        clients.DecoupledModelClient(urls.grpc, "counting", lazy_init=False) as decoupled,
        clients.DecoupledModelClient.from_existing_client(decoupled) as other_decoupled,
    ):
        assert len([*other_decoupled.infer_sample(np.array([2], np.int32))]) == 2

    async def main() -> None:
        async with clients.AsyncioModelClient(url, "plain") as client:
            await client.infer_sample(A)
            async with clients.AsyncioModelClient.from_existing_client(client) as other:
                assert (await other.infer_sample(A))["y"].tolist() == [2, 2, 2]

    asyncio.run(main())


def test_all_calls_send_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCESS_TOKEN", SECRET)
    rules = "health,metadata,model-config,inference,model-repository:triton-access-token=env:ACCESS_TOKEN"
    with serving(restricted_access=rules) as urls:
        for url in urls:
            with ModelClient(url, "plain", access_token=SECRET) as client:
                assert client.infer_sample(A)["y"].tolist() == [2, 2, 2]
                client.wait_for_model(1)
            with clients.FuturesModelClient(url, "plain", access_token=SECRET) as futures:
                assert futures.infer_sample(A).result()["y"].tolist() == [2, 2, 2]
            # A rejected token is final, so there is no retry.
            for token in (None, "wrong"):
                with ModelClient(url, "plain", access_token=token) as client:
                    with pytest.raises(errors.PyTritonClientInferenceServerError, match="restricted"):
                        client.infer_sample(A)
                    with pytest.raises(errors.PyTritonClientInferenceServerError, match="restricted"):
                        client.unload_model()
        headers = create_auth_headers(SECRET, "http")
        native = utils.create_client_from_url(urls.http)
        assert utils.get_model_state(native, "plain", headers=headers) is ModelState.READY
        assert utils.get_model_config(native, "plain", headers=headers).model_name == "plain"
        with pytest.raises(errors.PyTritonClientInferenceServerError, match="restricted"):
            utils.get_model_state(native, "plain")


def test_token_headers_are_created_and_extracted() -> None:
    assert create_auth_headers("a", "HTTP") == {"triton-access-token": "a"}
    grpc = create_auth_headers("a", "grpc")
    assert grpc == {"triton-grpc-protocol-triton-access-token": "a"}
    assert extract_access_token_from_headers(grpc) == "a"
    assert extract_access_token_from_headers({**grpc, "triton-access-token": "a"}) == "a"
    assert extract_access_token_from_headers(None) is extract_access_token_from_headers({"b": "c"}) is None
    with pytest.raises(ValueError, match=r"^Conflicting authentication headers"):
        extract_access_token_from_headers({**grpc, "triton-access-token": "b"})
    for token in (None, ""):
        with pytest.raises(ValueError, match=r"^access_token cannot be None or empty$"):
            create_auth_headers(token, "http")
    with pytest.raises(ValueError, match=r"^Invalid protocol 'ftp'\. Must be 'http' or 'grpc'$"):
        create_auth_headers("a", "ftp")


def test_functions_accept_tritonclient_clients(urls: Urls) -> None:
    http = tritonclient.http.InferenceServerClient(urls.http.removeprefix("http://"))
    grpc = tritonclient.grpc.InferenceServerClient(urls.grpc.removeprefix("grpc://"))
    for client in (http, grpc, utils.create_client_from_url(urls.http), utils.create_client_from_url(urls.grpc, 5)):
        utils.wait_for_server_ready(client, 5)
        utils.wait_for_model_ready(client, "plain", timeout_s=5)
        assert utils.get_model_config(client, "plain", "1", 5).max_batch_size == 0
        assert utils.get_model_state(client, "plain") is utils.get_model_state(client, "plain", "1") is ModelState.READY
        assert utils.get_model_state(client, "plain", "2") is ModelState.UNAVAILABLE
        assert utils.get_model_state(client, "nope") is ModelState.UNAVAILABLE
        with pytest.raises(errors.PyTritonClientTimeoutError, match=r"^Waiting for model nope/2 "):
            utils.wait_for_model_ready(client, "nope", "2", 0.05)
        client.close()


def test_asyncio_functions_wait_for_servers_and_models(url: str) -> None:
    async def main() -> None:
        async with penstock.AsyncClient(url) as client:
            await asyncio_utils.asyncio_wait_for_server_ready(client, 0.01)
            await asyncio_utils.asyncio_wait_for_model_status_loaded(client, "plain", 0.01)
            assert await asyncio_utils.asyncio_get_model_state(client, "plain") is ModelState.READY
            assert (await asyncio_utils.asyncio_get_model_config(client, "plain")).model_name == "plain"
            with pytest.raises(errors.PyTritonClientTimeoutError, match="model nope to be ready"):
                await asyncio_utils.asyncio_wait_for_model_ready(client, "nope", timeout_s=0.1)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio_utils.asyncio_wait_for_model_status_loaded(client, "nope", 0.01), 0.1)

    asyncio.run(main())


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_models_are_loaded_and_unloaded(scheme: str, tmp_path: Path) -> None:
    Repository(tmp_path).put("a", "1", 2)
    code = MODEL.format(factor=3, before="", build="pass", call="pass", close="pass").encode()
    one = np.ones((1, 1), np.float32)
    options: Any = {"model_control": "explicit", "load_files": True}
    with Server(repository=tmp_path, http="127.0.0.1:0", grpc="127.0.0.1:0", **options) as server:
        url = server.http_url if scheme == "http" else f"grpc://{server.grpc_address}"
        with ModelClient(url, "a", init_timeout_s=20) as client:
            client.load_model()
            assert client.infer_batch(one)["y"].item() == 2
            client.load_model(config="{}", files={"file:1/model.py": code})
            assert client.infer_batch(one)["y"].item() == 3
            client.unload_model()
            with pytest.raises(errors.PyTritonClientInferenceServerError):
                client.infer_batch(one)
        with (
            ModelClient(url, "nope") as client,
            pytest.raises(errors.PyTritonClientInferenceServerError, match=r"^Model cannot be loaded\. Message: "),
        ):
            client.load_model()


def test_hooks_may_be_overridden(url: str) -> None:
    created: list[Any] = []

    class Counted(ModelClient):
        def create_client_from_url(self, url: str, network_timeout_s: float | None = None) -> penstock.Client:
            created.append((url, network_timeout_s))
            return super().create_client_from_url(url, network_timeout_s)

    with Counted(url, "plain", init_timeout_s=20) as client:
        assert client.get_lib() is penstock.Client
        client.infer_sample(A)
    assert created == [(url, 20)]
