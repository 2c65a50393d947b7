"""Sends two pictures to the transformer. Argument: the transformer's address."""

import base64
import json
import sys
import urllib.request

url = sys.argv[1] if len(sys.argv) > 1 else "http://localhost:8090"
pictures = [bytes([250, 240, 230, 220]), bytes([5, 10, 15, 20])]

body = {"instances": [{"image": {"b64": base64.b64encode(picture).decode()}} for picture in pictures]}
request = urllib.request.Request(
    f"{url}/v1/models/model:predict", json.dumps(body).encode(), {"content-type": "application/json"}
)
with urllib.request.urlopen(request, timeout=30) as answer:
    print("they are", json.load(answer)["predictions"])
