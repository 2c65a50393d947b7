"""Sends Vertex AI's requests, health and prediction, without a library."""

import json
import sys
import urllib.request

url = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8080"
body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [21]}]}

with urllib.request.urlopen(f"{url}/health") as answer:
    print("health", answer.status)
request = urllib.request.Request(f"{url}/predict", json.dumps(body).encode(), {"content-type": "application/json"})
with urllib.request.urlopen(request) as answer:
    print("prediction", json.load(answer)["outputs"][0]["data"])
