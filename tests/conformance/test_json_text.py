"""The text of a JSON request: whitespace, order, and invalid JSON (cases B29 to B32 and B58)."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .transports import Transport, infer

SPACES = ["", " ", "\n", "\t", "\r\n", "  \n\t "]
ADD = {
    "id": "7",
    "parameters": {"timeout": 20000000, "priority": 1},
    "inputs": [
        {"name": "a", "shape": [2, 4], "datatype": "FP32", "data": [0, 1, 2, 3, 4, 5, 6, 7]},
        {"name": "b", "shape": [2, 4], "datatype": "FP32", "data": [[0.5, 0, 0, 0], [0, 0, 0, -1e1]]},
    ],
    "outputs": [{"name": "sum", "parameters": {"binary_data": False}}],
}
SUM = [0.5, 1, 2, 3, 4, 5, 6, -3]


def written(value: object, space: str, *, backwards: bool = False) -> str:
    """JSON with `space` around every token, and optionally reversed members."""
    if isinstance(value, dict):
        items = [
            f"{space}{json.dumps(key)}{space}:{written(item, space, backwards=backwards)}"
            for key, item in value.items()
        ]
        return f"{space}{{{','.join(items[::-1] if backwards else items) or space}}}{space}"
    if isinstance(value, list):
        return f"{space}[{','.join(written(item, space, backwards=backwards) for item in value) or space}]{space}"
    return f"{space}{json.dumps(value)}{space}"


def check(http: Transport, text: str) -> None:
    reply = infer(http, "add", text)
    assert reply.status == 200, reply.body
    assert reply.json()["id"] == "7"
    assert reply.json()["outputs"] == [{"name": "sum", "datatype": "FP32", "shape": [2, 4], "data": SUM}]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("space", SPACES)
def test_whitespace_around_every_token(http: Transport, space: str, backwards: bool) -> None:
    check(http, written(ADD, space, backwards=backwards))


@pytest.mark.parametrize("indent", [None, 0, 1, 4, "\t"])
def test_whitespace_of_indented_json(http: Transport, indent: int | str | None) -> None:
    check(http, json.dumps(ADD, indent=indent))
    check(http, json.dumps(ADD, indent=indent, sort_keys=True))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whitespace_and_order_at_random(http: Transport, data: st.DataObject) -> None:
    space = st.text(" \n\t\r", max_size=3)

    def write(value: object) -> str:
        before, after = data.draw(space), data.draw(space)
        if isinstance(value, dict):
            names = data.draw(st.permutations(list(value)))
            inner = ",".join(
                f"{data.draw(space)}{json.dumps(name)}{data.draw(space)}:{write(value[name])}" for name in names
            )
            return f"{before}{{{inner}}}{after}"
        if isinstance(value, list):
            return f"{before}[{','.join(write(item) for item in value)}]{after}"
        return f"{before}{json.dumps(value)}{after}"

    check(http, write(ADD))


def test_last_repeated_key_wins(http: Transport) -> None:
    check(http, '{"id":"1","inputs":[],' + json.dumps(ADD)[1:])


def test_keys_may_be_escaped(http: Transport) -> None:
    check(http, json.dumps(ADD).replace('"inputs"', r'"\u0069nputs"').replace('"shape"', r'"sh\u0061pe"'))


@pytest.mark.trap("T10")
@pytest.mark.parametrize(
    "text", ["hello", "<xml/>", "1", '"text"', "null", "[]", "[1]", "{,}", "{'a':1}", "\ufeff{}", "{}"]
)
def test_b29_json_body_that_is_not_a_request(http: Transport, text: str) -> None:
    assert infer(http, "add", text).refusal(400)


@pytest.mark.parametrize("more", ["x", "{}", ",", "]", "\0"])
def test_b29_something_after_the_json(http: Transport, more: str) -> None:
    assert infer(http, "add", json.dumps(ADD) + more).refusal(400)


@pytest.mark.parametrize("space", ["\v", "\f", "\u00a0", "\u2028", "\0"])
def test_b29_invalid_whitespace(http: Transport, space: str) -> None:
    assert infer(http, "add", json.dumps(ADD).replace(" ", space, 1)).refusal(400)


@pytest.mark.parametrize(
    "wrong",
    [
        ("[0,", "[,0,"),
        ("7]", "7,]"),
        ('"id"', "id"),
        ("0.5", "0,5"),
        (
            ":",
            " ",
        ),
    ],
)
def test_b29_misplaced_token(http: Transport, wrong: tuple[str, str]) -> None:
    text = json.dumps(ADD, separators=(",", ":"))
    assert wrong[0] in text
    assert infer(http, "add", text.replace(*wrong, 1)).refusal(400)


@pytest.mark.trap("T52")
@pytest.mark.parametrize(
    "headers", [{}, {"Content-Type": "application/json"}, {"Content-Type": "application/octet-stream"}]
)
def test_b30_empty_body(http: Transport, headers: dict[str, str]) -> None:
    assert "JSON" in http.request("POST", "/v2/models/add/infer", b"", headers).refusal(400)
    # Also for a model that could accept a raw body: only an explicit header makes it raw.
    assert http.request("POST", "/v2/models/ident_FP32/infer", b"", headers).refusal(400)


def test_b31_truncated_json(http: Transport) -> None:
    text = json.dumps(ADD, separators=(",", ":"))
    for length in range(1, len(text)):
        assert http.request("POST", "/v2/models/add/infer", text[:length].encode()).refusal(400), length


@pytest.mark.parametrize("wrong", [{}, {"a": 1}, "x", 1, None, True, [1], [None], ["a"], [[]]])
def test_b32_inputs_must_be_an_array_of_objects(http: Transport, wrong: object) -> None:
    assert infer(http, "add", {"inputs": wrong}).refusal(400)


@pytest.mark.parametrize("wrong", [{}, {"a": 1}, "sum", 1, True, [1], ["sum"], [[]], [{}], [{"name": 1}]])
def test_b32_outputs_must_be_an_array_of_objects(http: Transport, wrong: object) -> None:
    assert infer(http, "add", {**ADD, "outputs": wrong}).refusal(400)


@pytest.mark.parametrize("depth", [100, 10_000, 1_000_000])
@pytest.mark.parametrize("place", ["data", "shape", "extra", "parameters", "top", "inputs"])
def test_b58_nesting_without_end(http: Transport, place: str, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    texts = {
        "data": f'{{"inputs":[{{"name":"x","shape":[1],"datatype":"FP32","data":{deep}}}]}}',
        "shape": f'{{"inputs":[{{"name":"x","shape":{deep},"datatype":"FP32","data":[1]}}]}}',
        "extra": f'{{"extra":{deep},"inputs":[]}}',
        "parameters": f'{{"parameters":{{"a":{deep}}},"inputs":[]}}',
        "top": deep,
        "inputs": f'{{"inputs":{deep}}}',
    }
    assert infer(http, "ident_FP32", texts[place]).refusal(400)
    objects = texts[place].replace("[" * depth, '{"a":' * depth).replace("]" * depth, "1" + "}" * depth)
    assert infer(http, "ident_FP32", objects).refusal(400)
