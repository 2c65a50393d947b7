"""Handlers in processes get and give what those on threads do: arrays, context, pieces, sequences."""

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
    in_processes.keeper,
    in_processes.told,
    in_processes.pieces,
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


def of(*numbers: float) -> dict[str, Any]:
    return {"x": np.array(numbers, np.float32)}


def counted(client: Client, name: str, counter: str) -> float:
    exposition = client.get("/metrics").body.decode()
    return metric(exposition, "penstock_custom_total", model=name, version="1", name=counter)


def test_every_datatype_comes_back_as_it_went(client: Client) -> None:
    answered = client.infer("every", VALUES)
    assert answered.keys() == VALUES.keys()
    for name, value in VALUES.items():
        assert answered[name].tolist() == value.tolist(), name
        assert answered[name].dtype == value.dtype, name


@pytest.mark.parametrize("name", VALUES)
def test_inputs_may_be_absent_or_empty(client: Client, name: str) -> None:
    answered = client.infer("every", {name: VALUES[name]})
    assert {other: len(array) for other, array in answered.items() if len(array)} == {name: len(VALUES[name])}
    empty = client.infer("every", {name: VALUES[name][:0]})
    assert not any(len(array) for array in empty.values())


@pytest.mark.parametrize("width", [0, 1, 15, 16_000, 17_000, 1_300_000, 3])
def test_tensors_of_all_sizes(client: Client, width: int) -> None:
    x = np.random.default_rng(width).random((3, width), np.float32)
    for name, factor in (("same", 1), ("double", 2)):
        assert np.array_equal(client.infer(name, {"x": x})["y"], x * factor)


def test_requests_that_share_a_batch_get_their_own_rows(client: Client) -> None:
    def ask(number: int) -> bool:
        x = np.full((1 + number % 3, 40), number, np.float32)
        return np.array_equal(client.infer("double", {"x": x})["y"], x * 2)

    futures = at_once([partial(ask, number) for number in range(60)])
    assert all(future.result() for future in futures)
    sizes = client.get("/metrics").body.decode()
    batches = metric(sizes, "penstock_batch_size_count", model="double", version="1")
    assert metric(sizes, "penstock_batch_size_sum", model="double", version="1") > batches


def test_arrays_may_be_written_to_and_kept(client: Client) -> None:
    expected: list[float] = []
    for number in range(40):
        expected.append(number + 100)
        # Large and small in turn, so that regions grow.
        x = np.full(10 if number % 2 else 50_000, number, np.float32)
        assert client.infer("keeper", {"x": x})["y"].tolist() == expected


def test_an_answer_lives_as_long_as_it_is_used(client: Client) -> None:
    answers = [client.infer("double", {"x": np.full((1, 100_000), number, np.float32)})["y"] for number in range(50)]
    for number, answer in enumerate(answers):
        assert (answer == 2 * number).all()


def test_what_a_context_tells_and_takes(client: Client) -> None:
    client.infer(
        "told",
        of(5),
        request_id="r-7",
        parameters={"stop": "here", "timeout": 5_000_000, "priority": 0},
        headers={"X-Colour": "blue"},
    )
    assert client.last_response is not None
    told = client.last_response.json()["parameters"]
    assert 4 < told.pop("left") <= 5
    assert told == {"id": "r-7", "stop": "here", "header": "blue", "priority": 0, "where": "told 1 1"}
    assert counted(client, "told", "seen") == 2.5


def test_a_callers_leave_is_seen_by_the_handler(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with Server(in_processes.patient, http="127.0.0.1:0", grpc=None) as server:
        x = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}
        body = json.dumps({"id": str(begun), "inputs": [x]}).encode()
        caller = connect(server.http_url)
        head = f"POST /v2/models/patient/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        caller.sendall(head.encode() + body)
        until(begun.exists, "the handler to begin")
        caller.shutdown(socket.SHUT_RDWR)
        caller.close()
        labels = {"model": "patient", "version": "1", "name": "left"}
        until(lambda: 'name="left"' in get(server.http_url, "/metrics").body.decode(), "the handler to see it")
        assert metric_at(server.http_url, "penstock_custom_total", **labels) == 1


