"""`Tensor(labels=...)`: class names in classification results."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock import SignatureError, Tensor, model
from penstock.testing import Client


def test_labels_from_a_list() -> None:
    tensor = Tensor("y", np.float32, [3], labels=["cat", "a dog", ""])
    assert tensor.labels == ("cat", "a dog", "")
    assert repr(tensor) == "Tensor('y', 'FP32', [3], labels=['cat', 'a dog', ''])"
    assert eval(repr(tensor)) == tensor == pickle.loads(pickle.dumps(tensor))
    assert tensor != Tensor("y", np.float32, [3])
    assert Tensor("y", np.float32).labels == ()


@pytest.mark.parametrize("kind", [str, Path])
def test_labels_from_a_file_with_one_per_line(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_text("Vögel\na dog\r\n\nlast\n", encoding="utf-8")
    assert Tensor("y", int, [-1], labels=kind(path)).labels == ("Vögel", "a dog", "", "last")
    with pytest.raises(FileNotFoundError):
        Tensor("y", int, [-1], labels=kind(tmp_path / "none.txt"))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (5, "tensor 'y': labels must be a list of texts or a file's path, not int"),
        (b"ab", "tensor 'y': labels[0] must be printable text, not 97"),
        (["a", 2], "tensor 'y': labels[1] must be printable text, not 2"),
        (["a\nb"], "tensor 'y': labels[0] must be printable text, not 'a\\nb'"),
        (list("abcd"), "tensor 'y': it has 4 labels and 3 elements"),
    ],
)
def test_invalid_labels_are_rejected(labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Tensor("y", np.float32, [3], labels=labels)


@pytest.mark.parametrize("datatype", ["BOOL", "FP16", "BF16", "BYTES"])
def test_labels_require_a_classifiable_datatype(datatype: str) -> None:
    with pytest.raises(ValueError, match=f"takes integers, FP32 or FP64, not {datatype}"):
        Tensor("y", datatype, [2], labels=["a", "b"])


def test_labels_on_inputs_are_rejected() -> None:
    x = Tensor("x", np.float32, [2], labels=["a", "b"])
    with pytest.raises(SignatureError, match="model 'm': input 'x' has labels; only outputs can"):
        model(lambda x: x, name="m", inputs=[x], outputs=[Tensor("y", np.float32, [2])])


def test_labels_appear_in_classification_results() -> None:
    y = Tensor("y", np.int8, [3], labels=["ä", "b"])
    served = model(lambda x: x, name="m", inputs=[Tensor("x", np.int8, [3])], outputs=[y])
    body = (
        '{"inputs":[{"name":"x","datatype":"INT8","shape":[3],"data":[7,-1,9]}],'
        '"outputs":[{"name":"y","parameters":{"classification":3}}]}'
    )
    with Client(served) as client:
        response = client.post("/v2/models/m/infer", body)
    assert response.json()["outputs"][0]["data"] == ["9:2", "7:0:ä", "-1:1:b"]
