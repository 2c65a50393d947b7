"""Requests a score, its explanation, and a score for an invalid row. Argument: the server's address."""

import json
import sys
import urllib.error
import urllib.request

url = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080"


def ask(verb, rows):
    """Returns the response or the error."""
    body = json.dumps({"instances": rows}).encode()
    request = urllib.request.Request(f"{url}/v1/models/model:{verb}", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]


print("score", ask("predict", [[2, 1, 4]])["predictions"])
print("made of", ask("explain", [[2, 1, 4]])["explanations"])
print("refused", *ask("predict", [[2, 1]]))
