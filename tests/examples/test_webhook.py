"""The webhook example: signed payments, reports, and V2 inference on the same model."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

testing = pytest.importorskip("penstock.testing")

Load = Callable[[str], ModuleType]


@pytest.fixture
def client(example: Load) -> Iterator[Any]:
    with testing.Client(example("app").Payments) as client:
        yield client


def pay(client: Any, body: bytes, secret: bytes = b"hush") -> Any:
    signature = hmac.new(secret, body, "sha256").hexdigest()
    return client.post("/hooks/payment", body, headers={"X-Signature": signature})


def test_payments_are_accepted_and_reported(client: Any) -> None:
    responses = [pay(client, json.dumps({"customer": "anna m", "amount": amount}).encode()) for amount in (250, 10)]
    assert [one.status for one in responses] == [202, 202]
    report = client.get("/customers/anna%20m/risk").json()
    assert report == {"customer": "anna m", "risk": pytest.approx(0.2212, abs=1e-3)}
    table = client.get("/customers/anna%20m/payments.csv")
    assert table.body == b"amount,risk\n250.00,0.221\n10.00,0.010\n"
    assert table.headers["content-type"] == "text/csv"


def test_invalid_webhook_requests_are_refused(client: Any) -> None:
    assert pay(client, b"{}", b"wrong").error() == "the header 'x-signature' is not that of the body"
    refused = pay(client, b'{"customer": 1}')
    assert (refused.status, refused.error()) == (
        400,
        "the body is no payment, expected JSON with 'customer' and 'amount'",
    )
    assert client.get("/customers/unknown/risk").status == 404


def test_v2_inference_calls_the_same_model(client: Any) -> None:
    tensor = {"name": "amount", "datatype": "FP64", "shape": [2], "data": [0, 5000]}
    response = client.post("/v2/models/payments/infer", json.dumps({"inputs": [tensor]}))
    np.testing.assert_allclose(response.json()["outputs"][0]["data"], [0, 0.9933], atol=1e-3)
