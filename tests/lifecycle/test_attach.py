"""Models attached by another process, which clients use like any other model."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc import InferenceServerClient, InferInput

from http_by_hand import get, infer, metric_at, post
from models import attached_models as theirs
from penstock import (
    AlreadyExists,
    Answers,
    BindError,
    Client,
    ConfigError,
    Context,
    LoadError,
    Pipeline,
    Server,
    SignatureError,
    StartupError,
    Step,
    Unavailable,
    Warmup,
    attach,
    model,
)
from waiting import Gate, at_once, until

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@model(**theirs.FLOATS)
def own(x: Any) -> Any:
    return x


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"unix:{tmp_path}/attach.sock"


@pytest.fixture
def server(address: str) -> Iterator[Server]:
    with Server(own, http="127.0.0.1:0", grpc="127.0.0.1:0", attach=address) as running:
        yield running


def ready(url: str, name: str, version: str = "1") -> int:
    return get(url, f"/v2/models/{name}/versions/{version}/ready").status


def test_attached_model_is_served_over_rest_and_grpc(server: Server, address: str) -> None:
    with attach(address, theirs.double) as attached:
        assert attached.alive
        assert attached.models == [("double", "1")]
        assert ready(server.http_url, "double") == 200
        response = infer(server.http_url, "double", {"x": X})
        np.testing.assert_array_equal(response.array("y"), X * 2)
        with Client(server.http_url) as client:
            np.testing.assert_array_equal(client.infer("double", {"x": X})["y"], X * 2)
        with InferenceServerClient(server.grpc_url) as triton:
            tensor = InferInput("x", [2, 3], "FP32")
            tensor.set_data_from_numpy(X)
            np.testing.assert_array_equal(triton.infer("double", [tensor]).as_numpy("y"), X * 2)
        labels = {"model": "double", "version": "1"}
        assert metric_at(server.http_url, "penstock_processes", **labels) == 1
        assert get(server.http_url, "/v2/models/double/stats").json()["model_stats"][0]["inference_count"] == 6


def test_metadata_and_configuration_match_the_declaration(server: Server, address: str) -> None:
    native = [f"/v2/models/texts{path}" for path in ("", "/config")]
    with Server(theirs.texts, http="127.0.0.1:0", grpc=None) as other:
        expected = [get(other.http_url, path).json() for path in native]
    with attach(address, theirs.texts):
        documents = [get(server.http_url, path).json() for path in native]
        assert documents == expected
        assert documents[0]["versions"] == ["3"]
        description = get(server.http_url, "/openapi.json").body
        assert b"Echoes its inputs." in description


def test_texts_optional_inputs_parameters_and_metrics_are_transferred(server: Server, address: str) -> None:
    with attach(address, theirs.texts), Client(server.http_url) as client:
        documents = client.infer("texts", {"text": ["ab"], "raw": [b"c"]})
        assert documents["out"].tolist() in (["abc"], [b"abc"])
        assert documents.parameters["pid"] == os.getpid()
        assert metric_at(server.http_url, "length_count", model="texts", version="3") == 1


def test_large_tensors_are_transferred(server: Server, address: str) -> None:
    large = np.random.default_rng(7).random((1, 1_225_000), np.float32)
    with attach(address, theirs.double), Client(server.http_url) as client:
        for _ in range(3):
            np.testing.assert_array_equal(client.infer("double", {"x": large})["y"], large * 2)


def test_requests_of_several_clients_share_a_batch(server: Server, address: str) -> None:
    gate, sizes = Gate(), []

    @model(**theirs.ROWS)
    def gated(x: Any) -> Any:
        gate.enter()
        sizes.append(len(x))
        return x

    with attach(address, gated):
        url = server.http_url
        first = at_once([lambda: infer(url, "gated", {"x": X[:1]})])
        gate.await_entered()
        others = at_once([lambda n=n: infer(url, "gated", {"x": X[:1] + n}) for n in range(4)])
        waiting = lambda: metric_at(url, "penstock_queue_depth", model="gated", version="1")  # noqa: E731
        until(lambda: waiting() == 4, "four to wait")
        gate.open()
        for number, future in enumerate(others):
            np.testing.assert_array_equal(future.result().array("y"), X[:1] + number)
        assert first[0].result().status == 200
    assert sizes == [1, 4]


def test_streams_async_handlers_and_sequences_are_served(server: Server, address: str) -> None:
    with attach(address, theirs.counts, theirs.asynchronous, theirs.summing), Client(server.http_url) as client:
        chunks = [one["y"].tolist() for one in client.stream("counts", {"x": np.array([3], np.float32)})]
        assert chunks == [[0], [1], [2], [-1]]
        np.testing.assert_array_equal(client.infer("asynchronous", {"x": X})["y"], X + 1)
        sums = [
            infer(
                server.http_url,
                "summing",
                {"x": np.array([[number]], np.float32)},
                parameters={"sequence_id": 7, "sequence_start": number == 1, "sequence_end": number == 3},
            ).json()["outputs"][0]["data"]
            for number in (1, 2, 3)
        ]
        assert sums == [[1], [3], [6]]


def test_each_response_may_have_a_different_shape(server: Server, address: str) -> None:
    @model(check_shapes=False, **theirs.ROWS)
    def answering(x: Any, ctx: Context) -> Any:
        return Answers(np.full((one.rows, 2, 3), x[0, 0], np.float32) for one in ctx.requests)

    with attach(address, answering):
        response = infer(server.http_url, "answering", {"x": X[1:]})
        np.testing.assert_array_equal(response.array("y"), np.full((1, 2, 3), 3, np.float32))


def test_handler_exceptions_map_to_error_responses(server: Server, address: str) -> None:
    @model(**theirs.FLOATS)
    def picky(x: Any) -> Any:
        if x[0] < 0:
            raise ConfigError("not like this") if x[0] < -1 else AlreadyExists("there is one")
        return x

    with attach(address, picky) as attached:
        response = infer(server.http_url, "picky", {"x": np.array([-1], np.float32)})
        assert (response.status, response.error()) == (400, "there is one")
        assert infer(server.http_url, "picky", {"x": np.array([-2], np.float32)}).status == 500
        assert infer(server.http_url, "picky", {"x": np.array([1], np.float32)}).status == 200
        assert attached.alive


def test_warm_up_samples_run_before_the_model_is_ready(server: Server, address: str) -> None:
    seen: list[float] = []

    @model(warmup=Warmup([{"x": np.array([5], np.float32)}], repeat=2), instances=2, **theirs.FLOATS)
    def warm(x: Any) -> Any:
        seen.append(float(x[0]))
        return x

    with attach(address, warm):
        assert seen == [5.0] * 4
    with pytest.raises(LoadError, match="warm-up sample 0"):
        attach(address, warm.with_options(warmup=[{"x": np.zeros((1, 2, 3), np.float32)}]))
    assert ready(server.http_url, "warm") == 404


def test_more_models_and_versions_can_be_added(server: Server, address: str) -> None:
    with attach(address) as attached:
        assert attached.models == []
        attached.add(theirs.double)
        attached.add(theirs.double.with_options(version="2"), theirs.slow)
        assert [ready(server.http_url, *key) for key in attached.models] == [200, 200, 200]
    assert [ready(server.http_url, *key) for key in attached.models] == [404, 404, 404]


def test_attaching_an_existing_name_is_refused_before_the_build(server: Server, address: str) -> None:
    built: list[int] = []

    class Counting:
        def __init__(self) -> None:
            built.append(1)

        def __call__(self, x: Any) -> Any:
            return x

    counting = model(**theirs.FLOATS)(Counting)
    with attach(address, theirs.double) as attached:
        with pytest.raises(AlreadyExists, match="model 'double' version '1' is attached already"):
            attach(address, counting.with_options(name="double"))
        with pytest.raises(AlreadyExists, match="the server has a model 'own' of its own; attach it under another"):
            attached.add(counting.with_options(name="fresh"), counting.with_options(name="own", version="9"))
        with pytest.raises(StartupError, match="model 'fresh' version '1' is given twice"):
            attached.add(counting.with_options(name="fresh"), counting.with_options(name="fresh"))
        assert built == []
        # The refused attach left nothing behind.
        attached.add(counting.with_options(name="fresh"))
        assert built == [1]
        assert ready(server.http_url, "own") == ready(server.http_url, "double") == 200


def test_two_processes_attach_versions_of_one_model(server: Server, address: str) -> None:
    first, second = attach(address, theirs.double), attach(address, theirs.double.with_options(version="2"))
    first.detach()
    assert (ready(server.http_url, "double"), ready(server.http_url, "double", "2")) == (404, 200)
    assert second.alive
    second.detach()
    assert get(server.http_url, "/v2/models/double").status == 404


@pytest.mark.parametrize("action", ["load", "unload"])
def test_clients_cannot_load_or_unload_attached_models(address: str, tmp_path: Path, action: str) -> None:
    (tmp_path / "models").mkdir()
    options: dict[str, Any] = {"repository": str(tmp_path / "models"), "model_control": "explicit"}
    with Server(http="127.0.0.1:0", grpc=None, attach=address, **options) as server, attach(address, theirs.double):
        response = post(server.http_url, f"/v2/repository/models/double/{action}", b"{}")
        assert response.status == 400
        assert response.error() == "model 'double' is attached by another process, and only that can take it away"
        assert ready(server.http_url, "double") == 200


def test_reload_does_not_replace_an_attached_model(server: Server, address: str) -> None:
    with attach(address, theirs.double):
        server.reload(lambda: [own.with_options(description="new")])
        with pytest.raises(Exception, match="is attached by another process"):
            server.reload(lambda: [own, own.with_options(name="double")])
        assert ready(server.http_url, "double") == ready(server.http_url, "own") == 200


def test_failed_build_raises_the_original_exception(server: Server, address: str) -> None:
    with pytest.raises(LoadError, match="model 'failing' version '1' could not be loaded: RuntimeError") as raised:
        attach(address, theirs.double, theirs.failing)
    assert str(raised.value.__cause__) == "the weights are not there"
    assert ready(server.http_url, "double") == ready(server.http_url, "failing") == 404


def test_process_instances_and_models_with_peers_cannot_be_attached(server: Server, address: str) -> None:
    with attach(address) as attached:
        with pytest.raises(SignatureError, match="an attached model has threads"):
            attached.add(theirs.in_a_process)
        both = Pipeline("both", [Step("double")], inputs=["x"], outputs=["y"])
        with pytest.raises(SignatureError, match="model 'both' calls other models"):
            attached.add(theirs.double, both)
        with pytest.raises(SignatureError, match="model 'calling' calls other models"):
            attached.add(theirs.double, own.with_options(name="calling", calls=["double"]))


def test_socket_is_found_by_the_servers_ports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with Server(own, http="127.0.0.1:0", grpc="127.0.0.1:0", attach="auto") as server:
        port = server.http_url.rpartition(":")[2]
        folder = tmp_path / "penstock"
        socket_path = folder / f"attach-{port}.sock"
        assert server.attach_address == f"unix:{socket_path}"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(socket_path.stat().st_mode) == 0o600
        for address in (server.http_url, f"localhost:{port}", server.grpc_url, f"grpc://{server.grpc_url}"):
            with attach(address, theirs.double):
                assert ready(server.http_url, "double") == 200
        assert str(tmp_path).encode() not in get(server.http_url, "/v2").body
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda folder: folder.chmod(0o755), "is open to other users; its mode must be 0700"),
        (lambda folder: (folder.rmdir(), folder.symlink_to("/tmp")), "is not a folder"),
        (lambda folder: (folder.rmdir(), folder.write_text("")), "is not a folder"),
    ],
)
def test_untrusted_socket_folder_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spoil: Any, problem: str
) -> None:
    monkeypatch.setattr("penstock._attach.socket_path._folders", lambda: [str(tmp_path / "penstock")])
    (tmp_path / "penstock").mkdir(0o700)
    spoil(tmp_path / "penstock")
    with pytest.raises(BindError, match=problem):
        Server(own, http="127.0.0.1:0", grpc=None, attach="auto").start()
    with pytest.raises(Unavailable, match=problem):
        attach("http://localhost:1", own, timeout=0)


def test_untrusted_folder_does_not_hide_a_trusted_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, mode in ((first, 0o755), (second, 0o700)):
        folder.mkdir()
        folder.chmod(mode)
    monkeypatch.setattr("penstock._attach.socket_path._folders", lambda: [str(second), str(first)])
    with Server(http="127.0.0.1:0", grpc=None, attach="auto") as server:
        monkeypatch.setattr("penstock._attach.socket_path._folders", lambda: [str(first), str(second)])
        with attach(server.http_url, theirs.double):
            assert ready(server.http_url, "double") == 200


def test_stale_socket_is_replaced_and_live_socket_is_kept(address: str) -> None:
    path = address.removeprefix("unix:")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as left_over:
        left_over.bind(path)
    with Server(own, http="127.0.0.1:0", grpc=None, attach=address) as server, attach(address, theirs.double):
        with pytest.raises(BindError, match=r"attach: cannot listen on unix:.*Address already in use"):
            Server(own, http="127.0.0.1:0", grpc=None, attach=address).start()
        assert ready(server.http_url, "double") == 200
    assert not os.path.exists(path)
    Path(path).write_text("something else")
    with pytest.raises(BindError, match=r"attach: cannot listen on unix:.*Address already in use"):
        Server(own, http="127.0.0.1:0", grpc=None, attach=address).start()


@pytest.mark.parametrize(
    ("address", "error", "problem"),
    [
        ("unix:", ConfigError, "has no path"),
        ("ftp://localhost:1", ConfigError, "is not an address: expected http://HOST:PORT"),
        ("http://localhost:port", ConfigError, "is not an address"),
        ("http://192.0.2.1:8000", ConfigError, "is not on this machine"),
        ("unix:/nowhere/attach.sock", Unavailable, "no server is there that was started with attach"),
        ("http://localhost:1", Unavailable, "no server is there that was started with attach"),
    ],
)
def test_missing_server_is_reported(address: str, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        attach(address, own, timeout=0)


def test_attach_waits_for_the_server_to_start(address: str) -> None:
    [waiting] = at_once([lambda: attach(address, theirs.double)])
    with Server(own, http="127.0.0.1:0", grpc=None, attach=address) as server, waiting.result():
        assert ready(server.http_url, "double") == 200


@pytest.mark.parametrize("value", ["yes", "unix:", "unix:relative", "unix:/folder/", "127.0.0.1:1"])
def test_invalid_attach_settings_are_rejected(value: str) -> None:
    with pytest.raises(ConfigError, match=r"attach: .* is not unix:/path, auto or off"):
        Server(own, attach=value)


def test_attach_auto_requires_a_port(tmp_path: Path) -> None:
    with pytest.raises(BindError, match="attach: auto is found by a port, and the server listens on none"):
        Server(own, http=f"unix:{tmp_path}/http.sock", grpc=None, attach="auto").start()
