"""Classifies two flowers in each of KServe's REST protocols. Argument: the server's address."""

import json
import sys
import urllib.request

url = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080"
rows = [[5.1, 3.5, 1.4, 0.2], [6.3, 3.3, 6.0, 2.5]]


def ask(path, body):
    """Sends a request with a JSON body."""
    request = urllib.request.Request(url + path, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


print("v1", ask("/v1/models/model:predict", {"instances": rows})["predictions"])
tensor = {"name": "measures", "shape": [2, 4], "datatype": "FP64", "data": rows}
answer = ask("/v2/models/model/infer", {"id": "two", "inputs": [tensor]})
print("v2", answer["id"], answer["outputs"][0]["datatype"], answer["outputs"][0]["data"])
