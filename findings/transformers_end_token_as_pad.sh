#!/usr/bin/env bash
# transformers 5.23.0, Llama, Qwen2, Qwen3, Gemma 3: where `pad_token_id` in config.json is the end-of-turn token, as in
# SmolLM2-135M-Instruct (both are 2), the input embedding of that token gets no gradient, in the middle of a conversation either.
#
# Models are made with `nn.Embedding(..., padding_idx=config.pad_token_id)`, which knows ids and not padding. The loss is the same,
# and nothing is said. Whoever trains several turns trains all of their tokens as inputs but the one that separates them; with tied
# embeddings its row learns as an output alone. GPT-NeoX, made without `padding_idx`, is trained whole.
#
# Seen with torch 2.13.0 (CPU) and Python 3.11.7 on Linux (x86_64), 30 November 2026, for instance:
#   llama: loss 4.2301 and 4.2301, gradient at the end token 0.0000 (pad is end) and 0.0206 (no pad), at another token 0.0124
# Exits with 1 if the end token gets a gradient in one of the four, or none in GPT-NeoX.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "torch==2.13.0" "transformers==5.23.0" "numpy==2.4.6"
"$work/venv/bin/python" - <<'PYTHON'
import sys

import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

END = 2
SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
MODELS = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "gemma3": (Gemma3TextConfig, Gemma3ForCausalLM),
    "gpt_neox": (GPTNeoXConfig, GPTNeoXForCausalLM),
}
# Two turns, each ended by the end token, which is so an input too.
ids = torch.tensor([[1, 7, 9, END, 11, 13, 15, END, 17, 19]])


def pull(name, pad):
    config, model = MODELS[name]
    sizes = SIZES if name == "gpt_neox" else SIZES | GROUPED
    torch.manual_seed(0)
    made = model(config(**sizes, pad_token_id=pad, eos_token_id=END, bos_token_id=1, tie_word_embeddings=False))
    table = made.get_input_embeddings().weight
    with torch.no_grad():
        table.copy_(torch.randn(table.shape, generator=torch.Generator().manual_seed(1)))
    loss = made(input_ids=ids, labels=ids).loss
    loss.backward()
    return loss.item(), table.grad[END].norm().item(), table.grad[7].norm().item()


changed = []
for name in MODELS:
    same, other = pull(name, END), pull(name, None)
    of_end = f"gradient at the end token {same[1]:.4f} (pad is end) and {other[1]:.4f} (no pad)"
    print(f"{name}: loss {same[0]:.4f} and {other[0]:.4f}, {of_end}, at another token {same[2]:.4f}")
    if (same[1] == 0.0) != (name != "gpt_neox") or other[1] == 0.0 or same[2] == 0.0:
        changed.append(name)
sys.exit(bool(changed))
PYTHON
