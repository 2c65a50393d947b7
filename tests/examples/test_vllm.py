"""The chat with vLLM: its stand-in, compared with an installed vLLM; and the forms of chats of all engines."""

from __future__ import annotations

import ast
import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from openai import BadRequestError, OpenAI

from penstock import Server
from penstock.openai import ToolCall
from waiting import PATIENCE, until

Load = Callable[[str], ModuleType]
TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call>'


@pytest.fixture(scope="module")
def app(example: Load) -> Iterator[ModuleType]:
    pytest.importorskip("jinja2")
    with pytest.MonkeyPatch.context() as patch:
        for name, module in example("fake_vllm").modules().items():
            patch.setitem(sys.modules, name, module)
        yield example("app")


@pytest.fixture(scope="module")
def engine(app: ModuleType) -> Iterator[Any]:
    """The engine of the served model."""
    engine = app.AsyncLLM()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app.AsyncLLM, "from_engine_args", lambda engine_args: engine)
        yield engine


@pytest.fixture(scope="module")
def client(app: ModuleType, engine: Any) -> Iterator[OpenAI]:
    with (
        Server(app.Chat, app.api, http="127.0.0.1:0", grpc=None) as server,
        OpenAI(base_url=f"{server.http_url}/v1", api_key="-", max_retries=0, timeout=PATIENCE) as client,
    ):
        yield client


def ask(client: OpenAI, text: str = "the river turns", **members: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    return client.chat.completions.create(**{"model": "chat", "messages": messages, **members})


def test_text_usage_and_finish_reason(client: OpenAI) -> None:
    answer = ask(client)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("the river turns ", "stop")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 3)
    *chunks, last = ask(client, max_tokens=2, stream=True, stream_options={"include_usage": True})
    assert [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content] == ["the ", "river "]
    assert chunks[-1].choices[0].finish_reason == "length"
    assert last.usage.completion_tokens == 2


def test_parameters_reach_the_engine(client: OpenAI, app: ModuleType, engine: Any) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    form = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}
    ask(client, temperature=0.5, seed=3, logit_bias={"7": 2}, response_format=form, extra_body={"min_p": 0.1})
    params = engine.requests[-1]
    assert (params.temperature, params.seed, params.min_p, params.max_tokens) == (0.5, 3, 0.1, 997)
    assert (params.logit_bias, params.structured_outputs.json, params.logprobs) == ({7: 2}, schema, None)
    assert params.output_kind is app.RequestOutputKind.DELTA
    ask(client, response_format={"type": "json_object"})
    assert engine.requests[-1].structured_outputs.json_object is True


