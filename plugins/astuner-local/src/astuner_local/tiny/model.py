"""The tiny model: a stock Qwen2 with two layers and 0.22 million parameters."""

from __future__ import annotations

import torch
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

CONTEXT = 512


def new_model(tokenizer: PreTrainedTokenizerFast, seed: int, context: int = CONTEXT) -> Qwen2ForCausalLM:
    """Return a float32 model with random weights; the caller's random state is left as it was."""
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=2,
        # Heads of 32: the smallest size that every serving engine has attention kernels for.
        num_attention_heads=3,
        num_key_value_heads=3,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        # The usual 0.02 is small for such a narrow model: it would spend its first hundred steps growing.
        initializer_range=0.08,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(config)
