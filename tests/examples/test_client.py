"""The client example: its output matches the README over REST, gRPC and Unix sockets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from penstock import Server

Load = Callable[[str], ModuleType]

README = Path(__file__).resolve().parents[2] / "examples" / "client" / "README.md"


@pytest.fixture(scope="module")
def urls(example: Load, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    app = example("app")
    models = (app.similarity, app.spell, app.running_mean)
    http, grpc = (tmp_path_factory.mktemp("sockets") / name for name in ("http", "grpc"))
    with (
        Server(*models, http="127.0.0.1:0", grpc="127.0.0.1:0") as tcp,
        Server(*models, http=f"unix:{http}", grpc=f"unix:{grpc}"),
    ):
        yield {
            "http": tcp.http_url,
            "grpc": f"grpc://{tcp.grpc_address}",
            "unix": f"unix:{http}",
            "grpc+unix": f"grpc+unix:{grpc}",
        }


@pytest.mark.parametrize("kind", ["http", "grpc", "unix", "grpc+unix"])
def test_client_output_matches_the_readme(
    example: Load, urls: dict[str, str], capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    example("ask").main([urls[kind]])
    expected = re.search(r"It prints\n\n```\n(.*?)```", README.read_text(), re.DOTALL)
    assert expected
    assert capsys.readouterr().out == expected[1]
