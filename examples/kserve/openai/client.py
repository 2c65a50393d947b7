"""A completion, a chat and a streamed completion, without OpenAI's package."""

import json
import sys
import urllib.request

url = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080"


def ask(route, **body):
    """Returns the response's body."""
    data = json.dumps({"model": "model", **body}).encode()
    request = urllib.request.Request(f"{url}/openai/v1/{route}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read().decode()


whole = json.loads(ask("completions", prompt="as you like it"))
print("completion", whole["choices"][0]["text"], whole["usage"]["total_tokens"])
chat = json.loads(ask("chat/completions", messages=[{"role": "user", "content": "good day"}]))
print("chat", chat["choices"][0]["message"]["content"])
events = [
    line.removeprefix("data: ") for line in ask("completions", prompt="in pieces", stream=True).split("\n\n") if line
]
print("pieces", [json.loads(event)["choices"][0]["text"] for event in events[:-1]], events[-1])
