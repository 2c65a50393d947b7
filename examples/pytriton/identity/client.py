"""Sends numbers and texts, and checks that they are returned unchanged."""

import sys

import numpy as np
from pytriton.client import ModelClient

url = sys.argv[1] if len(sys.argv) > 1 else "localhost:8000"
numbers = np.linspace(0, 1, 4).reshape(2, 2)
texts = np.array([[b"one"], ["zw\u00f6lf".encode()]], object)

with ModelClient(url, "Identity") as client:
    answer = client.infer_batch(numbers=numbers, texts=texts)
    print("the same numbers:", bool((answer["numbers"] == numbers).all()))
    print("texts:", [text.decode() for text in answer["texts"].ravel()])
