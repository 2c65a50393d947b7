"""Handlers in processes: arrays, context, streams and sequences work as on threads."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from http_by_hand import connect, get, infer, metric, metric_at
from models import in_processes
from penstock import HandlerError, InvalidInput, LoadError, Overloaded, Processes, Server, SignatureError, model
from penstock.testing import Client
from waiting import at_once, until

SERVED = (
    in_processes.same,
    in_processes.double,
    in_processes.retaining,
    in_processes.echo_context,
    in_processes.chunks,
    in_processes.refuses,
    in_processes.every,
)

VALUES: dict[str, Any] = {
    "BOOL": np.array([True, False]),
    **{f"UINT{bits}": np.array([0, 2**bits - 1], f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": np.array([-(2 ** (bits - 1)), 7], f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    "FP16": np.array([1.5, -2], np.float16),
    "BF16": np.array([1.5, -2], np.float32),
    "FP32": np.array([np.pi, np.inf], np.float32),
    "FP64": np.array([np.pi, -0.0]),
    "BYTES": np.array([b"", b"\x00\xff", "ü".encode()], object),
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client(*SERVED) as client:
        yield client


def inputs_of(*numbers: float) -> dict[str, Any]:
    return {"x": np.array(numbers, np.float32)}


def counter_value(client: Client, name: str, counter: str) -> float:
    exposition = client.get("/metrics").body.decode()
    return metric(exposition, "penstock_custom_total", model=name, version="1", name=counter)


def test_every_datatype_round_trips(client: Client) -> None:
    outputs = client.infer("every", VALUES)
    assert outputs.keys() == VALUES.keys()
    for name, value in VALUES.items():
        assert outputs[name].tolist() == value.tolist(), name
        assert outputs[name].dtype == value.dtype, name


@pytest.mark.parametrize("name", VALUES)
def test_optional_inputs_may_be_absent_or_empty(client: Client, name: str) -> None:
    outputs = client.infer("every", {name: VALUES[name]})
    assert {other: len(array) for other, array in outputs.items() if len(array)} == {name: len(VALUES[name])}
    empty = client.infer("every", {name: VALUES[name][:0]})
    assert not any(len(array) for array in empty.values())


@pytest.mark.parametrize("width", [0, 1, 15, 16_000, 17_000, 1_300_000, 3])
def test_tensors_of_all_sizes_round_trip(client: Client, width: int) -> None:
    x = np.random.default_rng(width).random((3, width), np.float32)
    for name, factor in (("same", 1), ("double", 2)):
        assert np.array_equal(client.infer(name, {"x": x})["y"], x * factor)


def test_requests_of_a_shared_batch_receive_their_own_rows(client: Client) -> None:
    def doubles(number: int) -> bool:
        x = np.full((1 + number % 3, 40), number, np.float32)
        return np.array_equal(client.infer("double", {"x": x})["y"], x * 2)

    futures = at_once([partial(doubles, number) for number in range(60)])
    assert all(future.result() for future in futures)
    sizes = client.get("/metrics").body.decode()
    batches = metric(sizes, "penstock_batch_size_count", model="double", version="1")
    assert metric(sizes, "penstock_batch_size_sum", model="double", version="1") > batches


def test_arrays_may_be_written_and_retained(client: Client) -> None:
    expected: list[float] = []
    for number in range(40):
        expected.append(number + 100)
        # Large and small inputs alternate, so that the shared regions grow.
        x = np.full(10 if number % 2 else 50_000, number, np.float32)
        assert client.infer("retaining", {"x": x})["y"].tolist() == expected


def test_outputs_stay_valid_while_referenced(client: Client) -> None:
    responses = [client.infer("double", {"x": np.full((1, 100_000), number, np.float32)})["y"] for number in range(50)]
    for number, response in enumerate(responses):
        assert (response == 2 * number).all()


def test_context_attributes_and_parameters_work(client: Client) -> None:
    client.infer(
        "echo_context",
        inputs_of(5),
        request_id="r-7",
        parameters={"stop": "here", "timeout": 5_000_000, "priority": 0},
        headers={"X-Colour": "blue"},
    )
    assert client.last_response is not None
    attributes = client.last_response.json()["parameters"]
    assert 4 < attributes.pop("left") <= 5
    assert attributes == {"id": "r-7", "stop": "here", "header": "blue", "priority": 0, "where": "echo_context 1 1"}
    assert counter_value(client, "echo_context", "seen") == 2.5


def test_client_disconnect_is_visible_to_the_handler(tmp_path: Path) -> None:
    started = tmp_path / "begun"
    with Server(in_processes.patient, http="127.0.0.1:0", grpc=None) as server:
        x = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}
        body = json.dumps({"id": str(started), "inputs": [x]}).encode()
        connection = connect(server.http_url)
        head = f"POST /v2/models/patient/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        until(started.exists, "the handler to start")
        connection.shutdown(socket.SHUT_RDWR)
        connection.close()
        labels = {"model": "patient", "version": "1", "name": "left"}
        until(
            lambda: 'name="left"' in get(server.http_url, "/metrics").body.decode(),
            "the handler to notice the disconnect",
        )
        assert metric_at(server.http_url, "penstock_custom_total", **labels) == 1


def test_errors_of_the_handler_keep_their_class(client: Client) -> None:
    with pytest.raises(InvalidInput, match="x must not be 1"):
        client.infer("refuses", inputs_of(1))
    with pytest.raises(Overloaded, match="too much"):
        client.infer("refuses", inputs_of(2))
    with pytest.raises(HandlerError, match="returned an output named z, declared 'y'"):
        client.infer("refuses", inputs_of(3))
    assert client.infer("refuses", inputs_of(4))["y"].tolist() == [4]


def events(client: Client, *numbers: float) -> list[Any]:
    response = client.post("/v2/models/chunks/generate_stream", json.dumps({"x": numbers}))
    assert response.status == 200, response.body
    return [json.loads(event.removeprefix("data: ")) for event in response.body.decode().split("\n\n")[:-1]]


@pytest.mark.parametrize("count", [0, 1, 5, 200])
def test_generator_streams(client: Client, count: int) -> None:
    chunks = events(client, count)
    assert [chunk["y"] for chunk in chunks] == [*range(count)]


def test_large_chunks_stream(client: Client) -> None:
    chunks = events(client, 70, -1, 0, 20_000)
    assert [(chunk["y"][0], len(chunk["y"])) for chunk in chunks] == [(index, 20_000) for index in range(70)]


def test_raising_generator_ends_its_stream_with_the_error(client: Client) -> None:
    *chunks, last = events(client, 5, 2, 8)
    assert [chunk["y"] for chunk in chunks] == [0, 1]
    assert last["error"] == "model 'chunks' failed: RuntimeError"
    assert [chunk["y"] for chunk in events(client, 2)] == [0, 1]


def test_process_exit_ends_its_stream_with_the_reason(client: Client) -> None:
    *chunks, last = events(client, 5, 2, 2)
    assert [chunk["y"] for chunk in chunks] == [0, 1]
    assert last["error"] == "model 'chunks': its process was killed by SIGKILL"
    until(lambda: client.get("/v2/models/chunks/ready").status == 200, "the process to restart")
    assert [chunk["y"] for chunk in events(client, 2)] == [0, 1]


def test_client_disconnect_closes_the_generator() -> None:
    with Server(in_processes.chunks, http="127.0.0.1:0", grpc=None) as server:
        body = json.dumps({"x": [1e6, -1, 0, 1000]}).encode()
        connection = connect(server.http_url)
        head = (
            f"POST /v2/models/chunks/generate_stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        assert connection.recv(100)
        connection.close()
        until(lambda: 'name="closed"' in get(server.http_url, "/metrics").body.decode(), "the generator to be closed")


def step(url: str, identifier: int, value: float, **flags: bool) -> Any:
    parameters = {"sequence_id": identifier, **{f"sequence_{flag_name}": flag for flag_name, flag in flags.items()}}
    response = infer(url, "sums", inputs_of(value), parameters=parameters)
    return response.json()["outputs"][0]["data"] if response.status == 200 else response.error()


def test_sequences_retain_state_and_stay_on_one_process() -> None:
    with Server(in_processes.Sums, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        process_ids = {}
        for identifier in (1, 2, 3, 4):
            total, process_ids[identifier] = step(url, identifier, identifier, start=True)
            assert total == identifier
        assert len(set(process_ids.values())) == 2
        for identifier in (4, 3, 2, 1):
            assert step(url, identifier, 10) == [identifier + 10, process_ids[identifier]]
        # The process ends, and its sequences are lost.
        assert step(url, 1, -2) == "model 'sums': its process was killed by SIGKILL"
        lost_sequences = [identifier for identifier in process_ids if process_ids[identifier] == process_ids[1]]
        for identifier, process_id in process_ids.items():
            response = step(url, identifier, 1)
            if identifier in lost_sequences:
                assert response.startswith(f"sequence {identifier} must begin with sequence_start: it is not active")
            else:
                assert response == [identifier + 11, process_id]
        assert step(url, 1, 5, start=True)[0] == 5
        assert step(url, 1, 5, end=True)[0] == 10


def test_each_process_has_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with Client(in_processes.Settings) as client:
        futures = at_once([partial(client.infer, "settings", inputs_of(0))] * 8)
        responses = [future.result()["y"].tolist() for future in futures]
    assert {devices for devices, _ in responses} == {3, 45}
    assert all(right == 1 for _, right in responses)
    assert "COLOUR" not in os.environ


def test_local_functions_are_pickled_to_the_process() -> None:
    factor = np.float32(3)

    def triple(x: Any) -> Any:
        return x * factor

    named = model(triple, name="named", instances=Processes(1), **in_processes.FLOATS)
    nameless = model(lambda x: x + factor, name="nameless", instances=Processes(1), **in_processes.FLOATS)

    @model(instances=Processes(1))
    def greet(name: str, times: int = 1) -> list[str]:
        return [f"hello {name} {factor:g}"] * times

    renamed = in_processes.double.with_options(name="renamed", instances=Processes(1))
    with Client(named, nameless, greet, renamed) as client:
        assert client.infer("greet", {"name": "you", "times": 2})["output"].tolist() == [b"hello you 3"] * 2
        assert client.infer("renamed", {"x": np.ones((1, 2), np.float32)})["y"].tolist() == [[2, 2]]
        assert client.infer("named", inputs_of(2))["y"].tolist() == [6]
        assert client.infer("nameless", inputs_of(2))["y"].tolist() == [5]


def test_async_handlers_run_one_call_at_a_time() -> None:
    @model(instances=Processes(1))
    async def increment(x: float) -> float:
        import asyncio

        await asyncio.sleep(0.01)
        return x + 1

    @model(instances=Processes(1))
    async def counting(n: int) -> AsyncIterator[int]:
        for index in range(n):
            yield index

    with Client(increment, counting) as client:
        assert client.infer("increment", {"x": 2.0})["output"].item() == 3
        response = client.post("/v2/models/counting/generate_stream", '{"n": 3}').body.decode()
        assert [json.loads(chunk[6:])["output"] for chunk in response.split("\n\n")[:-1]] == [0, 1, 2]
    with pytest.raises(SignatureError, match="max_concurrency is for threads"):
        model(increment.__wrapped__, instances=Processes(1), max_concurrency=4)


def test_file_is_loaded_by_path_with_imports_from_its_folder(tmp_path: Path) -> None:
    from penstock._loading import targets

    (tmp_path / "helper_of_app.py").write_text("FACTOR = 4\n")
    app = tmp_path / "app_in_processes.py"
    app.write_text(
        "import os\nimport numpy as np\nfrom helper_of_app import FACTOR\nfrom penstock import Processes, model\n"
        "@model(instances=Processes(1))\ndef times(x: float) -> float:\n    return x * FACTOR\n"
        "other = model(lambda x: x * 5, name='other', instances=Processes(1),"
        " inputs=times.inputs, outputs=times.outputs)\n"
    )
    times, other = targets.load(str(app))
    with Client(times, other) as client:
        assert client.infer("times", {"x": 2.0})["output"].item() == 8
        assert client.infer("other", {"x": 2.0})["output"].item() == 10


def test_changed_signature_of_a_file_is_rejected(tmp_path: Path) -> None:
    from penstock._loading import targets

    app = tmp_path / "changing_app.py"
    source = "from penstock import Processes, model\n@model(instances=Processes(1))\n"
    source += "def m(x: float) -> float:\n    return x\n"
    app.write_text(source)
    [served] = targets.load(str(app))
    app.write_text(source.replace("x: float", "x: int"))
    with pytest.raises(LoadError, match="its process loaded another signature"), Client(served):
        raise AssertionError("it must not start")


def test_repository_model_runs_in_processes(tmp_path: Path) -> None:
    folder = tmp_path / "scaled" / "3"
    folder.mkdir(parents=True)
    (folder / "weights.py").write_text("SCALE = 7\n")
    (folder / "model.py").write_text(
        "from penstock import Processes, model\nfrom .weights import SCALE\n"
        "@model(instances=Processes(1))\ndef scaled(x: float) -> float:\n    return x * SCALE\n"
    )
    with Client(repository=str(tmp_path)) as client:
        body = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [], "data": [2]}]}
        response = client.post("/v2/models/scaled/versions/3/infer", json.dumps(body))
        assert response.status == 200, response.body
        assert response.json()["outputs"][0]["data"] == [14]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "Processes: count must be an integer from 1 to 4096, not 0"),
        ({"count": True}, "Processes: count must be an integer from 1 to 4096, not True"),
        ({"hang_after": 0}, "Processes: hang_after must be more than 0 seconds or None, not 0"),
        ({"max_age": -1.0}, "Processes: max_age must be more than 0 seconds or None, not -1.0"),
        ({"max_rss": 0.5}, "Processes: max_rss must be an integer of 1 or more, or None, not 0.5"),
        ({"threads": 0}, "Processes: threads must be an integer of 1 or more, or None, not 0"),
        ({"gpus": [-1]}, "Processes: gpus must be numbers or texts of devices, not -1"),
        ({"env": {"A=B": "1"}}, "Processes: env must map names of variables to texts, not 'A=B' to '1'"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"^Processes: ") as raised:
        Processes(**{"count": 1, **options})
    assert str(raised.value) == message


def test_durations_may_be_timedeltas() -> None:
    limits = Processes(1, hang_after=timedelta(minutes=1), abandoned_after=2, max_age=timedelta(hours=1))
    assert (limits.hang_after, limits.abandoned_after, limits.max_age) == (60.0, 2.0, 3600.0)