def test_a_handlers_own_refusals_keep_their_kind(client: Client) -> None:
    with pytest.raises(InvalidInput, match="x must not be 1"):
        client.infer("refuses", of(1))
    with pytest.raises(Overloaded, match="too much"):
        client.infer("refuses", of(2))
    with pytest.raises(HandlerError, match="returned an output named z, declared 'y'"):
        client.infer("refuses", of(3))
    assert client.infer("refuses", of(4))["y"].tolist() == [4]


def events(client: Client, *numbers: float) -> list[Any]:
    answer = client.post("/v2/models/pieces/generate_stream", json.dumps({"x": numbers}))
    assert answer.status == 200, answer.body
    return [json.loads(event.removeprefix("data: ")) for event in answer.body.decode().split("\n\n")[:-1]]


@pytest.mark.parametrize("count", [0, 1, 5, 200])
def test_a_generator_streams(client: Client, count: int) -> None:
    found = events(client, count)
    assert [one["y"] for one in found] == [*range(count)]


def test_large_pieces_stream(client: Client) -> None:
    found = events(client, 70, -1, 0, 20_000)
    assert [(one["y"][0], len(one["y"])) for one in found] == [(index, 20_000) for index in range(70)]


def test_a_generator_that_raises_ends_its_stream_with_the_error(client: Client) -> None:
    *good, last = events(client, 5, 2, 8)
    assert [one["y"] for one in good] == [0, 1]
    assert last["error"] == "model 'pieces' failed: RuntimeError"
    assert [one["y"] for one in events(client, 2)] == [0, 1]


def test_a_process_that_ends_in_a_stream_ends_it_with_the_reason(client: Client) -> None:
    *good, last = events(client, 5, 2, 2)
    assert [one["y"] for one in good] == [0, 1]
    assert last["error"] == "model 'pieces': its process was killed by SIGKILL"
    until(lambda: client.get("/v2/models/pieces/ready").status == 200, "the process to be back")
    assert [one["y"] for one in events(client, 2)] == [0, 1]


