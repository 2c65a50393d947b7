"""Management calls of the client: per-call headers, and loading models from files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from native_models import double
from penstock import AsyncClient, Client, Forbidden, InvalidInput, Server, Unsupported
from repositories import MODEL, Repository

CATEGORIES = "health,metadata,model-config,model-repository,statistics"


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_per_call_headers_authorize_management_calls(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_SECRET", "s" * 16)
    rules = f"{CATEGORIES}:x-key=env:THE_SECRET"
    with Server(double, http="127.0.0.1:0", grpc="127.0.0.1:0", restricted_access=rules) as server:
        url = server.http_url if scheme == "http" else f"grpc://{server.grpc_address}"
        prefix = "" if scheme == "http" else "triton-grpc-protocol-"
        key = {f"{prefix}x-key": "s" * 16}
        with Client(url) as client:
            for call in (client.live, client.ready, client.server_metadata, client.index, client.statistics):
                assert call(headers=key)
                with pytest.raises(Forbidden):
                    call()
            for model_call in (client.model_ready, client.metadata, client.config):
                assert model_call("double", headers=key)
                with pytest.raises(Forbidden):
                    model_call("double")

        async def main() -> None:
            async with AsyncClient(url) as client:
                assert await client.ready(headers=key)
                assert (await client.config("double", headers=key))["name"] == "double"
                with pytest.raises(Forbidden):
                    await client.config("double")

        asyncio.run(main())


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_load_accepts_model_files(scheme: str, tmp_path: Path) -> None:
    repository = Repository(tmp_path / "models")
    repository.put("a", "1", 2)
    code = MODEL.format(factor=3, before="", build="pass", call="pass", close="pass").encode()
    x = np.ones((1, 1), np.float32)
    options: Any = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0", "load_files": True}
    with Server(repository=repository.path, model_control="explicit", load_models="a", **options) as server:
        url = server.http_url if scheme == "http" else f"grpc://{server.grpc_address}"
        with Client(url) as client:
            assert client.infer("a", x=x).value.item() == 2
            client.load("a", config={}, files={"file:1/model.py": code})
            assert client.infer("a", x=x).value.item() == 3
            client.load("a")
            assert client.infer("a", x=x).value.item() == 2
            with pytest.raises(InvalidInput, match="config"):
                client.load("a", files={"file:1/model.py": code})
            client.unload("a")

        async def main() -> None:
            async with AsyncClient(url) as client:
                await client.load("b", config={}, files={"file:1/model.py": code})
                assert (await client.infer("b", x=x)).value.item() == 3
                await client.unload("b")

        asyncio.run(main())


def test_load_files_is_unsupported_by_default(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "models")
    repository.put("a", "1", 2)
    with (
        Server(repository=repository.path, model_control="explicit", http="127.0.0.1:0", grpc=None) as server,
        Client(server.http_url) as client,
        pytest.raises(Unsupported),
    ):
        client.load("a", config={}, files={"file:1/model.py": b""})
