#!/usr/bin/env bash
# SkyRL 0.4.0 (jax): to sample from an older sampling client moves the weights in training back to that client's snapshot.
#
# A sampling client of the Tinker API is a snapshot: what it samples from stays as it was, and training goes on beside it. SkyRL
# loads a snapshot into the slot of the adapters that are being trained, if another one was loaded there last. The steps since
# then are gone, bit by bit, and the next step goes on from the older weights with the newer optimizer. If the client was the
# last one loaded, its answers come from the newest weights instead. Nothing is said in either case.
#
# Seen with skyrl 0.4.0, tinker 0.25.0, jax 0.10.2, torch 2.13.0 and Python 3.11.7 on Linux, 1 December 2026, the log-probability of
# seven tokens, which training makes more likely:
#   snapshot: -38.628, in training: -38.628
#   after a step, in training: -35.736; of the snapshot: -35.736; then in training: -35.736
#   after another snapshot and a step, in training: -34.731; of the older snapshot: -38.628; then in training: -38.628
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null && wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
pip=("$work/venv/bin/pip" install --quiet)
# It asks for Python 3.12. What is used here runs on 3.11 too, but for the place of a class that pydantic reads.
"${pip[@]}" --no-deps --ignore-requires-python "skyrl==0.4.0" 2>/dev/null
"${pip[@]}" "torch==2.13.0" "jax==0.10.2" "flax==0.12.8" "transformers==5.16.1" "peft==0.18.1" "tinker==0.25.0" 2>/dev/null
"${pip[@]}" "fastapi[standard]" aiohttp sqlmodel "sqlalchemy[asyncio]" aiosqlite cloudpathlib datasets psutil rich typer zstandard 2>/dev/null
sed -i 's/^from typing import Annotated, Any, Literal, TypedDict$/from typing import Annotated, Any, Literal; from typing_extensions import TypedDict/' \
    "$work"/venv/lib/python3*/site-packages/skyrl/tinker/types.py
cat >"$work/make.py" <<'PYTHON'
import sys

import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

words = {f"w{number}": number for number in range(264)}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="w263", pad_token="w262").save_pretrained(sys.argv[1])
torch.manual_seed(0)
sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
config = Qwen3Config(vocab_size=264, head_dim=16, max_position_embeddings=128, eos_token_id=263, pad_token_id=262, **sizes)
Qwen3ForCausalLM(config).save_pretrained(sys.argv[1])
PYTHON
cat >"$work/serve.py" <<'PYTHON'
"""Its API, with its engine as a process of this Python: by itself it asks `uv run` for one."""
import sys

import uvicorn
from skyrl.tinker import api
from skyrl.tinker.config import EngineConfig, config_to_argv

model, port, folder = sys.argv[1:]
api._build_uv_run_cmd_engine = lambda parent, config: [sys.executable, "-m", "skyrl.tinker.engine", *config_to_argv(config)]
api.app.state.engine_config = EngineConfig(
    base_model=model,
    backend="jax",
    backend_config={"max_lora_adapters": 4, "max_lora_rank": 8},
    database_url=f"sqlite:///{folder}/tinker.db",
    checkpoints_base=f"{folder}/checkpoints",
)
uvicorn.run(api.app, host="127.0.0.1", port=int(port), log_level="error")
PYTHON
cat >"$work/ask.py" <<'PYTHON'
import sys

import numpy as np
import tinker
from tinker import types

model, port = sys.argv[1:]
client = tinker.ServiceClient(base_url=f"http://127.0.0.1:{port}", api_key="tml-local")
training = client.create_lora_training_client(base_model=model, rank=8, seed=1)
ids = list(range(10, 18))
prompt = types.ModelInput.from_ints(ids)
inputs = {"target_tokens": np.array(ids[1:], np.int64), "weights": np.ones(len(ids) - 1, np.float32)}
datum = types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs)


def train():
    training.forward_backward([datum], "cross_entropy").result()
    training.optim_step(types.AdamParams(learning_rate=1e-2)).result()
    return score()


def score():
    """Return the log-probability under the weights in training."""
    return round(sum(training.forward([datum], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data), 3)


def sample(sampler):
    """Return the log-probability under what a client samples from."""
    return round(sum(sampler.compute_logprobs(prompt).result()[-7:]), 3)


older, before = training.save_weights_and_get_sampling_client(), score()
first = sample(older)
print(f"snapshot: {first}, in training: {before}")
one = train()
live = sample(older)
print(f"after a step, in training: {one}; of the snapshot: {live}; then in training: {score()}")
newer = training.save_weights_and_get_sampling_client()
sample(newer)
two = train()
back = sample(older)
left = score()
print(f"after another snapshot and a step, in training: {two}; of the older snapshot: {back}; then in training: {left}")
assert abs(first - before) < 0.01
assert abs(live - one) < 0.01 < one - before, "a client keeps its weights while others are trained"
assert abs(back - before) < 0.01 and left == before < two, "the weights in training are those that were trained"
PYTHON
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/venv/bin/python" "$work/make.py" "$work/model" 2>/dev/null
export TINKER_TELEMETRY=0 JAX_PLATFORMS=cpu HF_HUB_OFFLINE=1
"$work/venv/bin/python" "$work/serve.py" "$work/model" "$port" "$work" >"$work/log" 2>&1 &
server=$!
for _ in $(seq 120); do
    curl -sf "http://127.0.0.1:$port/api/v1/healthz" >/dev/null && break
    sleep 1
done
"$work/venv/bin/python" "$work/ask.py" "$work/model" "$port" 2>"$work/errors" || { tail -n 3 "$work/errors" "$work/log"; exit 1; }
