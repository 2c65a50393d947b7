"""`torch.Tensor` as annotation: inputs, results, rows of a batch."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

from penstock import Batching, SignatureError, Tensor, model
from penstock.testing import Client

torch = pytest.importorskip("torch", reason="torch is not installed")

Row = Annotated[torch.Tensor, Tensor(datatype=np.float32, shape=[-1])]


@model
def half(x: Row) -> Row:
    assert isinstance(x, torch.Tensor)
    return x / 2


@model(batching=Batching(max_size=8))
def scaled(x: Row, by: Annotated[torch.Tensor, Tensor(datatype=np.int64, shape=[1])]) -> Row:
    weight = torch.ones(1, requires_grad=True)
    return x * by * weight


@model
def rounded(x: Row) -> Row:
    return x.to(torch.bfloat16)


@model
def counted(x: Row) -> Annotated[torch.Tensor, Tensor(datatype=np.int32, shape=[])]:
    return torch.tensor(x.numel(), dtype=torch.int32)


@model
def written(x: Row) -> Row:
    x += 1
    return x


def test_tensors_are_handed_in_and_taken_back() -> None:
    with Client(half, scaled, rounded, counted, written) as client:
        x = np.array([1, 2.001], np.float32)
        assert client.infer("half", x=x).json() == (x / 2).tolist()
        assert client.infer("scaled", x=x[None], by=np.array([[3]])).json() == [(x * 3).tolist()]
        assert client.infer("rounded", x=x).json() == [1.0, 2.0]
        assert client.infer("counted", x=x).json() == 2
        assert client.infer("written", x=x).json() == (x + 1).tolist()
        assert x.tolist() == np.array([1, 2.001], np.float32).tolist()
        plain = client.post("/models/half", b'{"x": [1, 2]}')
        assert plain.body == b"[0.5,1.0]"


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (torch.Tensor, r"is an array of unknown datatype and shape; write Annotated\[torch.Tensor, Tensor\("),
        (Annotated[torch.Tensor, Tensor(datatype=bytes)], "is a torch.Tensor, which cannot hold BYTES"),
    ],
)
def test_tensors_that_torch_lacks_are_refused(hint: Any, message: str) -> None:
    def handler(x: Any) -> int:
        return 1

    handler.__annotations__["x"] = hint
    with pytest.raises(SignatureError, match=message):
        model(handler)
