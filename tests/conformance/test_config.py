"""A model's configuration, equal over REST and gRPC (case D3, T41 to T43)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
from google.protobuf.json_format import MessageToDict
from tritonclient.grpc import service_pb2 as pb

from penstock import Batching, Server, Tensor, model
from penstock.testing import Client
from repositories import Repository, RepositoryClient

from .protocols import GrpcProtocol
from .transports import Rest

NAMES = ["add", "rows", "ident_BF16", "echo_s", "scalar", "two_out", "slow", "ver", "stateful", "ranked", "impatient"]


def over_rest(rest: Rest, name: str) -> dict[str, Any]:
    reply = rest.request("GET", f"/v2/models/{name}/config")
    assert reply.status == 200
    document: dict[str, Any] = reply.json()
    return document


def texts(document: Any) -> Any:
    """The document with numbers as text, as protobuf's JSON has 64-bit integers."""
    if isinstance(document, dict):
        return {key: texts(value) for key, value in document.items()}
    if isinstance(document, list):
        return [texts(value) for value in document]
    return str(document) if isinstance(document, int) and not isinstance(document, bool) else document


@pytest.mark.parametrize("name", NAMES)
def test_d3_configuration_is_equal_over_both_protocols(grpc_raw: GrpcProtocol, rest: Rest, name: str) -> None:
    config = grpc_raw.stub.ModelConfig(pb.ModelConfigRequest(name=name), timeout=20).config
    message = MessageToDict(config, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    # Only the client's message has empty lists and maps, and parts that Penstock does not support.
    document = texts(over_rest(rest, name))
    missing = {key: value for key, value in message.items() if key not in document}
    assert not any(missing.values()), missing
    assert covered(document, texts(message))


def covered(document: Any, message: Any) -> bool:
    """True if the message has all of the document, and otherwise only defaults."""
    if isinstance(document, dict):
        rest = {key: value for key, value in message.items() if key not in document}
        return not any(rest.values()) and all(covered(value, message.get(key, {})) for key, value in document.items())
    if isinstance(document, list):
        return len(document) == len(message) and all(map(covered, document, message))
    return bool(document == message)


@pytest.mark.trap("T41")
@pytest.mark.parametrize("name", NAMES)
def test_d3_configuration_agrees_with_the_metadata(rest: Rest, name: str) -> None:
    # T41: the metadata's shapes have the batch axis, the configuration's dims do not.
    config, metadata = over_rest(rest, name), rest.request("GET", f"/v2/models/{name}").json()
    batched = config["max_batch_size"] > 0
    for configured, shown in ((config["input"], metadata["inputs"]), (config["output"], metadata["outputs"])):
        assert [tensor["name"] for tensor in configured] == [tensor["name"] for tensor in shown]
        dims = [tensor["dims"] for tensor in configured]
        assert [[-1, *own] if batched else own for own in dims] == [tensor["shape"] for tensor in shown]
        types = ["TYPE_STRING" if one["datatype"] == "BYTES" else f"TYPE_{one['datatype']}" for one in shown]
        assert [tensor["data_type"] for tensor in configured] == types
    assert config["platform"] == metadata["platform"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("latest:2", {"latest": {"num_versions": 2}}),
        ("all", {"all": {}}),
        ("specific:1,3", {"specific": {"versions": [1, 3]}}),
        ("specific:1,new", {"specific": {"versions": ["1", "new"]}}),
    ],
)
def test_d3_version_policy_is_kept_when_the_configuration_is_sent_back(
    tmp_path: Path, policy: str, expected: Any
) -> None:
    repository = Repository(tmp_path / "models")
    for version in ("1", "2", "3", "new"):
        repository.put("m", version)
    options: Any = {"repository": repository.path, "model_control": "explicit", "load_models": "m"}
    with Server(http="127.0.0.1:0", grpc="127.0.0.1:0", version_policy=policy, **options) as server:
        caller = RepositoryClient(server.http_url)
        config = lambda: caller("GET", "/v2/models/m/config")[1]  # noqa: E731
        versions = lambda: caller("GET", "/v2/models/m")[1]["versions"]  # noqa: E731
        before = (versions(), config())
        assert before[1]["version_policy"] == expected
        with tritonclient.grpc.InferenceServerClient(server.grpc_url) as client:
            shown = client.get_model_config("m", as_json=True)["config"].get("version_policy")
            if "new" not in policy:
                assert shown is not None
                assert [*shown] == [*expected]
            else:
                # The client's message allows numbers only.
                assert shown is None
        assert caller.load("m", config())[0] == 200
        assert (versions(), config()) == before
        assert caller.load("m", {"version_policy": {"specific": {"versions": [2]}}})[0] == 200
        assert (versions(), config()["version_policy"]) == (["2"], {"specific": {"versions": [2]}})


