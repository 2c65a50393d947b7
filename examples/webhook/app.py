"""A webhook, custom reports and V2 inference of one model, which scores payments."""

from __future__ import annotations

import hmac
import json
import os
from typing import Any

import numpy as np

from penstock import Forbidden, InvalidInput, NotFound, Request, Response, model

SECRET = os.environ.get("WEBHOOK_SECRET", "hush").encode()


def risk(amounts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Risk of an amount, from 0 to 1. A trained model would compute it."""
    return (1 - np.exp(-amounts / 1000)).astype(np.float32)


@model(
    name="payments",
    routes=["POST /hooks/payment", "GET /customers/{customer}/risk", "GET /customers/{customer}/payments.csv"],
)
class Payments:
    """Scores payments, and stores those of the webhook by customer."""

    def __init__(self) -> None:
        self.seen: dict[str, list[float]] = {}

    def __call__(self, request: Request) -> Any:
        """Serves tensors and the routes."""
        if request.route is None:
            return {"risk": risk(request.tensors["amount"])}
        if request.method == "POST":
            return self.take(request)
        customer = request.path_params["customer"]
        if customer not in self.seen:
            raise NotFound(f"no payment of {customer!r} is known")
        if request.path.endswith(".csv"):
            return self.table(self.seen[customer])
        return answer({"customer": customer, "risk": float(risk(np.array(self.seen[customer])).max())})

    def take(self, request: Request) -> Response:
        """Accepts a payment that is signed with the secret."""
        expected = hmac.new(SECRET, request.body, "sha256").hexdigest()
        if not hmac.compare_digest(request.headers.get("x-signature", ""), expected):
            raise Forbidden("the header 'x-signature' is not that of the body")
        try:
            payment = json.loads(request.body)
            customer, amount = str(payment["customer"]), float(payment["amount"])
        except (ValueError, KeyError, TypeError):
            raise InvalidInput("the body is no payment, expected JSON with 'customer' and 'amount'") from None
        self.seen.setdefault(customer, []).append(amount)
        return answer({"risk": float(risk(np.array([amount]))[0])}, status=202)

    def table(self, amounts: list[float]) -> Response:
        """All payments of a customer."""
        rows = [f"{amount:.2f},{one:.3f}" for amount, one in zip(amounts, risk(np.array(amounts)), strict=True)]
        return Response("\n".join(["amount,risk", *rows, ""]), content_type="text/csv")


def answer(value: Any, status: int = 200) -> Response:
    """A JSON response."""
    return Response(json.dumps(value), status=status, content_type="application/json")
