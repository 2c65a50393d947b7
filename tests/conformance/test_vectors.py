"""The golden vectors of tests/vectors, each sent to a running server; Rust reads the same files."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from .content import Tensor
from .protocols import CODES, GrpcProtocol, decode
from .transports import InProcess, Rest, Transport

FOLDER = Path(__file__).resolve().parents[1] / "vectors"
FILES = sorted(path for path in FOLDER.glob("*.json") if path.name != "models.json")


def vectors() -> list[Any]:
    params = []
    for path in FILES:
        for vector in json.loads(path.read_text(encoding="utf-8"))["vectors"]:
            for index, wire in enumerate(vector["wires"]):
                name = f"{path.stem}-{vector['name']}-{wire['wire']}-{wire.get('note') or index}"
                params.append(pytest.param(vector, wire, id=name.replace(" ", "_")))
    return params


def test_vectors_match_the_generator() -> None:
    spec = importlib.util.spec_from_file_location("generate_vectors", FOLDER / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    files = module.files()
    assert sorted(files) == sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.json"))
    for name, text in files.items():
        stored = (FOLDER / name).read_text(encoding="utf-8")
        assert stored == text or of_other_libraries(stored, text), f"{name} is stale: run generate.py"


def of_other_libraries(stored: str, text: str) -> bool:
    """True if two files of bodies differ only in what other library versions write."""
    old, new = json.loads(stored), json.loads(text)
    if old.get("libraries") == new.get("libraries"):
        return False
    for document in (old, new):
        del document["libraries"]
        for vector in document["vectors"]:
            del vector["body"]
            vector.get("answer", {}).pop("body", None)
    return bool(old == new)


def test_names_of_vectors_are_unique() -> None:
    names = [param.id for param in vectors()]
    assert len(names) == len(set(names))


@pytest.mark.trap("T65")
@pytest.mark.parametrize(("vector", "wire"), vectors())
def test_vector(
    vector: dict[str, Any], wire: dict[str, Any], rest: Rest, in_process: InProcess, grpc_raw: GrpcProtocol
) -> None:
    if wire["wire"] == "grpc":
        check_grpc(vector, bytes.fromhex(wire["message"]), grpc_raw)
        return
    for transport in (rest, in_process):
        check_rest(vector, wire, transport)


def check_grpc(vector: dict[str, Any], message: bytes, protocol: GrpcProtocol) -> None:
    call = protocol.channel.unary_unary(
        "/inference.GRPCInferenceService/ModelInfer",
        request_serializer=lambda raw: raw,
        response_deserializer=lambda raw: raw,
    )
    if "answer" in vector:
        assert call(message, timeout=20).hex() == vector["answer"]["grpc"]
        return
    with pytest.raises(grpc.RpcError) as refusal:
        call(message, timeout=20)
    assert refusal.value.code().value[0] == vector["refusal"]["code"]
    assert CODES[refusal.value.code()] == vector["refusal"]["status"]
    check_message(vector, refusal.value.details())


def check_rest(vector: dict[str, Any], wire: dict[str, Any], transport: Transport) -> None:
    text = bytes.fromhex(wire["text_hex"]) if "text_hex" in wire else wire["text"].encode()
    body = text + bytes.fromhex(wire.get("tail", ""))
    headers = {"Inference-Header-Content-Length": str(wire["json_length"])} if "json_length" in wire else {}
    reply = transport.request("POST", f"/v2/models/{vector['model']}/infer", body, headers)
    if "refusal" in vector:
        check_message(vector, reply.refusal(vector["refusal"]["status"]))
        return
    response = decode(reply)
    assert bool(reply.tail()) == (wire["wire"] == "rest-binary" and any(x["hex"] for x in vector["answer"]["outputs"]))
    assert (response.model, response.version, response.id) == (vector["model"], "1", vector["request"]["id"])
    assert response.parameters == vector["answer"]["parameters"]
    assert [comparable(x) for x in response.outputs] == [comparable(expected(x)) for x in vector["answer"]["outputs"]]


def check_message(vector: dict[str, Any], message: str) -> None:
    assert message
    for part in vector["refusal"]["message"]:
        assert part in message, message


def expected(x: dict[str, Any]) -> Tensor:
    return Tensor(x["name"], x["datatype"], tuple(x["shape"]), bytes.fromhex(x["hex"]))


def comparable(x: Tensor) -> tuple[object, ...]:
    # A NaN in JSON does not have a payload.
    return (
        x.name,
        x.datatype,
        x.shape,
        [repr(value) for value in x.values()] if np.any(["nan" in repr(v) for v in x.values()]) else x.raw,
    )
