#!/usr/bin/env bash
# transformers 5.23.0: next to a `config.json` of the type `qwen2`, AutoTokenizer replaces the splitting of `tokenizer.json`.
#
# A folder has a tokenizer of one's own, saved by `save_pretrained`: byte-level BPE with a merge of two digits, no normalizer, and
# the class `TokenizersBackend`. Read next to a configuration of another type, or of none, the tokenizer is the one that was saved.
# Read next to one of the type `qwen2` it becomes a Qwen2Tokenizer, whose splitting (each digit alone) and normalizer (NFC) take
# the place of the file's without a word: other ids, and the next `save_pretrained` writes them into the file. The types `qwen3`
# and `llama`, whose models have tokenizers of a similar kind, leave the file alone.
#
# Seen with Python 3.11.7 on Linux, 29 November 2026, for the text "12":
#   qwen2: Qwen2Tokenizer, tokens 1 2, normalizer NFC
#   qwen3, llama, no configuration: TokenizersBackend, tokens 12, no normalizer
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "transformers==5.23.0"
cd "$work"
"$work/venv/bin/python" - 2>"$work/log" <<'PYTHON' || { tail -n 5 "$work/log" >&2; exit 1; }
import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

TYPES = ("qwen2", "qwen3", "llama", None)
letters = sorted(pre_tokenizers.ByteLevel.alphabet())
core = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate([*letters, "12"])}, merges=[("1", "2")]))
core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
core.decoder = decoders.ByteLevel()
own = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="!")

found = {}
for kind in TYPES:
    folder = Path(str(kind))
    own.save_pretrained(folder)
    if kind:
        (folder / "config.json").write_text(json.dumps({"model_type": kind}))
    saved = json.loads((folder / "tokenizer.json").read_text())
    read = AutoTokenizer.from_pretrained(folder)
    normalizer = type(read.backend_tokenizer.normalizer).__name__
    found[kind] = (type(read).__name__, tuple(read.tokenize("12")), normalizer)
    print(f"{kind}: {found[kind]}, the file's normalizer: {saved['normalizer']}")

kept = ("TokenizersBackend", ("12",), "NoneType")
expected = {kind: kept for kind in TYPES} | {"qwen2": ("Qwen2Tokenizer", ("1", "2"), "NFC")}
sys.exit(found != expected)
PYTHON