@pytest.mark.trap("T42", "T43")
def test_d3_configuration_in_full() -> None:
    x, y = Tensor("x", np.float32, [4], optional=True), Tensor("y", bytes, [-1])
    batching = Batching(max_size=8, max_delay=0.003, preferred_sizes=(2, 4))
    tuned = model(lambda x: x, name="tuned", inputs=[x], outputs=[y], batching=batching, instances=2, max_queue=7)
    with Client(tuned) as client:
        config = client.get("/v2/models/tuned/config").json()
    # T42, T43: defaults are written, present parts have all fields, and numbers are not text.
    assert config == {
        "name": "tuned",
        "platform": config["platform"],
        "backend": "python",
        "runtime": "",
        "version_policy": {"all": {}},
        "max_batch_size": 8,
        "input": [
            {
                "name": "x",
                "data_type": "TYPE_FP32",
                "format": "FORMAT_NONE",
                "dims": [4],
                "is_shape_tensor": False,
                "allow_ragged_batch": False,
                "optional": True,
                "is_non_linear_format_io": False,
            }
        ],
        "output": [
            {
                "name": "y",
                "data_type": "TYPE_STRING",
                "dims": [-1],
                "label_filename": "",
                "is_shape_tensor": False,
                "is_non_linear_format_io": False,
            }
        ],
        "instance_group": [
            {
                "name": "tuned",
                "kind": "KIND_CPU",
                "count": 2,
                "gpus": [],
                "profile": [],
                "passive": False,
                "host_policy": "",
            }
        ],
        "default_model_filename": "",
        "cc_model_filenames": {},
        "metric_tags": {},
        "parameters": {
            "hold": {"string_value": "true"},
            "max_queue": {"string_value": "7"},
            "oversize": {"string_value": "refuse"},
        },
        "model_transaction_policy": {"decoupled": False},
        "response_cache": {"enable": False},
        "dynamic_batching": {
            "preferred_batch_size": [2, 4],
            "max_queue_delay_microseconds": 3000,
            "preserve_ordering": False,
            "priority_levels": 0,
            "default_priority_level": 0,
            "priority_queue_policy": {},
            "default_queue_policy": {
                "timeout_action": "REJECT",
                "default_timeout_microseconds": 0,
                "allow_timeout_override": True,
                "max_queue_size": 7,
            },
        },
    }


def test_d3_streaming_model_is_decoupled(streams: Server) -> None:
    protocol = GrpcProtocol("grpc", streams.grpc_url, typed=False)
    config = protocol.stub.ModelConfig(pb.ModelConfigRequest(name="stream3"), timeout=20).config
    assert config.model_transaction_policy.decoupled
    assert over_rest(Rest(streams.http_url), "stream3")["model_transaction_policy"] == {"decoupled": True}


@pytest.mark.parametrize("batching", [None, Batching(dynamic=False)])
def test_d3_no_scheduler_without_batching(batching: Batching | None) -> None:
    x, y = Tensor("x", np.float32, [4]), Tensor("y", np.float32, [4])
    with Client(model(lambda x: x, name="alone", inputs=[x], outputs=[y], batching=batching)) as client:
        config = client.get("/v2/models/alone/config").json()
    assert not {"dynamic_batching", "sequence_batching"} & set(config)
