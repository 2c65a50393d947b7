"""Similarity of texts to a question: the share of common trigrams."""

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
    asked = pieces(question, context.size)
    scores = [len(asked & pieces(text, context.size)) / max(1, len(asked)) for text in request.inputs[0].data]
    return {"outputs": [{"name": "score", "data": np.array(scores, np.float32)}]}


def pieces(text, size):
    """Returns the trigrams of a text."""
    return {text[start : start + size] for start in range(max(1, len(text) - size + 1))}
