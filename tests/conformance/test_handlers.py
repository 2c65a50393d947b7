"""Versions, parameters, and models that fail (cases B48 to B53 and B60 to B64, D24)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from .content import Call, one, tensor
from .protocols import AnyProtocol, on_all, refused, served
from .transports import Transport, infer

KINDS: dict[str, bool | int | float | str] = {
    "flag": True,
    "off": False,
    "count": -3,
    "big": 2**63 - 1,
    "ratio": 0.5,
    "whole": 2.0,
    "text": 'ü\n"',
    "empty": "",
}


def with_parameters(parameters: str) -> str:
    return f'{{"parameters":{{{parameters}}},"inputs":[{{"name":"x","shape":[1],"datatype":"FP32","data":[1]}}]}}'


def types(parameters: dict[str, Any]) -> dict[str, str]:
    return {name: type(value).__name__ for name, value in parameters.items()}


@on_all
@pytest.mark.parametrize("version", ["1", "2"])
def test_b48_versioned(protocol: AnyProtocol, version: str) -> None:
    response = served(protocol.infer(one("ver", version=version)), tensor("version", "INT64", [int(version)]))
    assert (response.model, response.version) == ("ver", version)


@on_all
def test_b49_unversioned_is_the_highest(protocol: AnyProtocol) -> None:
    response = served(protocol.infer(one("ver")), tensor("version", "INT64", [2]))
    assert (response.model, response.version) == ("ver", "2")


@pytest.mark.trap("T68")
@on_all
def test_b50_parameters_reach_the_handler(protocol: AnyProtocol) -> None:
    response = served(protocol.infer(one("parameters", parameters=KINDS)), tensor("y", "FP32", [1.0]))
    # The handler returns the type of each parameter.
    types_seen = {
        name.removeprefix("type_of_"): kind for name, kind in response.parameters.items() if name.startswith("type_of_")
    }
    assert types_seen == types(KINDS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("1.0", 1.0),
        ("1e2", 100.0),
        ("-0.0", -0.0),
        ("18446744073709551615", 2**64 - 1),
        ("true", True),
        ('""', ""),
    ],
)
def test_b50_types_by_their_text(http: Transport, text: str, expected: object) -> None:
    parameters = infer(http, "parameters", with_parameters(f'"p":{text}')).json()["parameters"]
    assert parameters == {"p": expected, "type_of_p": type(expected).__name__}
    assert type(parameters["p"]) is type(expected)


@pytest.mark.trap("T58")
@pytest.mark.parametrize("wrong", ["null", "[]", "[1]", "{}", '{"a":1}'])
def test_b51_parameter_of_an_invalid_type(http: Transport, wrong: str) -> None:
    assert "'p'" in infer(http, "parameters", with_parameters(f'"p":{wrong}')).refusal(400)
    # Also where the handler would not read it.
    assert "'p'" in infer(http, "ident_FP32", with_parameters(f'"p":{wrong}')).refusal(400)


@pytest.mark.parametrize("wrong", ["null", "[]", '"x"', "1"])
def test_b51_non_object_parameters(http: Transport, wrong: str) -> None:
    body = f'{{"parameters":{wrong},"inputs":[{{"name":"x","shape":[1],"datatype":"FP32","data":[1]}}]}}'
    assert "parameters" in infer(http, "parameters", body).refusal(400)


@on_all
@pytest.mark.parametrize("name", ["triton_x", "triton_", "triton_final_response"])
def test_b52_reserved_parameter(protocol: AnyProtocol, name: str) -> None:
    refused(protocol.infer(one("parameters", parameters={name: True})), 400, f"'{name}'", "reserved")


@on_all
@pytest.mark.parametrize(
    "reserved",
    [{"priority": 1}, {"timeout": 10**7}, {"sequence_id": 5}, {"sequence_id": "a"}, {"sequence_start": True}],
)
def test_b50_reserved_parameters_are_not_custom(protocol: AnyProtocol, reserved: dict[str, Any]) -> None:
    response = served(protocol.infer(one("parameters", parameters={**reserved, "own": 1})), tensor("y", "FP32", [1.0]))
    assert response.parameters == {"own": 1, "type_of_own": "int"}


@on_all
@pytest.mark.parametrize(
    "wrong", [{"priority": "high"}, {"priority": -1}, {"timeout": "1"}, {"timeout": 1.5}, {"sequence_start": 1}]
)
def test_b51_reserved_parameter_of_an_invalid_type(protocol: AnyProtocol, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    refused(protocol.infer(one("parameters", parameters=wrong)), 400, f"'{name}'", "expected")


@pytest.mark.trap("T68")
@on_all
def test_b53_response_parameters(protocol: AnyProtocol) -> None:
    response = served(protocol.infer(one("parameters", parameters=KINDS)), tensor("y", "FP32", [1.0]))
    custom = {name: value for name, value in response.parameters.items() if not name.startswith("type_of_")}
    assert custom == KINDS
    assert types(custom) == types(KINDS)


@on_all
def test_b53_no_response_parameters(protocol: AnyProtocol) -> None:
    assert protocol.infer(one("parameters")).parameters == {}


def test_b53_no_parameters_key(http: Transport) -> None:
    assert "parameters" not in infer(http, "parameters", with_parameters("")).json()


@on_all
def test_b60_unknown_model(protocol: AnyProtocol) -> None:
    refused(protocol.infer(one("none")), 404, "'none'")
    refused(protocol.infer(one("ver", version="9")), 404, "'ver'", "'9'")
    refused(protocol.infer(one("ver", version="abc")), 404, "'abc'")


def test_b60_unknown_model_whatever_the_body(http: Transport) -> None:
    assert "'none'" in http.request("POST", "/v2/models/none/infer", b"no JSON").refusal(404)


@pytest.mark.parametrize("path", ["/v2/models/add/infer", "/v2/models/ver/versions/1/infer"])
def test_b61_get_on_infer(http: Transport, path: str) -> None:
    assert http.request("GET", path).refusal(405) == "Method Not Allowed"


@on_all
def test_b62_handler_that_raises(protocol: AnyProtocol, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger="penstock.boom"):
        response = protocol.infer(one("boom"))
    refused(response, 500, "'boom'")
    assert "secret" not in response.message
    assert "Traceback" not in response.message
    # The log has the details that the client must not see.
    assert "a secret of the model" in caplog.text


@on_all
def test_b63_handler_that_raises_a_typed_error(protocol: AnyProtocol) -> None:
    refused(protocol.infer(one("typed_err", 3.0)), 404, "no entry for 3.0")


@pytest.mark.parametrize("protocol", ["grpc-raw", "grpc-typed"], indirect=True)
def test_d24_handlers_that_raise(protocol: AnyProtocol) -> None:
    refused(protocol.infer(one("boom")), 500, "'boom'")
    refused(protocol.infer(one("typed_err", 3.0)), 404, "no entry for 3.0")


@on_all
def test_b64_wrong_output_dtype(protocol: AnyProtocol) -> None:
    refused(protocol.infer(one("wrong_dtype")), 500, "'wrong_dtype'", "'y'", "float64", "FP32")


@on_all
def test_b64_wrong_output_shape(protocol: AnyProtocol) -> None:
    refused(protocol.infer(one("wrong_shape")), 500, "'wrong_shape'", "'y'", "[3]", "[2]")


@on_all
def test_b62_model_keeps_serving_after_a_failure(protocol: AnyProtocol) -> None:
    for _ in range(3):
        refused(protocol.infer(one("boom")), 500, "'boom'")
    served(protocol.infer(Call("scalar", (tensor("x", "FP32", [1.0], []),))), tensor("y", "FP32", [1.0], []))
