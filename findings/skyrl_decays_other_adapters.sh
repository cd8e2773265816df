#!/usr/bin/env bash
# SkyRL 0.4.0 (jax): an optimizer step with weight decay shrinks the adapters of every model on the server.
#
# The adapters of all models lie in the same arrays, and each model has an optimizer over all of them, with gradients of 0 for those
# of others. AdamW decays weights whatever their gradient. So a client that sets `weight_decay` moves what others train and sample
# from, by learning rate times decay in each of its steps. They are told nothing, and their checkpoints hold the smaller weights.
#
# Seen with skyrl 0.4.0, tinker 0.25.0, jax 0.10.2, torch 2.13.0 and Python 3.11.7 on Linux, 1 December 2026, the log-probability of
# seven tokens under the weights of one client, while only another one trains:
#   trained: -30.94; after ten steps of another client: -30.94; after ten with a decay of 5: -31.486
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
ids = list(range(10, 18))
inputs = {"target_tokens": np.array(ids[1:], np.int64), "weights": np.ones(len(ids) - 1, np.float32)}
datum = types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs)


def train(training, steps, decay):
    for _ in range(steps):
        training.forward_backward([datum], "cross_entropy").result()
        training.optim_step(types.AdamParams(learning_rate=1e-2, weight_decay=decay)).result()


def score(training):
    return round(sum(training.forward([datum], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data), 3)


mine, other = (client.create_lora_training_client(base_model=model, rank=8, seed=seed) for seed in (1, 2))
train(mine, 20, 0.0)
trained = score(mine)
train(other, 10, 0.0)
beside = score(mine)
train(other, 10, 5.0)
decayed = score(mine)
print(f"trained: {trained}; after ten steps of another client: {beside}; after ten with a decay of 5: {decayed}")
assert beside == trained
assert abs(trained - decayed) > 0.1, "the adapters of others are left alone"
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
