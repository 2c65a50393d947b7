"""The app with a tiny random model, which needs no download: `python -m pytest`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from penstock.testing import Client

WORDS = [
    *("<end>", "<unknown>", "user", "assistant", "tool", "the", "river"),
    *("turns", "a", "wheel", "and", "stone", "waits", "for", "water"),
]
TEMPLATE = (
    "{% for tool in tools or [] %}tool the {{ tool.function.name }} {% endfor %}"
    "{% for message in messages %}{{ message.role }} {{ message.content }} {% endfor %}assistant"
)


def write_model(folder: Path) -> None:
    """Writes a random model whose tokens are words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    vocabulary = {word: place for place, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unknown>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", unk_token="<unknown>", chat_template=TEMPLATE
    ).save_pretrained(folder)
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=len(WORDS), eos_token_id=0, bos_token_id=None, max_position_embeddings=4096, **size)
    LlamaForCausalLM(config).save_pretrained(folder)


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A server with the tiny model."""
    for package in ("torch", "transformers"):
        pytest.importorskip(package)
    import app

    write_model(tmp_path)
    monkeypatch.setattr(app, "MODEL", str(tmp_path))
    with Client(app.Chat, app.api) as client:
        yield client


def test_chat(client: Client) -> None:
    request = {"model": "chat", "max_tokens": 8, "seed": 1, "messages": [{"role": "user", "content": "the river"}]}
    response = client.post("/v1/chat/completions", json.dumps(request))
    assert response.status == 200, response.error()
    answer = response.json()
    assert answer["choices"][0]["finish_reason"] in ("stop", "length")
    assert answer["usage"]["prompt_tokens"] == 4
    assert 1 <= answer["usage"]["completion_tokens"] <= 8
