"""Loads a model, calls it and unloads it. Argument: the server's address."""

import json
import sys
import urllib.error
import urllib.request

url = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080"


def ask(path, body=None, method="POST"):
    """Returns the response or the error status."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code


def predict(name):
    """Returns a model's values at two points."""
    return ask(f"/v1/models/{name}:predict", {"instances": [1, 2]})


print("models", ask("/v1/models", method="GET")["models"])
print("steep", predict("steep")["predictions"])
print("flat, not loaded", predict("flat"))
print("load flat", ask("/v2/repository/models/flat/load"))
print("flat", predict("flat")["predictions"])
print("unload flat", ask("/v2/repository/models/flat/unload"))
print("flat, unloaded", predict("flat"))
print("load what is not there", ask("/v2/repository/models/round/load"))
