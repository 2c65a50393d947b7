"""`ModelConfigGenerator` and `ModelConfigParser`: fields in PyTriton's form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.compat.pytriton.exceptions import PyTritonBadParameterError, PyTritonModelConfigError
from penstock.compat.pytriton.model_config import DeviceKind, DynamicBatcher, QueuePolicy, TimeoutAction
from penstock.compat.pytriton.model_config.common import ModelWarmup, WarmupInput
from penstock.compat.pytriton.model_config.generator import ModelConfigGenerator
from penstock.compat.pytriton.model_config.parser import ModelConfigParser
from penstock.compat.pytriton.model_config.triton_model_config import ResponseCache, TensorSpec, TritonModelConfig

FULL = TritonModelConfig(
    model_name="full",
    max_batch_size=8,
    batcher=DynamicBatcher(
        max_queue_delay_microseconds=100,
        preferred_batch_size=[4, 8],
        preserve_ordering=True,
        priority_levels=3,
        default_priority_level=2,
        priority_queue_policy={1: QueuePolicy(TimeoutAction.DELAY, 5, allow_timeout_override=True, max_queue_size=7)},
    ),
    instance_group={DeviceKind.KIND_CPU: 2, DeviceKind.KIND_AUTO: 1},
    decoupled=True,
    backend_parameters={"path": '/tmp/a "q"\n\\u'},
    inputs=[TensorSpec("a", (-1, 3), np.float32), TensorSpec("s", (1,), np.bytes_, optional=True)],
    outputs=[TensorSpec("y", (-1,), np.float16)],
    response_cache=ResponseCache(enable=True),
    model_warmup=[ModelWarmup("w", 2, {"a": WarmupInput(np.float32, (3,), zero_data=True)}, 3)],
)

TEXT = r"""name: "full"
max_batch_size: 8
input {
  name: "a"
  data_type: TYPE_FP32
  dims: -1
  dims: 3
}
input {
  name: "s"
  data_type: TYPE_STRING
  dims: 1
  optional: true
}
output {
  name: "y"
  data_type: TYPE_FP16
  dims: -1
}
instance_group {
  count: 2
  kind: KIND_CPU
}
instance_group {
  count: 1
}
dynamic_batching {
  preferred_batch_size: 4
  preferred_batch_size: 8
  max_queue_delay_microseconds: 100
  preserve_ordering: true
  priority_levels: 3
  default_priority_level: 2
  priority_queue_policy {
    key: 1
    value {
      timeout_action: DELAY
      default_timeout_microseconds: 5
      allow_timeout_override: true
      max_queue_size: 7
    }
  }
}
parameters {
  key: "path"
  value {
    string_value: "/tmp/a \"q\"\n\\u"
  }
}
model_warmup {
  name: "w"
  batch_size: 2
  inputs {
    key: "a"
    value {
      data_type: TYPE_FP32
      dims: 3
      zero_data: true
    }
  }
  count: 3
}
backend: "python"
model_transaction_policy {
  decoupled: true
}
response_cache {
  enable: true
}
"""


def test_generated_dict_has_pytritons_names() -> None:
    config = ModelConfigGenerator(FULL).get_config()
    assert config["dynamic_batching"] == {
        "maxQueueDelayMicroseconds": 100,
        "preferredBatchSize": [4, 8],
        "preserveOrdering": True,
        "priorityLevels": 3,
        "defaultPriorityLevel": 2,
        "priorityQueuePolicy": {
            1: {
                "timeoutAction": "DELAY",
                "defaultTimeoutMicroseconds": 5,
                "allowTimeoutOverride": True,
                "maxQueueSize": 7,
            }
        },
    }
    assert config["input"][0] == {"name": "a", "dims": [-1, 3], "data_type": "TYPE_FP32"}
    assert config["instance_group"] == [{"count": 2, "kind": "KIND_CPU"}, {"count": 1, "kind": "KIND_AUTO"}]
    assert (config["name"], config["backend"], config["max_batch_size"]) == ("full", "python", 8)
    assert ModelConfigGenerator(TritonModelConfig("m")).get_config() == {
        "name": "m",
        "backend": "python",
        "max_batch_size": 4,
    }


def test_generated_file_equals_protobufs_text_format(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.pbtxt"
    ModelConfigGenerator(FULL).to_file(path)
    assert path.read_text() == TEXT
    ModelConfigGenerator(TritonModelConfig("m", batching=False, batcher=DynamicBatcher())).to_file(str(path))
    assert path.read_text() == 'name: "m"\nbackend: "python"\nmax_batch_size: 0\n'
    ModelConfigGenerator(TritonModelConfig("ü", batcher=DynamicBatcher())).to_file(path)
    assert path.read_text() == 'name: "\\303\\274"\nmax_batch_size: 4\ndynamic_batching {\n}\nbackend: "python"\n'
    assert ModelConfigParser.from_file(config_path=path).model_name == "ü"


def test_generated_file_is_parsed_back(tmp_path: Path) -> None:
    path = tmp_path / "config.pbtxt"
    ModelConfigGenerator(FULL).to_file(path)
    assert ModelConfigParser.from_file(config_path=path) == FULL
    assert ModelConfigParser.from_dict(ModelConfigGenerator(FULL).get_config()) == FULL


def test_handwritten_file_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_text("""
        # a comment
        name: 'm' "ore", max_batch_size: 0x10;
        input [ { name: "a" data_type: TYPE_BOOL dims: [ -1, 2 ] }, < name: "b" data_type: TYPE_INT8 dims: 1 > ]
        output: { name: "y", data_type: TYPE_UINT64, dims: [1] }
        dynamic_batching { }
    """)
    config = ModelConfigParser.from_file(config_path=path)
    assert (config.model_name, config.max_batch_size, config.batching) == ("more", 16, True)
    assert config.batcher == DynamicBatcher()
    assert config.inputs == [TensorSpec("a", (-1, 2), np.dtype("bool")), TensorSpec("b", (1,), np.int8)]
    assert config.outputs == [TensorSpec("y", (1,), np.uint64)]


@pytest.mark.parametrize("text", ['name: "a', "input {", "input { name: ]", "@", "name"])
def test_syntax_error_names_the_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.pbtxt"
    path.write_text(text)
    with pytest.raises(PyTritonModelConfigError, match=r"The config .* line \d"):
        ModelConfigParser.from_file(config_path=path)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        ({}, "Name for input at index 0 not provided."),
        ({"name": "i"}, "Data type for input with name `i` not defined."),
        ({"name": "i", "data_type": "FP32"}, "Invalid data type `FP32` for input with name `i` not defined. The"),
        ({"name": "i", "data_type": "TYPE_NO"}, "Unsupported data type `TYPE_NO` for input with name `i`"),
        ({"name": "i", "data_type": "TYPE_FP32"}, "Dimension for input with name `i` not defined."),
    ],
)
def test_incomplete_tensors_are_rejected(tensor: dict[str, Any], message: str) -> None:
    with pytest.raises(PyTritonModelConfigError) as caught:
        ModelConfigParser.from_dict({"name": "m", "input": [tensor]})
    assert str(caught.value).startswith(message)


def test_parameters_may_be_a_list_of_names() -> None:
    assert ModelConfigParser.from_dict({"name": "m", "parameters": ["a"]}).backend_parameters == {"a": ""}
    with pytest.raises(TypeError, match="Invalid type for backend_parameters_config"):
        ModelConfigParser.from_dict({"name": "m", "parameters": 3})


SPEC = TensorSpec("a", (1,), np.float32, optional=True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_batch_size": 0}, "The `max_batch_size` must be greater or equal to 1."),
        (
            {"batcher": DynamicBatcher(default_priority_level=2)},
            "The `default_priority_level` must be between 1 and 0.",
        ),
        (
            {"batcher": DynamicBatcher(priority_queue_policy={1: QueuePolicy()})},
            "Provide the `priority_levels` if you want to define `priority_queue_policy` for Dynamic Batching.",
        ),
        (
            {"batcher": DynamicBatcher(priority_levels=2, priority_queue_policy={3: QueuePolicy()})},
            "Invalid `priority`=3 provided. The value must be between 1 and 2.",
        ),
        ({"outputs": [SPEC]}, "Optional flag for outputs is not supported. Outputs marked as optional: a."),
        ({"inputs": [TensorSpec("c", (1,), np.complex64)]}, "Triton has no data type for <class 'numpy.complex64'>."),
        (
            {"model_warmup": [ModelWarmup("w", 1, {"a": WarmupInput(np.float32, (1,))}, 1)]},
            "One of the `zero_data`, `random_data`, or `input_data_file` must be provided for warmup input `a`.",
        ),
        (
            {"model_warmup": [ModelWarmup("w", 1, {"a": WarmupInput(np.float32, (), zero_data=True)}, 1)]},
            "Dimension for a not defined.",
        ),
    ],
)
def test_invalid_values_are_rejected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(PyTritonBadParameterError) as caught:
        ModelConfigGenerator(TritonModelConfig("m", **fields)).get_config()
    assert caught.value.message == message
