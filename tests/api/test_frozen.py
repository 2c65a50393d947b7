"""`penstock.frozen`: arrays that responses are sent from without a copy, because nothing can write to them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from http_by_hand import infer
from penstock import Context, Server, Tensor, _core, frozen, model

ROWS, SIZE = 4, 1 << 18
TABLE = np.arange(ROWS * SIZE, dtype=np.float32).reshape(ROWS, SIZE)
FROZEN = frozen(TABLE)
ONE = np.zeros(1, np.float32)


def over_rest(server: Server) -> Any:
    response = infer(server.http_url, "m", {"x": ONE})
    return np.frombuffer(response.body[int(response.headers["inference-header-content-length"]) :], np.float32)


def over_grpc(server: Server) -> Any:
    request = service_pb2.ModelInferRequest(model_name="m", raw_input_contents=[ONE.tobytes()])
    request.inputs.add(name="x", datatype="FP32", shape=ONE.shape)
    with grpc.insecure_channel(server.grpc_url, options=[("grpc.max_receive_message_length", -1)]) as channel:
        response = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
    return np.frombuffer(response.raw_output_contents[0], np.float32)


def handed_out(handler: Callable[[Any], Any], ask: Callable[[Server], Any] = over_rest) -> tuple[Any, int]:
    """The response's values, and the bytes that were copied from the handler's array to the message."""
    tensors = {"inputs": [Tensor("x", np.float32, [1])], "outputs": [Tensor("y", np.float32, [-1])]}
    with Server(model(handler, name="m", **tensors), http="127.0.0.1:0", grpc="127.0.0.1:0") as server:
        before = _core.copied_bytes()
        values = ask(server)
        after = _core.copied_bytes()
        return values, sum(after[step] - before[step] for step in ("hand-out", "encode"))


@pytest.mark.parametrize("ask", [over_rest, over_grpc])
@pytest.mark.parametrize(
    ("select", "copied"),
    [
        pytest.param(lambda table: table.reshape(-1), 0, id="whole"),
        pytest.param(lambda table: table[2], 0, id="a row"),
        pytest.param(lambda table: table[1:3].reshape(-1)[5:], 0, id="a view of a view"),
        pytest.param(lambda table: table.reshape(-1).view(np.int32).view(np.float32), 0, id="another dtype and back"),
        pytest.param(lambda table: table[:, 7], 2 * ROWS * 4, id="small"),
        # numpy makes it contiguous; the response is sent from that array.
        pytest.param(lambda table: table[0, ::2], 0, id="not contiguous"),
    ],
)
def test_kept_frozen_array_is_sent_from_its_memory(
    select: Callable[[Any], Any], copied: int, ask: Callable[[Server], Any]
) -> None:
    values, bytes_copied = handed_out(lambda _: select(FROZEN), ask)
    assert np.array_equal(values, select(TABLE))
    assert bytes_copied == copied


def test_kept_read_only_array_is_copied() -> None:
    kept = TABLE[0].copy()
    kept.flags.writeable = False
    assert handed_out(lambda _: kept)[1] == kept.nbytes


def test_frozen_array_cannot_become_writable() -> None:
    for array in (FROZEN, FROZEN[1], FROZEN.view(np.int32), np.asarray(FROZEN), np.frombuffer(FROZEN, np.float32)):
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
    with pytest.raises(ValueError, match="read-only"):
        FROZEN[0, 0] = 1


def test_frozen_array_does_not_follow_its_source() -> None:
    source = TABLE[0].copy()
    kept = frozen(source)
    source[:] = 0
    assert np.array_equal(kept, TABLE[0])


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(np.float64(2.5), id="a scalar"),
        pytest.param(np.zeros((0, 3), np.int8), id="no elements"),
        pytest.param(np.asfortranarray(TABLE[:, :5]), id="columns first"),
        pytest.param(np.array([1, 2], ">i4"), id="other byte order"),
        pytest.param([True, False], id="a list"),
        pytest.param(np.array([(1, 2.5)], [("a", "u1"), ("b", "f8")]), id="records"),
    ],
)
def test_values_dtype_and_shape_are_kept(source: Any) -> None:
    kept, wanted = frozen(source), np.asarray(source)
    assert (kept.dtype, kept.shape) == (wanted.dtype, wanted.shape)
    assert kept.flags.c_contiguous
    assert np.array_equal(kept, wanted)


def test_frozen_array_is_not_copied_again() -> None:
    assert np.shares_memory(frozen(FROZEN), FROZEN)
    assert np.shares_memory(frozen(FROZEN[1]), FROZEN)


def test_pickled_frozen_array_is_an_ordinary_one() -> None:
    loaded = pickle.loads(pickle.dumps(FROZEN[0]))
    assert np.array_equal(loaded, FROZEN[0])


def test_objects_are_refused_by_dtype() -> None:
    with pytest.raises(TypeError, match="got an array of object, expected numbers or booleans"):
        frozen(np.array([b"a"], object))


def test_model_that_gets_a_frozen_array_writes_to_a_copy() -> None:
    last_reference = [frozen(TABLE[0])]
    copied: list[int] = []
    tensors = {"inputs": [Tensor("x", np.float32, [-1])], "outputs": [Tensor("y", np.float32, [-1])]}

    @model(name="kept", **tensors)
    def kept(_x: Any) -> Any:
        return FROZEN[0]

    @model(name="given_away", **tensors)
    def given_away(_x: Any) -> Any:
        # Another response may still be sent from its memory.
        return last_reference.pop()

    @model(name="m", calls=["kept", "given_away"], inputs=[Tensor("x", np.float32, [1])], outputs=tensors["outputs"])
    def overwrite(x: Any, ctx: Context) -> Any:
        for peer in ("kept", "given_away"):
            before = _core.copied_bytes()["hand-in"]
            values = ctx.models[peer](x)
            copied.append(_core.copied_bytes()["hand-in"] - before)
            assert np.array_equal(values, TABLE[0])
            values[:] = -1
        return values

    with Server(kept, given_away, overwrite, http="127.0.0.1:0", grpc=None) as server:
        assert np.all(over_rest(server) == -1)
    # The caller retains `x`, which is copied too.
    assert copied == [SIZE * 4 + ONE.nbytes] * 2
    assert np.array_equal(FROZEN, TABLE)
