"""Similarity of texts to a question: the share of common n-grams."""

from __future__ import annotations

import numpy as np


def init(context, size):
    """Runs once in each process, before the first request."""
    context.size = size
    context.logger.info_with("ready", size=size)


def handler(context, request):
    """Runs for each request."""
    question = request.parameters.get("question")
    if not question:
        return 400, {"error": "the parameter 'question' is missing"}
    expected = ngrams(question, context.size)
    scores = [len(expected & ngrams(text, context.size)) / max(1, len(expected)) for text in request.inputs[0].data]
    return {"outputs": [{"name": "score", "data": np.array(scores, np.float32)}]}


def ngrams(text, size):
    """Returns the n-grams of a text."""
    return {text[start : start + size] for start in range(max(1, len(text) - size + 1))}
