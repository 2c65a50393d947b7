"""OpenAI's routes for models: embeddings, completions and chats, for clients of that API.

Example:
    >>> from penstock import openai, serve
    >>> serve(embed, complete, openai.routes(openai.Embeddings(embed), openai.Completions(complete)))

A client then asks with `OpenAI(base_url="http://HOST:8000/v1", api_key="-")`.
"""

from __future__ import annotations

from penstock.openai._chat import Chat
from penstock.openai._completions import Completions
from penstock.openai._embeddings import Embeddings
from penstock.openai._routes import routes

__all__ = ["Chat", "Completions", "Embeddings", "routes"]
