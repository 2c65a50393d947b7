"""Names in a request: its id, outputs, inputs and datatypes (cases B1 to B16)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .content import SAMPLES, Call, add, ident, one, summed, tensor
from .protocols import AnyProtocol, assert_located, on_all, on_json, refused, served
from .transports import Transport, infer

O1 = tensor("o1", "FP32", [3.0])
O2 = tensor("o2", "INT64", [1])
ADD = {
    "inputs": [
        {"name": "a", "shape": [1, 4], "datatype": "FP32", "data": [0, 1, 2, 3]},
        {"name": "b", "shape": [1, 4], "datatype": "FP32", "data": [0, 10, 20, 30]},
    ]
}


@on_json
def test_b1_flat_data(protocol: AnyProtocol) -> None:
    served(protocol.infer(add(rows=2)), summed(rows=2))


@pytest.mark.trap("T16")
def test_b1_flat_response(http: Transport) -> None:
    reply = infer(http, "add", ADD)
    assert reply.headers["content-type"] == "application/json"
    assert reply.json() == {
        "model_name": "add",
        "model_version": "1",
        "outputs": [{"name": "sum", "datatype": "FP32", "shape": [1, 4], "data": [0, 11, 22, 33]}],
    }


@pytest.mark.parametrize("data", ["[[0,1,2,3]]", "[0,1,2,3]", "[ [ 0 , 1 ,\n2,\t3 ] ]"])
def test_b2_nested_data(http: Transport, data: str) -> None:
    b = '{"name":"b","shape":[1,4],"datatype":"FP32","data":[[0,10,20,30]]}'
    text = f'{{"inputs":[{{"name":"a","shape":[1,4],"datatype":"FP32","data":{data}}},{b}]}}'
    reply = infer(http, "add", text)
    assert reply.status == 200, reply.body
    assert reply.json()["outputs"][0]["data"] == [0, 11, 22, 33]


@pytest.mark.trap("T39")
@on_all
@pytest.mark.parametrize("identifier", ["42", 'ü"\\\n\u2028', "x" * 1000])
def test_b3_id_is_echoed(protocol: AnyProtocol, identifier: str) -> None:
    assert served(protocol.infer(add(id=identifier)), summed()).id == identifier


@on_all
def test_b4_no_id(protocol: AnyProtocol) -> None:
    assert served(protocol.infer(add()), summed()).id == ""


def test_b4_no_id_key(http: Transport) -> None:
    assert "id" not in infer(http, "add", ADD).json()
    # An empty id counts as no id.
    assert "id" not in infer(http, "add", {**ADD, "id": ""}).json()


@pytest.mark.parametrize("wrong", [42, 1.5, True, None, [], {}])
def test_b5_non_string_id(http: Transport, wrong: object) -> None:
    assert "id" in infer(http, "add", {**ADD, "id": wrong}).refusal(400)


@on_all
def test_b6_one_output(protocol: AnyProtocol) -> None:
    served(protocol.infer(one("two_out", 1.5, outputs=("o2",))), O2)
    served(protocol.infer(one("two_out", 1.5, outputs=("o1",))), O1)


@on_all
def test_b7_outputs_in_the_requested_order(protocol: AnyProtocol) -> None:
    served(protocol.infer(one("two_out", 1.5, outputs=("o2", "o1"))), O2, O1)


@pytest.mark.trap("T56")
@on_all
def test_b8_no_outputs_means_all(protocol: AnyProtocol) -> None:
    served(protocol.infer(one("two_out", 1.5, outputs=())), O1, O2)
    served(protocol.infer(one("two_out", 1.5)), O1, O2)


@on_all
def test_b9_unknown_output(protocol: AnyProtocol) -> None:
    refused(protocol.infer(one("two_out", outputs=("o1", "zzz"))), 400, "'zzz'", "'o1', 'o2'")


@on_all
def test_b10_duplicate_output(protocol: AnyProtocol) -> None:
    refused(protocol.infer(one("two_out", outputs=("o1", "o1"))), 400, "'o1'", "twice")


@pytest.mark.trap("T58")
@pytest.mark.parametrize("value", ["add", None, 5, [[[]]], {"a": [1, {"b": "}"}]}])
def test_b11_extra_keys_are_ignored(http: Transport, value: object) -> None:
    head, other = ADD["inputs"]
    document = {"model_name": value, "inputs": [{"extra": value, **head, "more": value}, other], "zz": value}
    assert infer(http, "add", document).json()["outputs"][0]["data"] == [0, 11, 22, 33]


@on_all
def test_b12_unknown_input(protocol: AnyProtocol) -> None:
    refused(protocol.infer(add().with_input(0, name="c")), 400, "'c'", "'a', 'b'")


@on_all
def test_b12_extra_input(protocol: AnyProtocol) -> None:
    extra = replace(add(), inputs=(*add().inputs, tensor("c", "FP32", [0.0])))
    refused(protocol.infer(extra), 400, "'c'", "'a', 'b'")


@on_all
@pytest.mark.parametrize(("present", "missing"), [(0, "b"), (1, "a")])
def test_b13_missing_input(protocol: AnyProtocol, present: int, missing: str) -> None:
    refused(protocol.infer(replace(add(), inputs=(add().inputs[present],))), 400, f"'{missing}' is missing", "'a', 'b'")


@on_all
def test_b13_no_inputs(protocol: AnyProtocol) -> None:
    refused(protocol.infer(Call("add", ())), 400, "'a' is missing")


@on_all
def test_b14_duplicate_input(protocol: AnyProtocol) -> None:
    a, b = add().inputs
    refused(protocol.infer(replace(add(), inputs=(a, b, a))), 400, "'a'", "twice")
    refused(protocol.infer(add().with_input(1, name="a")), 400, "'a'", "twice")


@on_all
@pytest.mark.parametrize("wrong", [name for name in SAMPLES if name not in ("FP32", "FP16", "BF16")])
def test_b15_datatype_mismatch(protocol: AnyProtocol, wrong: str) -> None:
    identifier = tensor("a", wrong, SAMPLES[wrong][:1] * 4, [1, 4])
    refused(protocol.infer(replace(add(), inputs=(identifier, add().inputs[1]))), 400, "'a'", wrong, "expects FP32")


@pytest.mark.trap("T45")
@on_all
@pytest.mark.parametrize("wrong", ["FP31", "fp32", "STRING", "", "FP32 "])
def test_b16_unknown_datatype(protocol: AnyProtocol, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_fp32(monkeypatch, wrong)
    call = ident("FP32", [1.0]).with_input(0, datatype=wrong)
    response = protocol.infer(call)
    refused(response, 400, f"'{wrong}'", "FP32")
    assert_located(response.message, "x")


def as_fp32(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Lets the protocols encode an unknown datatype like FP32."""
    from . import content, protocols

    monkeypatch.setitem(content.DTYPES, name, content.DTYPES["FP32"])
    monkeypatch.setitem(protocols.TYPED_FIELDS, name, "fp32_contents")
