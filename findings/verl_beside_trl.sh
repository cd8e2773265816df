#!/usr/bin/env bash
# verl 0.9.1: a TRL that it does not use keeps its workers from starting, because they import a class of whichever is installed.
#
# Before an FSDP worker loads its model, policy or not, verl looks whether a package `trl` can be found, and if so imports
# `AutoModelForCausalLMWithValueHead` from `trl.experimental.ppo` or `trl`, to replace one of its methods. TRL 1.13 removed that
# class. verl declares TRL (0.27.0) in two extras only, so pip resolves verl and the newest TRL side by side without a word; the
# run fails in its workers, once Ray is up and the model is read. The first release of TRL without the class is 1.13.0.
#
# Seen with torch 2.13.0 and Python 3.11.7 on Linux, 30 November 2026:
#   without TRL: patched
#   trl 1.12.0: patched
#   trl 1.16.0: cannot import name 'AutoModelForCausalLMWithValueHead' from 'trl'
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
pip=("$work/venv/bin/pip" install --quiet)
"${pip[@]}" --no-deps "verl==0.9.1" 2>/dev/null
"${pip[@]}" "torch==2.13.0" "transformers==5.10.4" accelerate datasets numpy omegaconf packaging ray tensordict codetiming orjson 2>/dev/null
cat >"$work/patch.py" <<'PYTHON'
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM
from verl.models.transformers.monkey_patch import apply_monkey_patch

sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
model = Qwen2ForCausalLM(Qwen2Config(vocab_size=16, **sizes))
try:
    apply_monkey_patch(model, use_remove_padding=False)
except ImportError as error:
    print(str(error).split(" (")[0])
else:
    print("patched")
PYTHON
run() { "$work/venv/bin/python" "$work/patch.py" 2>/dev/null | tail -1; }
without=$(run)
echo "without TRL: $without"
"${pip[@]}" --no-deps "trl==1.12.0" 2>/dev/null
older=$(run)
echo "trl 1.12.0: $older"
"${pip[@]}" --no-deps "trl==1.16.0" 2>/dev/null
newest=$(run)
echo "trl 1.16.0: $newest"
[ "$without" = patched ] && [ "$older" = patched ] && [[ "$newest" == *"cannot import name 'AutoModelForCausalLMWithValueHead'"* ]]
