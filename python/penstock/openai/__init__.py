"""Routes of OpenAI's API for models, and Anthropic's messages: embeddings, completions and chats.

Example:
    >>> from penstock import openai, serve
    >>> serve(embed, complete, openai.routes(openai.Embeddings(embed), openai.Completions(complete)))

A client then asks with `OpenAI(base_url="http://HOST:8000/v1", api_key="-")`.
"""

from __future__ import annotations

from penstock.openai._batches.batches import Batches
from penstock.openai._chats.chat import Chat
from penstock.openai._completions import Completions
from penstock.openai._deltas import Delta, TokenLogprob, ToolCall, TopLogprob, Usage
from penstock.openai._embeddings import Embeddings
from penstock.openai._ranking.rerank import Rerank
from penstock.openai._routes import routes
from penstock.openai._speech.transcriptions import Transcriptions, Translations
from penstock.openai._tokenizer import Tokenizer

__all__ = [
    "Batches",
    "Chat",
    "Completions",
    "Delta",
    "Embeddings",
    "Rerank",
    "TokenLogprob",
    "Tokenizer",
    "ToolCall",
    "TopLogprob",
    "Transcriptions",
    "Translations",
    "Usage",
    "routes",
]