def test_a_generator_is_closed_when_its_caller_leaves() -> None:
    with Server(in_processes.pieces, http="127.0.0.1:0", grpc=None) as server:
        body = json.dumps({"x": [1e6, -1, 0, 1000]}).encode()
        caller = connect(server.http_url)
        head = (
            f"POST /v2/models/pieces/generate_stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        caller.sendall(head.encode() + body)
        assert caller.recv(100)
        caller.close()
        until(lambda: 'name="closed"' in get(server.http_url, "/metrics").body.decode(), "the generator to be closed")


def step(url: str, identifier: int, value: float, **marks: bool) -> Any:
    parameters = {"sequence_id": identifier, **{f"sequence_{mark}": flag for mark, flag in marks.items()}}
    answer = infer(url, "sums", of(value), parameters=parameters)
    return answer.json()["outputs"][0]["data"] if answer.status == 200 else answer.error()


def test_sequences_keep_their_state_and_their_process() -> None:
    with Server(in_processes.Sums, http="127.0.0.1:0", grpc=None) as server:
        url = server.http_url
        places = {}
        for identifier in (1, 2, 3, 4):
            total, places[identifier] = step(url, identifier, identifier, start=True)
            assert total == identifier
        assert len(set(places.values())) == 2
        for identifier in (4, 3, 2, 1):
            assert step(url, identifier, 10) == [identifier + 10, places[identifier]]
        # Its process ends, and with it what it held.
        assert step(url, 1, -2) == "model 'sums': its process was killed by SIGKILL"
        lost = [identifier for identifier in places if places[identifier] == places[1]]
        for identifier, place in places.items():
            answer = step(url, identifier, 1)
            if identifier in lost:
                assert answer.startswith(f"sequence {identifier} must begin with sequence_start: it is not active")
            else:
                assert answer == [identifier + 11, place]
        assert step(url, 1, 5, start=True)[0] == 5
        assert step(url, 1, 5, end=True)[0] == 10


def test_each_process_has_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with Client(in_processes.Settings) as client:
        futures = at_once([partial(client.infer, "settings", of(0))] * 8)
        answers = [future.result()["y"].tolist() for future in futures]
    assert {devices for devices, _ in answers} == {3, 45}
    assert all(right == 1 for _, right in answers)
    assert "COLOUR" not in os.environ


def test_code_of_this_process_alone_is_sent() -> None:
    factor = np.float32(3)

    def triple(x: Any) -> Any:
        return x * factor

    named = model(triple, name="named", instances=Processes(1), **in_processes.FLOATS)
    nameless = model(lambda x: x + factor, name="nameless", instances=Processes(1), **in_processes.FLOATS)

    @model(instances=Processes(1))
    def greet(name: str, times: int = 1) -> list[str]:
        return [f"hello {name} {factor:g}"] * times

    again = in_processes.double.with_options(name="again", instances=Processes(1))
    with Client(named, nameless, greet, again) as client:
        assert client.infer("greet", {"name": "you", "times": 2})["output"].tolist() == [b"hello you 3"] * 2
        assert client.infer("again", {"x": np.ones((1, 2), np.float32)})["y"].tolist() == [[2, 2]]
        assert client.infer("named", of(2))["y"].tolist() == [6]
        assert client.infer("nameless", of(2))["y"].tolist() == [5]


def test_async_handlers_compute_one_call_at_a_time() -> None:
    @model(instances=Processes(1))
    async def later(x: float) -> float:
        import asyncio

        await asyncio.sleep(0.01)
        return x + 1

    @model(instances=Processes(1))
    async def counting(n: int) -> AsyncIterator[int]:
        for index in range(n):
            yield index

    with Client(later, counting) as client:
        assert client.infer("later", {"x": 2.0})["output"].item() == 3
        answer = client.post("/v2/models/counting/generate_stream", '{"n": 3}').body.decode()
        assert [json.loads(one[6:])["output"] for one in answer.split("\n\n")[:-1]] == [0, 1, 2]
    with pytest.raises(SignatureError, match="max_concurrency is for threads"):
        model(later.__wrapped__, instances=Processes(1), max_concurrency=4)


def test_a_file_is_loaded_by_its_path_and_its_folder_can_be_imported(tmp_path: Path) -> None:
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


def test_a_file_that_has_changed_its_signature_is_not_served_with_the_old_one(tmp_path: Path) -> None:
    from penstock._loading import targets

    app = tmp_path / "changing_app.py"
    source = "from penstock import Processes, model\n@model(instances=Processes(1))\n"
    source += "def m(x: float) -> float:\n    return x\n"
    app.write_text(source)
    [served] = targets.load(str(app))
    app.write_text(source.replace("x: float", "x: int"))
    with pytest.raises(LoadError, match="its process loaded another signature"), Client(served):
        raise AssertionError("it must not start")


def test_a_model_of_a_repository(tmp_path: Path) -> None:
    folder = tmp_path / "scaled" / "3"
    folder.mkdir(parents=True)
    (folder / "weights.py").write_text("SCALE = 7\n")
    (folder / "model.py").write_text(
        "from penstock import Processes, model\nfrom .weights import SCALE\n"
        "@model(instances=Processes(1))\ndef whatever(x: float) -> float:\n    return x * SCALE\n"
    )
    with Client(repository=str(tmp_path)) as client:
        body = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [], "data": [2]}]}
        answer = client.post("/v2/models/scaled/versions/3/infer", json.dumps(body))
        assert answer.status == 200, answer.body
        assert answer.json()["outputs"][0]["data"] == [14]


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
def test_options_out_of_their_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"^Processes: ") as raised:
        Processes(**{"count": 1, **options})
    assert str(raised.value) == message


def test_times_may_be_timedeltas() -> None:
    limits = Processes(1, hang_after=timedelta(minutes=1), abandoned_after=2, max_age=timedelta(hours=1))
    assert (limits.hang_after, limits.abandoned_after, limits.max_age) == (60.0, 2.0, 3600.0)
