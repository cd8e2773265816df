#!/usr/bin/env bash
# transformers 5.23.0: a Qwen2 tokenizer that comes from a GGUF file does not compose accents, as the same vocabulary otherwise does.
#
# Qwen's tokenizers normalise texts to NFC first. A GGUF file has no field for that, and its splitting `qwen2` does not imply it, for
# transformers as for llama.cpp. So "é" written as "e" and a combining accent, as macOS and some PDF readers give it, has
# other ids after a conversion to GGUF and back than those the model was trained on.
#
# Seen with Python 3.11.7 on Linux, 29 November 2026:
#   Qwen2Tokenizer Ã ©, from GGUF e Ì ģ
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "transformers==5.23.0" "torch==2.13.0" "gguf==0.19.0"
cd "$work"
"$work/venv/bin/python" - 2>"$work/log" <<'PYTHON' || { tail -n 5 "$work/log" >&2; exit 1; }
import sys

import gguf
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoTokenizer, Qwen2Tokenizer

TOKENS = ["<|endoftext|>", *sorted(ByteLevel.alphabet()), "ab"]
TEXT = "e\u0301"

file = gguf.GGUFWriter("qwen2.gguf", "qwen2")
file.add_context_length(64)
file.add_embedding_length(64)
file.add_feed_forward_length(64)
file.add_block_count(1)
file.add_head_count(2)
file.add_head_count_kv(2)
file.add_layer_norm_rms_eps(1e-6)
file.add_vocab_size(len(TOKENS))
file.add_tokenizer_model("gpt2")
file.add_tokenizer_pre("qwen2")
file.add_token_list(TOKENS)
file.add_token_types([3] + [1] * (len(TOKENS) - 1))
file.add_token_merges(["a b"])
file.add_bos_token_id(0)
file.add_eos_token_id(0)
file.write_header_to_file()
file.write_kv_data_to_file()
file.write_tensors_to_file()
file.close()

tokenizers = {
    "Qwen2Tokenizer": Qwen2Tokenizer(vocab={token: number for number, token in enumerate(TOKENS)}, merges=[("a", "b")]),
    "from GGUF": AutoTokenizer.from_pretrained(".", gguf_file="qwen2.gguf"),
}
ids = {name: one(TEXT, add_special_tokens=False)["input_ids"] for name, one in tokenizers.items()}
seen = ", ".join(f"{name} {' '.join(TOKENS[i] for i in found)}" for name, found in ids.items())
print(seen, flush=True)
sys.exit(seen != "Qwen2Tokenizer Ã ©, from GGUF e Ì ģ")
PYTHON