def test_logprobs(client: OpenAI) -> None:
    content = ask(client, logprobs=True, top_logprobs=1).choices[0].logprobs.content
    assert [(one.token, one.logprob, one.top_logprobs[0].token) for one in content] == [
        (word, -0.5, word) for word in ("the", "river", "turns")
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_tool_calls_in_the_text(client: OpenAI, stream: bool) -> None:
    text = f"Let me look. {CALL}"
    if stream:
        message: Any = {"role": "user", "content": text}
        with client.chat.completions.stream(model="chat", messages=[message], tools=[TOOL]) as events:
            answer: Any = events.get_final_completion()
    else:
        answer = ask(client, text, tools=[TOOL])
    (choice,) = answer.choices
    # The template of the stand-in begins with the names of the tools.
    assert (choice.message.content.strip(), choice.finish_reason) == ("weather Let me look.", "tool_calls")
    (call,) = choice.message.tool_calls
    assert (call.function.name, call.function.arguments) == ("weather", '{"city": "Oslo"}')
    assert ask(client, text).choices[0].message.content.strip() == text


def test_invalid_requests_are_refused(client: OpenAI) -> None:
    with pytest.raises(BadRequestError, match="the prompt has 1000 tokens, expected fewer than 1000"):
        ask(client, "a " * 1000)
    with pytest.raises(BadRequestError, match="top_p must be in"):
        ask(client, top_p=0)


def test_client_that_leaves_aborts_its_request(client: OpenAI, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    generate = engine.generate

    async def held(*arguments: Any) -> AsyncIterator[Any]:
        """Yields the first output, then waits until it is cancelled."""
        async with aclosing(generate(*arguments)) as outputs:
            async for output in outputs:
                yield output
                await asyncio.Event().wait()

    monkeypatch.setattr(engine, "generate", held)
    stream = ask(client, stream=True)
    next(stream)
    stream.close()
    assert until(lambda: engine.aborted, "the abort")


def test_calls_are_found_in_chunks_of_any_size(example: Load) -> None:
    parser = example("chat_format").ToolCallParser
    text = f"Look: {CALL}\n{CALL}<tool_call>no JSON</tool_call> 1 <2 <tool_call>cut"
    for size in range(1, len(text) + 1):
        calls, found = parser([TOOL]), []
        chunks = [calls.feed(text[start : start + size]) for start in range(0, len(text), size)]
        found = [call for _, part in chunks for call in part]
        assert found == [ToolCall("weather", {"city": "Oslo"})] * 2
        rest = "".join(part for part, _ in chunks) + calls.end()
        assert "".join(rest.split()) == "Look:<tool_call>noJSON</tool_call>1<2<tool_call>cut", size
        assert (calls.finish_reason("stop"), calls.finish_reason("length")) == ("tool_calls", "length")
    without = parser(None)
    assert (without.feed(text), without.end(), without.finish_reason("stop")) == ((text, []), "", "stop")


def test_messages_become_those_of_templates(example: Load) -> None:
    function = {"name": "weather", "arguments": '{"city": "Oslo"}'}
    call = {"id": "1", "type": "function", "function": function}
    broken = {**call, "function": {**function, "arguments": "{"}}
    given = [
        {"role": "user", "content": [{"type": "text", "text": "the "}, {"type": "text", "text": "river"}]},
        {"role": "assistant", "content": None, "tool_calls": [call, broken]},
    ]
    user, assistant = example("chat_format").for_template(given)
    assert user["content"] == "the river"
    assert [one["function"]["arguments"] for one in assistant["tool_calls"]] == [{"city": "Oslo"}, "{"]
    assert function["arguments"] == '{"city": "Oslo"}'


REAL = {
    "vllm/v1/engine/async_llm.py": ("AsyncLLM",),
    "vllm/outputs.py": ("CompletionOutput", "RequestOutput"),
    "vllm/logprobs.py": ("Logprob",),
    "vllm/sampling_params.py": ("SamplingParams", "StructuredOutputsParams", "RequestOutputKind"),
    "vllm/exceptions.py": ("VLLMClientError",),
    "vllm/engine/arg_utils.py": ("AsyncEngineArgs",),
}
"""Files of vLLM and their classes that the stand-in has."""


@pytest.mark.parametrize("path", REAL)
def test_stand_in_has_the_signatures_of_an_installed_vllm(example: Load, path: str) -> None:
    if (found := PathFinder.find_spec("vllm")) is None or not found.submodule_search_locations:
        pytest.skip("vllm is not installed")
    # Read, not imported: without a GPU its import may fail.
    tree = ast.parse((Path(found.submodule_search_locations[0]).parent / path).read_text())
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for name in REAL[path]:
        fake = getattr(example("fake_vllm"), name)
        fields = {*getattr(fake, "__annotations__", {}), *getattr(fake, "__members__", {})}
        assert fields <= members_of(classes, name), name
        for method, function in inspect.getmembers(fake, inspect.isroutine):
            if not method.startswith("_") and method in vars(fake):
                known = parameters_of(classes[name], method)
                assert {*inspect.signature(function).parameters} - {"self"} <= known, f"{name}.{method}"


def members_of(classes: dict[str, ast.ClassDef], name: str) -> set[str]:
    """Fields and values of a class and of its bases in the file, and parameters of its constructor."""
    own = classes[name]
    found = {ast.unparse(one.target) for one in own.body if isinstance(one, ast.AnnAssign)}
    found |= {ast.unparse(target) for one in own.body if isinstance(one, ast.Assign) for target in one.targets}
    bases = [base for base in map(ast.unparse, own.bases) if base in classes]
    return found.union(parameters_of(own, "__init__"), *(members_of(classes, base) for base in bases))


def parameters_of(owner: ast.ClassDef, method: str) -> set[str]:
    for node in owner.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == method:
            return {one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    return set()
