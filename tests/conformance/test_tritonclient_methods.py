"""Every public method of tritonclient's four clients, found by introspection (cases G1, G2 and G3)."""

from __future__ import annotations

import asyncio
import inspect
import queue
import sys
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from models.protocol import MODELS
from models.streams import stream3
from penstock import Server
from repositories import Repository

from .test_tritonclient import MODULES

X = np.arange(2000, dtype=np.float32)
"""Large enough for a compressed response, if the client accepts one."""
BOTH = 2 * X.nbytes
KINDS = list(MODULES)


class Clients:
    """Makes clients of one kind, and calls them: a coroutine is run to its end."""

    def __init__(self, kind: str, server: Server) -> None:
        self.kind, self.module, self.url = kind, MODULES[kind], server.http_url
        self.is_http, self.is_aio = "http" in kind, kind.endswith("aio")
        self.address = server.http_url.removeprefix("http://") if self.is_http else server.grpc_url

    def run(self, use: Callable[[Any], Any]) -> Any:
        """Result of `use` with a new client; coroutines in a list are awaited in order."""

        async def awaited(got: Any) -> Any:
            return await got if inspect.isawaitable(got) else got

        async def run_coroutine() -> Any:
            async with self.module.InferenceServerClient(self.address) as client:
                got = use(client)
                return [await awaited(one) for one in got] if isinstance(got, list) else await awaited(got)

        if self.is_aio:
            return asyncio.run(run_coroutine())
        with self.module.InferenceServerClient(self.address) as client:
            return use(client)

    def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        return self.run(lambda client: getattr(client, method)(*arguments, **options))

    def inputs(self) -> list[Any]:
        tensor = self.module.InferInput("x", [X.size], "FP32")
        tensor.set_data_from_numpy(X)
        return [tensor]

    def number(self, value: int) -> list[Any]:
        tensor = self.module.InferInput("n", [1], "INT32")
        tensor.set_data_from_numpy(np.array([value], np.int32))
        return [tensor]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    repository = Repository(tmp_path_factory.mktemp("methods") / "models")
    repository.put("times", "1", 3)
    options: Any = {"repository": repository.path, "model_control": "explicit"}
    options |= {"shared_memory": "local", "compress_answers": True, "grpc_compression": "gzip"}
    with Server(*MODELS, stream3, http="127.0.0.1:0", grpc="127.0.0.1:0", **options) as server:
        yield server


def health(clients: Clients) -> None:
    assert clients.call("is_server_live")
    assert clients.call("is_server_ready")
    assert clients.call("is_model_ready", "add")
    assert not clients.call("is_model_ready", "times")


def metadata(clients: Clients) -> None:
    for method in ("get_server_metadata", "get_model_metadata", "get_model_config"):
        name = () if "server" in method else ("add",)
        got = clients.call(method, *name)
        got = getattr(got, "config", got)
        assert (got["name"] if clients.is_http else got.name) == (*name, "penstock")[0]


def infer(clients: Clients) -> None:
    result = clients.call("infer", "ident_FP32", clients.inputs(), request_id="7")
    assert result.as_numpy("y").tolist() == X.tolist()
    assert result.as_numpy("zzz") is None
    assert result.get_output("zzz") is None


def async_infer(clients: Clients) -> None:
    if clients.is_http:
        got = clients.call("async_infer", "ident_FP32", clients.inputs()).get_result()
        assert got.as_numpy("y").tolist() == X.tolist()
        return
    results: queue.Queue[Any] = queue.Queue()

    def send_requests(client: Any) -> Any:
        client.async_infer("ident_FP32", clients.inputs(), lambda result, error: results.put((result, error)))
        return results.get(timeout=20)

    result, error = clients.run(send_requests)
    assert error is None
    assert result.as_numpy("y").tolist() == X.tolist()


def streams(clients: Clients) -> None:
    results: queue.Queue[Any] = queue.Queue()

    def send_requests(client: Any) -> list[int]:
        client.start_stream(callback=lambda result, error: results.put((result, error)))
        client.async_stream_infer("stream3", clients.number(5))
        got = [results.get(timeout=20)[0].as_numpy("i")[0] for _ in range(3)]
        client.stop_stream()
        return got

    assert clients.run(send_requests) == [5, 6, 7]


def stream_infer(clients: Clients) -> None:
    async def requests() -> Any:
        yield {"model_name": "stream3", "inputs": clients.number(5)}

    async def send_requests(client: Any) -> list[int]:
        return [result.as_numpy("i")[0] async for result, _ in client.stream_infer(requests())]

    assert clients.run(send_requests) == [5, 6, 7]


def bodies(clients: Clients) -> None:
    """Bodies built and parsed by the client, but sent by another library."""
    kind = clients.module.InferenceServerClient
    body, length = kind.generate_request_body(clients.inputs())
    request = urllib.request.Request(f"{clients.url}/v2/models/ident_FP32/infer", body)
    request.add_header("Inference-Header-Content-Length", str(length))
    with urllib.request.urlopen(request, timeout=20) as reply:
        split = int(reply.headers["Inference-Header-Content-Length"])
        result = kind.parse_response_body(reply.read(), header_length=split)
    assert result.as_numpy("y").tolist() == X.tolist()


