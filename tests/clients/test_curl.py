"""curl: the command that a started server prints, and large bodies over every HTTP version (case G10)."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from serving_process import Serving

MODELS = {
    "array": (
        "import numpy as np\nfrom penstock import Batching, Tensor, model\n"
        "@model(inputs=[Tensor('x', np.float32, [4])], outputs=[Tensor('y', np.float32, [4])], batching=Batching(8))\n"
        "def served(x):\n    return x * 2\n",
        {"data": [2, 2, 2, 2], "shape": [1, 4]},
    ),
    "large-array": (
        "import numpy as np\nfrom penstock import Tensor, model\n"
        "@model(inputs=[Tensor('x', np.float32, [64, 64]), Tensor('names', bytes, [2])],"
        " outputs=[Tensor('sum', np.float32)])\n"
        "def served(x, names):\n    return x.sum() + np.float32(len(names))\n",
        {"data": [2], "shape": []},
    ),
    "plain": (
        "from penstock import model\n@model\ndef served(name: str, times: int = 2) -> str:\n    return name * times\n",
        "texttext",
    ),
    "document": (
        "import dataclasses\nfrom penstock import model\n"
        "@dataclasses.dataclass\nclass Order:\n    item: str\n    count: int = 3\n"
        "@model\ndef served(order: Order) -> list[str]:\n    return [order.item] * order.count\n",
        ["text"] * 3,
    ),
    "quotes": (
        "from penstock import Tensor, model\n"
        "@model(inputs=[Tensor(\"it's $HOME\", bytes, [1])], outputs=[Tensor('y', bytes, [1])])\n"
        "def served(x):\n    return x\n",
        {"data": ["text"], "shape": [1]},
    ),
    "versions": (
        "from penstock import model\n@model(version=2)\ndef served(x: int) -> int:\n    return x + 1\n"
        "newer = served.with_options(version=10)\n",
        2,
    ),
}


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
@pytest.mark.parametrize(("source", "expected"), MODELS.values(), ids=MODELS)
def test_printed_curl_command_runs(
    source: str, expected: Any, unix: bool, tmp_path: Path, curl: Callable[..., Any]
) -> None:
    (tmp_path / "app.py").write_text(source)
    address = f"unix:{tmp_path}/it's a socket" if unix else "127.0.0.1:0"
    with Serving("app.py", "--http", address, "--grpc", "off", folder=tmp_path) as server:
        (line,) = re.findall(r"^try   (.+)$", server.out, re.MULTILINE)
        done = subprocess.run(["bash", "-c", line], check=False, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    if not isinstance(expected, dict):
        assert answer == expected
        return
    (output,) = answer["outputs"]
    assert {key: output[key] for key in expected} == expected


def test_curl_command_of_model_without_example_gets_metadata(tmp_path: Path, curl: Callable[..., Any]) -> None:
    (tmp_path / "app.py").write_text(
        "import dataclasses\nfrom penstock import model\n"
        "@dataclasses.dataclass\nclass Endless:\n    next: 'Endless'\n"
        "@model\ndef served(order: Endless) -> int:\n    return 1\n"
    )
    with Serving("app.py", "--http", "127.0.0.1:0", "--grpc", "off", folder=tmp_path) as server:
        (line,) = re.findall(r"^try   (.+)$", server.out, re.MULTILINE)
        done = subprocess.run(["bash", "-c", line], check=False, capture_output=True, text=True, timeout=20)
    assert json.loads(done.stdout)["name"] == "served"


def test_curl_accepts_compressed_responses(tmp_path: Path, curl: Callable[..., Any]) -> None:
    (tmp_path / "app.py").write_text(
        "import numpy as np\nfrom penstock import Tensor, model\n"
        "@model(inputs=[Tensor('x', np.float32, [-1])], outputs=[Tensor('y', np.float32, [-1])])\n"
        "def served(x):\n    return np.zeros(5000, np.float32)\n"
    )
    body = '{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}]}'
    with Serving("app.py", "--http", "127.0.0.1:0", "--grpc", "off", "--compress-answers", folder=tmp_path) as server:
        command = ["curl", "-sS", "--compressed", "-D", str(tmp_path / "head"), "-d", body]
        done = subprocess.run(
            [*command, f"{server.http}/v2/models/served/infer"], check=True, capture_output=True, text=True, timeout=20
        )
    assert "content-encoding: " in (tmp_path / "head").read_text().lower()
    assert json.loads(done.stdout)["outputs"][0]["data"] == [0] * 5000


@pytest.fixture(scope="module")
def large_body() -> bytes:
    """A request of 1.2 MB, which curl sends with `Expect: 100-continue`."""
    data = [[0.5] * 4 for _ in range(8)]
    tensor = {"name": "x", "datatype": "FP32", "shape": [8, 4], "data": data}
    return json.dumps({"padding": "x" * 1_200_000, "inputs": [tensor]}).encode()


@pytest.mark.parametrize(
    ("options", "version"),
    [
        ((), "1.1"),
        (("-H", "Transfer-Encoding: chunked"), "1.1"),
        (("-0",), "1"),
        (("--http2",), "1.1"),
        (("--http2-prior-knowledge",), "2"),
    ],
    ids=["plain", "chunked", "http-1.0", "upgrade", "prior-knowledge"],
)
def test_curl_sends_large_bodies_over_every_http_version(
    options: tuple[str, ...], version: str, large_body: bytes, server: Serving, tmp_path: Path, curl: Callable[..., Any]
) -> None:
    (tmp_path / "body").write_bytes(large_body)
    arguments = ("--data-binary", f"@{tmp_path / 'body'}", "-w", "\n%{http_code} %{http_version}", *options)
    response, status_and_version = curl("-sS", f"{server.http}/v2/models/double/infer", *arguments).stdout.rsplit(
        "\n", 1
    )
    assert json.loads(response)["outputs"][0]["data"] == [1] * 32
    assert status_and_version == f"200 {version}"


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_curl_compressed_flag_works_over_every_http_version(
    version: str, server: Serving, curl: Callable[..., Any]
) -> None:
    # This server does not compress; a client that accepts compression must still work.
    metadata = json.loads(curl("-sS", "--compressed", version, f"{server.http}/v2/models/double").stdout)
    assert metadata["name"] == "double"
