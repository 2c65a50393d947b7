"""The app with a tiny random model, which needs no download: `python -m pytest`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from penstock.testing import Client

WIDTH = 32
WORDS = [f"▁{word}" for word in ("user", "assistant", "the", "river", "turns", "a", "wheel", "and", "stone", "waits")]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}"
    "{% for message in messages %}{{ message.role }} {{ message.content }} {% endfor %}assistant"
)


def write_model(path: Path) -> None:
    """Writes a random model of one layer, whose tokens are words and bytes."""
    import gguf

    tokens = ["<unk>", "<s>", "</s>", *BYTES, *WORDS]
    unknown, control = gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_block_count(1)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    normal = [gguf.TokenType.NORMAL] * len(WORDS)
    writer.add_token_types([unknown, control, control, *[gguf.TokenType.BYTE] * len(BYTES), *normal])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)
    random = np.random.default_rng(0)
    square = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    shapes = {f"blk.0.{name}.weight": (WIDTH, WIDTH) for name in square}
    shapes |= dict.fromkeys(("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"), (WIDTH,))
    shapes |= dict.fromkeys(("token_embd.weight", "output.weight"), (len(tokens), WIDTH))
    for name, shape in shapes.items():
        writer.add_tensor(name, random.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A server with the tiny model."""
    for package in ("llama_cpp", "gguf"):
        pytest.importorskip(package)
    import app

    write_model(tmp_path / "model.gguf")
    monkeypatch.setattr(app, "MODEL", str(tmp_path / "model.gguf"))
    with Client(app.Chat, app.api) as client:
        yield client


def test_chat(client: Client) -> None:
    request = {"model": "chat", "max_tokens": 8, "seed": 1, "messages": [{"role": "user", "content": "the river"}]}
    response = client.post("/v1/chat/completions", json.dumps(request))
    assert response.status == 200, response.error()
    answer = response.json()
    assert answer["choices"][0]["finish_reason"] in ("stop", "length")
    assert answer["usage"]["prompt_tokens"] > 4
    assert 1 <= answer["usage"]["completion_tokens"] <= 8
