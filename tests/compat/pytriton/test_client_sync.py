"""`ModelClient`: calls, argument checks and error texts."""

from __future__ import annotations

import json
import time
import warnings
from typing import Any

import numpy as np
import pytest
from native_server import RELEASE, Urls

from penstock.compat.pytriton.client import ModelClient
from penstock.compat.pytriton.client import exceptions as errors
from waiting import at_once

A = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_batch_by_position_and_by_name(url: str) -> None:
    with ModelClient(url, "add") as client:
        for result in (client.infer_batch(A, A), client.infer_batch(b=A, a=A)):
            assert list(result) == ["sum", "difference"]
            np.testing.assert_array_equal(result["sum"], A * 2)
        assert client.is_batching_supported


def test_samples_have_no_batch_axis(url: str) -> None:
    with ModelClient(url, "add") as client:
        assert client.infer_sample(A[0], A[0])["sum"].tolist() == [0, 2, 4]
    with ModelClient(url, "plain") as client:
        assert client.infer_sample(A[0])["y"].tolist() == [1, 2, 3]
        assert not client.is_batching_supported


def test_model_without_batching_rejects_batches(url: str) -> None:
    expected = "Model plain doesn't support batching - use infer_sample method instead"
    with (
        ModelClient(url, "plain") as client,
        pytest.raises(errors.PyTritonClientModelDoesntSupportBatchingError, match=expected),
    ):
        client.infer_batch(A)


def test_bytes_are_object_arrays(url: str) -> None:
    with ModelClient(url, "text") as client:
        values = np.array([[b"a", b"\x00\xff\x00"]], object)
        result = client.infer_batch(values)["y"]
        assert result.dtype == object
        assert result.tolist() == values.tolist()
        assert client.infer_sample(np.array([b"ab", b"c"]))["y"].tolist() == [b"ab", b"c"]
        assert client.infer_batch(np.empty((1, 0), object))["y"].shape == (1, 0)


@pytest.mark.parametrize("method", ["infer_sample", "infer_batch"])
def test_arguments_are_checked_before_any_request(method: str) -> None:
    with ModelClient("127.0.0.1:1", "m") as client:
        infer = getattr(client, method)
        with pytest.raises(errors.PyTritonClientValueError, match=r"^Provide input data$"):
            infer()
        with pytest.raises(
            errors.PyTritonClientValueError, match=r"^Use either positional either keyword method arguments convention$"
        ):
            infer(A, b=A)
        for values in ({"parameters": [1]}, {"headers": "a"}):
            with pytest.raises(errors.PyTritonClientValueError, match=r"^Parameters and headers must be a dictionary$"):
                infer(A, **values)
        with pytest.raises(errors.PyTritonClientValueError, match=r"^Parameter/header key must be a string$"):
            infer(A, parameters={1: "a"})
        for values in ({"parameters": {"a": 1.5}}, {"headers": {"a": None}}):
            with pytest.raises(
                errors.PyTritonClientValueError,
                match=r"^Parameter/header value must be a string, integer or boolean$",
            ):
                infer(A, **values)


def test_unsupported_arrays_are_rejected(url: str) -> None:
    with ModelClient(url, "text") as client:
        with pytest.raises(RuntimeError, match=r"^Unicode inputs are not supported\. Encode numpy array for 'x' input"):
            client.infer_batch(np.array([["a"]]))
        with pytest.raises(RuntimeError, match="'x' input with dtype=object should contain encoded strings"):
            client.infer_batch(np.array([["a"]], object))
        for call in (client.infer_batch, client.infer_sample):
            with pytest.raises(
                errors.PyTritonClientValueError,
                match=r"^Input x is not a numpy array\. Got <class 'list'> instead\.$",
            ):
                call([b"a"])
        with pytest.raises(errors.PyTritonClientValueError, match="complex"):
            client.infer_batch(A.astype(np.complex64))


def test_surplus_positional_inputs_are_dropped(url: str) -> None:
    with ModelClient(url, "plain") as client:
        assert client.infer_sample(A[0], A[1])["y"].tolist() == [1, 2, 3]


def test_parameters_headers_and_ids_are_sent(url: str) -> None:
    with ModelClient(url, "listening") as client:
        for number in ("0", "1"):
            seen_by_model = client.infer_batch(
                A[:1], parameters={"p": 1, "q": "x", "r": True}, headers={"header_a": 3, "header_b": True}
            )["seen_by_model"]
            received = json.loads(seen_by_model[0, 0])
            assert received["id"] == number
            assert {name: received[name] for name in ("p", "q", "r")} == {"p": 1, "q": "x", "r": True}
            assert (received["header_a"], received["header_b"]) == ("3", "True")


@pytest.mark.parametrize("name", ["sequence_id", "sequence_start", "headers", "binary_data_output", "triton_x"])
def test_reserved_parameters_are_rejected(url: str, name: str) -> None:
    expected = (
        "^Error occurred during inference request. "
        f'Message: Parameter "{name}" is a reserved parameter and cannot be specified.$'
    )
    with (
        ModelClient(url, "plain") as client,
        pytest.raises(errors.PyTritonClientInferenceServerError, match=expected),
    ):
        client.infer_sample(A[0], parameters={name: 1})


