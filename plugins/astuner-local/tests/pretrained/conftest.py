from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from tokenizers.pre_tokenizers import ByteLevel

SIZE = 64
TEMPLATE = (
    "{% for message in messages %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>")
TOKENS = [*MARKS, *sorted(ByteLevel.alphabet()), "12", "ĊĊ", "ĠĠ", "Ġ1", "Ġ12", "th", "the", "Ã©"]
MERGES = ["1 2", "Ċ Ċ", "Ġ Ġ", "Ġ 1", "Ġ 12", "t h", "th e", "Ã ©"]


def write_gguf(
    path: Path,
    *,
    splitting: str | None = "smollm",
    template: str | None = TEMPLATE,
    kind: str = "gpt2",
    architecture: str = "llama",
    end: int | None = 2,
    turn_end: int | None = None,
    tokens: Sequence[str] = TOKENS,
) -> Path:
    """Write a model with one layer of random weights."""
    file = gguf.GGUFWriter(path, architecture)
    file.add_context_length(SIZE)
    file.add_embedding_length(SIZE)
    file.add_feed_forward_length(2 * SIZE)
    file.add_block_count(1)
    file.add_head_count(4)
    file.add_head_count_kv(2)
    file.add_rope_dimension_count(SIZE // 4)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(len(tokens))
    file.add_tokenizer_model(kind)
    if splitting is not None:
        file.add_tokenizer_pre(splitting)
    file.add_token_list(tokens)
    file.add_token_types([3, 3, 3, 4] + [1] * (len(tokens) - 4))
    file.add_token_merges(MERGES)
    file.add_bos_token_id(1)
    if end is not None:
        file.add_eos_token_id(end)
    if turn_end is not None:
        file.add_eot_token_id(turn_end)
    file.add_pad_token_id(2)
    file.add_add_bos_token(False)
    if template is not None:
        file.add_chat_template(template)
    random = np.random.default_rng(0)

    def add(name: str, *shape: int) -> None:
        values = random.normal(0, 0.1, shape).astype(np.float32)
        file.add_tensor(name, np.ones(shape, np.float32) if name.endswith("norm.weight") else values)

    add("token_embd.weight", len(tokens), SIZE)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        add(f"{name}.weight", SIZE)
    for name, rows in (("attn_q", SIZE), ("attn_k", SIZE // 2), ("attn_v", SIZE // 2), ("attn_output", SIZE)):
        add(f"blk.0.{name}.weight", rows, SIZE)
    for name, shape in (("ffn_gate", (2 * SIZE, SIZE)), ("ffn_up", (2 * SIZE, SIZE)), ("ffn_down", (SIZE, 2 * SIZE))):
        add(f"blk.0.{name}.weight", *shape)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


@pytest.fixture
def make_gguf(tmp_path: Path) -> Callable[..., Path]:
    """`make_gguf(**options of write_gguf)` returns the file of a tiny model."""

    def make(name: str = "tiny.gguf", **options: Any) -> Path:
        return write_gguf(tmp_path / name, **options)

    return make