def repository(clients: Clients) -> None:
    clients.call("load_model", "times", config='{"max_batch_size": 4}')
    assert clients.call("is_model_ready", "times")
    index = clients.call("get_model_repository_index")
    names = {row["name"] for row in index} if clients.is_http else {row.name for row in index.models}
    assert {"add", "times"} <= names
    clients.call("unload_model", "times", unload_dependents=True)
    assert not clients.call("is_model_ready", "times")


def settings(clients: Clients) -> None:
    clients.call("update_log_settings", {"log_verbose_level": 0})
    assert clients.call("get_log_settings")
    clients.call("update_trace_settings", "add", {"trace_rate": "5"})
    clients.call("update_trace_settings", "add", {"trace_rate": None})
    assert clients.call("get_trace_settings", "add")
    assert clients.call("get_inference_statistics", "add")


def system_memory(clients: Clients) -> None:
    import tritonclient.utils.shared_memory as memory

    name = f"methods-{clients.kind}"
    handle = memory.create_shared_memory_region(name, f"/penstock-{name}", BOTH)
    try:
        memory.set_shared_memory_region(handle, [X])
        clients.call("register_system_shared_memory", name, f"/penstock-{name}", BOTH)
        assert clients.call("get_system_shared_memory_status", name)
        tensor_in = clients.module.InferInput("x", [X.size], "FP32")
        tensor_in.set_shared_memory(name, X.nbytes)
        requested = clients.module.InferRequestedOutput("y")
        requested.set_shared_memory(name, X.nbytes, offset=X.nbytes)
        clients.call("infer", "ident_FP32", [tensor_in], outputs=[requested])
        assert memory.get_contents_as_numpy(handle, np.float32, [X.size], offset=X.nbytes).tolist() == X.tolist()
        requested.unset_shared_memory()
        assert (
            clients.call("infer", "ident_FP32", [tensor_in], outputs=[requested]).as_numpy("y").tolist() == X.tolist()
        )
        clients.call("unregister_system_shared_memory", name)
    finally:
        memory.destroy_shared_memory_region(handle)


def cuda_memory(clients: Clients) -> None:
    clients.call("unregister_cuda_shared_memory")
    status = clients.call("get_cuda_shared_memory_status")
    assert not (status if clients.is_http else status.regions)
    with pytest.raises(InferenceServerException, match="no GPU support"):
        clients.call("register_cuda_shared_memory", "r", b"aGFuZGxl", 0, 8)


def plugins(clients: Clients) -> None:
    from tritonclient._plugin import InferenceServerClientPlugin

    class Named(InferenceServerClientPlugin):  # type: ignore[misc]
        def __call__(self, request: Any) -> None:
            request.headers["x-mine"] = "yes"

    def use(client: Any) -> Any:
        client.register_plugin(plugin)
        assert client.plugin() is plugin
        got = client.is_server_live()
        return [got] if clients.is_aio else got

    plugin = Named()
    assert clients.run(use) in (True, [True])

    def unregister(client: Any) -> None:
        client.register_plugin(plugin)
        client.unregister_plugin()
        assert client.plugin() is None

    clients.run(unregister)


def close(clients: Clients) -> None:
    """Closes the client twice: no connection is open that could fail."""
    clients.call("close")


METHODS: dict[Callable[[Clients], None], tuple[str, ...]] = {
    health: ("is_server_live", "is_server_ready", "is_model_ready"),
    metadata: ("get_server_metadata", "get_model_metadata", "get_model_config"),
    infer: ("infer",),
    async_infer: ("async_infer",),
    streams: ("start_stream", "async_stream_infer", "stop_stream"),
    stream_infer: ("stream_infer",),
    bodies: ("generate_request_body", "parse_response_body"),
    repository: ("load_model", "unload_model", "get_model_repository_index"),
    settings: (
        *("get_log_settings", "update_log_settings", "get_trace_settings", "update_trace_settings"),
        "get_inference_statistics",
    ),
    system_memory: tuple(
        f"{verb}_system_shared_memory{rest}"
        for verb, rest in (("get", "_status"), ("register", ""), ("unregister", ""))
    ),
    cuda_memory: tuple(
        f"{verb}_cuda_shared_memory{rest}" for verb, rest in (("get", "_status"), ("register", ""), ("unregister", ""))
    ),
    plugins: ("plugin", "register_plugin", "unregister_plugin"),
    close: ("close",),
}
"""The function that uses each method."""


def methods(kind: str) -> set[str]:
    members = inspect.getmembers(MODULES[kind].InferenceServerClient, callable)
    return {name for name, _ in members if not name.startswith("_")}


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_is_used(kind: str) -> None:
    assert not methods(kind) - {name for names in METHODS.values() for name in names}


@pytest.mark.parametrize(
    ("kind", "use"),
    [
        pytest.param(kind, use, id=f"{kind}-{use.__name__}")
        for kind in KINDS
        for use, names in METHODS.items()
        if set(names) & methods(kind)
    ],
)
def test_methods(everything: Server, kind: str, use: Callable[[Clients], None]) -> None:
    assert set(METHODS[use]) <= methods(kind), "the test uses a method that this client lacks"
    if use is system_memory and sys.platform != "linux":
        pytest.skip("shared memory objects are files on Linux only")
    use(Clients(kind, everything))
