"""Helpers of the tests of files and batches."""

from __future__ import annotations

import json
from typing import Any

from openai import OpenAI

from penstock import Server, model
from waiting import PATIENCE, Gate, until

ENDED = ("completed", "failed", "expired", "cancelled")


class Recorded:
    """A model that records its prompts in the order of computation, and holds the first call."""

    def __init__(self, **options: Any) -> None:
        self.gate = Gate()
        self.seen: list[str] = []
        self.model: Any = model(name="complete", **options)(self.handle)

    def handle(self, prompt: str) -> str:
        self.seen.append(prompt)
        if len(self.seen) == 1:
            self.gate.enter()
        return prompt.upper()


def client_of_server(server: Server, key: str = "-") -> OpenAI:
    return OpenAI(base_url=f"{server.http_url}/v1", api_key=key, max_retries=0, timeout=PATIENCE)


def line(custom_id: str, body: dict[str, Any], url: str = "/v1/completions", **changes: Any) -> dict[str, Any]:
    return {"custom_id": custom_id, "method": "POST", "url": url, "body": body, **changes}


def prompts(*texts: str) -> list[dict[str, Any]]:
    """Lines for the model `complete`, named after their prompts."""
    return [line(text, {"model": "complete", "prompt": text}) for text in texts]


def upload(client: OpenAI, lines: list[Any]) -> str:
    """Uploads the lines of an input, objects or texts, and returns the id of the file."""
    texts = [one if isinstance(one, str) else json.dumps(one) for one in lines]
    return client.files.create(file=("input.jsonl", "\n".join(texts).encode()), purpose="batch").id


def begin(client: OpenAI, lines: list[Any], endpoint: str = "/v1/completions", window: str = "24h") -> str:
    """Creates a batch and returns its id."""
    file = upload(client, lines)
    created = client.batches.create(
        input_file_id=file,
        endpoint=endpoint,  # type: ignore[arg-type]
        completion_window=window,  # type: ignore[arg-type]
    )
    assert created.status == "validating"
    return created.id


def await_status(client: OpenAI, identity: str, *statuses: str) -> Any:
    """Waits until a batch has one of these statuses."""

    def reached() -> Any:
        batch = client.batches.retrieve(identity)
        return batch if batch.status in statuses else None

    return until(reached, f"a batch with the status {' or '.join(statuses)}")


def results(client: OpenAI, file: str | None) -> list[dict[str, Any]]:
    """The lines of an output or error file; none without a file."""
    if file is None:
        return []
    return [json.loads(text) for text in client.files.content(file).text.splitlines()]


def run(client: OpenAI, lines: list[Any], endpoint: str = "/v1/completions") -> tuple[Any, dict[str, Any]]:
    """Runs a batch to its end. Returns it, and the only result of each line by name."""
    batch = await_status(client, begin(client, lines, endpoint), *ENDED)
    return batch, by_name([*results(client, batch.output_file_id), *results(client, batch.error_file_id)])


def by_name(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Results by name, of which each is there once."""
    found = {one["custom_id"]: one for one in lines}
    assert len(found) == len(lines)
    return found


def text_of(result: dict[str, Any]) -> str:
    """The text of a completion."""
    text: str = result["response"]["body"]["choices"][0]["text"]
    return text
