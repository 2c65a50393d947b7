"""The clients of Anthropic, OpenAI's responses, LiteLLM and LangChain, streamed and not, with tools in two turns."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from differential import TOOLS
from penstock import Server, model, openai
from penstock.openai import Delta, ToolCall

PYTHON = TOOLS / "llm" / "bin" / "python"
SCRIPT = Path(__file__).parent / "llm_calls.py"
CITY = {"city": "Oslo"}


@model(name="agent")
def agent(
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]] | None = None,
    tool_choice: Any = None,
    reasoning_effort: str = "none",
) -> Iterator[str | Delta]:
    """Calls the first tool, then answers with its result."""
    last = messages[-1]
    if last["role"] == "tool":
        content = last["content"]
        text = content if isinstance(content, str) else "".join(part["text"] for part in content)
        yield from ("It is ", text, ".")
    elif tools:
        yield Delta(reasoning="Hm.")
        yield "Let me "
        yield "look."
        yield Delta(tool_calls=[ToolCall(tools[0]["function"]["name"], '{"city":')])
        yield Delta(tool_calls=[ToolCall(arguments='"Oslo"}')])
    else:
        yield "No tools."


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """The results of the clients, by name."""
    if not PYTHON.exists():
        pytest.skip("the clients are not installed; python tests/clients/setup_tools.py llm fetches them")
    routes = openai.routes(openai.Chat(agent, tokens=len))
    with Server(agent, routes, http="127.0.0.1:0", grpc=None) as server:
        command = [str(PYTHON), str(SCRIPT), str(server.http_url)]
        # LiteLLM fetches a table of prices unless it is told to use its own.
        environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONPATH": ""}
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    read: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return read


def test_anthropics_client(found: dict[str, Any]) -> None:
    plain, streamed, count, bad, unknown = found["anthropic"]
    blocks = ["thinking", "text", "tool_use"]
    prompt = len("Be brief.\nWhat is the weather?")
    completion = len('Hm.Let me look.{"city":"Oslo"}')
    expected = [blocks, "tool_use", [CITY], "It is sunny.", "end_turn", [prompt, completion]]
    assert plain == streamed == expected
    assert count == len("What is the weather?")
    assert bad["error"] == {"type": "invalid_request_error", "message": "'max_tokens' is 0, expected 1 or more"}
    assert unknown["error"] == {"type": "not_found_error", "message": "The model 'none' does not exist"}


def test_openais_client_of_responses(found: dict[str, Any]) -> None:
    plain, streamed = found["responses"]
    items = ["reasoning", "message", "function_call"]
    usage = ["completed", len("Be brief.\nWhat is the weather?"), len('Hm.Let me look.{"city":"Oslo"}')]
    assert plain[:4] == streamed[:4] == [items, [CITY], "It is sunny.", usage]
    assert streamed[4] == [
        "response.completed",
        "response.content_part.added",
        "response.content_part.done",
        "response.created",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.in_progress",
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.delta",
        "response.output_text.done",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
    ]


def test_litellm(found: dict[str, Any]) -> None:
    assert found["litellm"] == [["tool_calls", [CITY], "It is sunny.", "stop"]] * 4


def test_langchain(found: dict[str, Any]) -> None:
    assert found["langchain"] == [[[CITY], "It is sunny."]] * 6
