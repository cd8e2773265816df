#!/usr/bin/env bash
# transformers 5.23.0: the tokenizer of a GGUF file that names the splitting `smollm`, `starcoder` or `command-r` is split as GPT-2's.
#
# `tokenizer.ggml.pre` names how a text is split before merges apply; these families split numbers into digits. llama.cpp follows
# the name. transformers follows it for some families (`qwen2`, `llama-bpe`) and takes GPT-2's rule for the others without a word,
# so a merge of two digits applies: other ids, before and after `save_pretrained`, than those that the model was trained on.
#
# Seen with Python 3.11.7 on Linux, 29 November 2026, for the text "a 12":
#   smollm: llama.cpp a Ġ 1 2, transformers a Ġ12
#   qwen2: llama.cpp a Ġ 1 2, transformers a Ġ 1 2
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "transformers==5.23.0" "torch==2.13.0" "gguf==0.19.0" "xllamacpp==2026.10.11549"
cd "$work"
"$work/venv/bin/python" - 2>"$work/log" <<'PYTHON' || { tail -n 5 "$work/log" >&2; exit 1; }
import json
import sys
import urllib.request

import gguf
import numpy as np
import xllamacpp
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoTokenizer

TOKENS = ["<|end|>", *sorted(ByteLevel.alphabet()), "12", "Ġ1", "Ġ12"]
SIZE = 64


def write_model(path, splitting):
    """Write a model with one layer of random weights, which the server has to load."""
    file = gguf.GGUFWriter(path, "llama")
    file.add_context_length(SIZE)
    file.add_embedding_length(SIZE)
    file.add_feed_forward_length(SIZE)
    file.add_block_count(1)
    file.add_head_count(2)
    file.add_head_count_kv(2)
    file.add_rope_dimension_count(SIZE // 2)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(len(TOKENS))
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre(splitting)
    file.add_token_list(TOKENS)
    file.add_token_types([3] + [1] * (len(TOKENS) - 1))
    file.add_token_merges(["1 2", "Ġ 1", "Ġ 12"])
    file.add_bos_token_id(0)
    file.add_eos_token_id(0)
    file.add_add_bos_token(False)
    ones, square = np.ones(SIZE, np.float32), np.eye(SIZE, dtype=np.float32)
    for name in ("token_embd", "output"):
        file.add_tensor(f"{name}.weight", np.zeros((len(TOKENS), SIZE), np.float32))
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        file.add_tensor(f"{name}.weight", ones)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        file.add_tensor(f"blk.0.{name}.weight", square)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def ask_llama_cpp(path, text):
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = path, SIZE, 1
    server = xllamacpp.Server(params)
    body = json.dumps({"content": text, "add_special": False}).encode()
    asked = urllib.request.Request(f"{server.listening_address}/tokenize", body, {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(asked))["tokens"]


seen = []
for splitting in ("smollm", "qwen2"):
    write_model(f"{splitting}.gguf", splitting)
    tokenizer = AutoTokenizer.from_pretrained(".", gguf_file=f"{splitting}.gguf")
    found = {
        "llama.cpp": ask_llama_cpp(f"{splitting}.gguf", "a 12"),
        "transformers": tokenizer("a 12", add_special_tokens=False)["input_ids"],
    }
    seen.append(f"{splitting}: " + ", ".join(f"{name} {' '.join(TOKENS[i] for i in ids)}" for name, ids in found.items()))
print(*seen, sep="\n", flush=True)
sys.exit(seen != ["smollm: llama.cpp a Ġ 1 2, transformers a Ġ12", "qwen2: llama.cpp a Ġ 1 2, transformers a Ġ 1 2"])
PYTHON