def test_priority_and_timeout_are_sent(url: str) -> None:
    with ModelClient(url, "plain") as client:
        assert client.infer_sample(A[0], parameters={"priority": 1, "timeout": 20_000_000})["y"].tolist() == [1, 2, 3]


def test_rejections_contain_the_servers_text(url: str) -> None:
    with ModelClient(url, "broken") as client:
        with pytest.raises(
            errors.PyTritonClientInferenceServerError,
            match=r"^Error occurred during inference request. Message: it went wrong$",
        ) as caught:
            client.infer_batch(A)
        assert caught.value.message == str(caught.value)
        with pytest.raises(errors.PyTritonClientInferenceServerError, match="FP64"):
            client.infer_batch(A.astype(np.float64))
        with pytest.raises(errors.PyTritonClientInferenceServerError, match="'z'"):
            client.infer_batch(z=A)


@pytest.mark.usefixtures("held_back")
def test_inference_timeout_is_raised(urls: Urls) -> None:
    late = {
        urls.http: r"^Timeout occurred during inference request\. Timeout: 0\.2 s Message: timed out$",
        urls.grpc: r"^Timeout occurred during inference request\. Timeout: 0\.2 s\. Message: Deadline Exceeded$",
    }
    for url, expected in late.items():
        with ModelClient(url, "held", inference_timeout_s=0.2) as client:
            with pytest.raises(errors.PyTritonClientTimeoutError, match=expected) as caught:
                client.infer_batch(A)
            assert not isinstance(caught.value, TimeoutError)
    RELEASE.set()


def test_lost_server_is_reported(urls: Urls) -> None:
    with ModelClient(urls.http, "plain") as client:
        config = client.model_config
    known: Any = {"model_config": config, "ensure_model_is_ready": False}
    with (
        ModelClient("http://127.0.0.1:1", "plain", **known) as client,
        pytest.raises(
            errors.PyTritonClientTimeoutError, match=r"^Timeout occurred .* Timeout: 60\.0 s Message: .*refused"
        ),
    ):
        client.infer_sample(A[0])
    with (
        ModelClient("grpc://127.0.0.1:1", "plain", **known) as client,
        pytest.raises(errors.PyTritonClientInferenceServerError, match="refused"),
    ):
        client.infer_sample(A[0])


def test_unloaded_model_is_unavailable(url: str) -> None:
    with ModelClient(url, "plain") as client:
        known: Any = {"model_config": client.model_config, "ensure_model_is_ready": False}
    with ModelClient(url, "unloaded", **known) as client:
        with pytest.raises(errors.PyTritonClientModelUnavailableError, match="unloaded") as caught:
            client.infer_sample(A[0])
        assert isinstance(caught.value, errors.PyTritonClientInferenceServerError)


def test_closed_client_is_unusable(url: str) -> None:
    with ModelClient(url, "add") as client:
        client.infer_batch(A, A)
    client.close()
    uses = (
        lambda: client.infer_batch(A, A),
        lambda: client.infer_sample([A]),
        lambda: client.wait_for_model(1),
        lambda: client.wait_for_server(1),
        client.load_model,
        client.unload_model,
    )
    for use in uses:
        with pytest.raises(errors.PyTritonClientClosedError, match=r"^ModelClient is closed$"):
            use()
    with ModelClient(url, "add") as never_used:
        pass
    with pytest.raises(errors.PyTritonClientClosedError):
        _ = never_used.model_config


def test_decoupled_model_is_rejected(url: str) -> None:
    expected = r"^Model config is decoupled\. Use DecoupledModelClient instead\.$"
    with (
        ModelClient(url, "counting") as client,
        pytest.raises(errors.PyTritonClientInferenceServerError, match=expected),
    ):
        client.infer_sample(np.array([1], np.int32))


def test_many_threads_share_a_client(url: str) -> None:
    with ModelClient(url, "add") as client:
        futures = at_once([lambda n=n: client.infer_batch(A + n, A)["sum"] for n in range(16)])
        for n, future in enumerate(futures):
            np.testing.assert_array_equal(future.result(), A * 2 + n)


def test_calls_cause_no_warnings(url: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ModelClient(url, "add", init_timeout_s=0.9 if url.startswith("grpc") else 120) as client:
            client.infer_batch(A, A)


def test_version_is_selected(url: str) -> None:
    with ModelClient(url, "add", "1") as client:
        assert client.infer_batch(A, A)["sum"].shape == (2, 3)
    started = time.monotonic()
    with (
        ModelClient(url, "add", "7", init_timeout_s=0.3) as client,
        pytest.raises(errors.PyTritonClientTimeoutError, match=r"^Waiting for model add/7 to be ready timed out\.$"),
    ):
        client.infer_batch(A, A)
    assert time.monotonic() - started < 10
