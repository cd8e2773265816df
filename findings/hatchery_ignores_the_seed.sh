#!/usr/bin/env bash
# hatchery-core 0.3.0: the seed of `create_lora_training_client` is ignored: two models with one seed are different.
#
# The server's worker draws the first weights of adapters from the global generator of torch, which goes on from whatever was drawn
# before, by other clients too. That shows after the first optimizer step: before it, the second factor is 0, and adapters change
# nothing. Nothing is said, and a run that is repeated on the same server is another run.
#
# Seen with hatchery-core 0.3.0, tinker 0.24.1, transformers 5.23.0, torch 2.13.0 and Python 3.11.7 on Linux, 1 December 2026, the
# log-probability of five tokens after one step, three clients with seed 1:
#   before the step: -27.641
#   after it: -25.267 -25.147 -25.086
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
pip=("$work/venv/bin/pip" install --quiet)
# It asks for Python 3.12, and runs on 3.11.
"${pip[@]}" --no-deps --ignore-requires-python "hatchery-core==0.3.0" "hatchery-client==0.2.0" 2>/dev/null
"${pip[@]}" "torch==2.13.0" "transformers==5.23.0" "peft==0.21.2" "tinker==0.24.1" 2>/dev/null
"${pip[@]}" "fastapi[standard]" msgpack aiosqlite structlog 2>/dev/null
cat >"$work/serve.py" <<'PYTHON'
"""Its gateway and its worker, on the CPU."""
import asyncio
import sys

import torch
import uvicorn
from hatchery.core.gateway import create_app, set_config
from hatchery.core.local_dev import _build_config
from hatchery.core.worker import GPUWorker


async def work(worker, config, model):
    while True:
        job = await config.queue.dequeue(worker_id="cpu", model_filter=model, visibility_timeout=300)
        await (asyncio.sleep(0.01) if job is None else worker._process_one(job))


async def main(model, port):
    config = _build_config("tml-local")
    set_config(config)
    app = create_app(config=config)
    await config.metadata.initialize()
    await config.queue.initialize()
    worker = GPUWorker(worker_id="cpu", base_model_name=model, config=config, device="cpu", dtype=torch.float32)
    await worker.register()
    working = asyncio.create_task(work(worker, config, model))
    await uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", lifespan="off")).serve()
    working.cancel()


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
PYTHON
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
cat >"$work/ask.py" <<'PYTHON'
import sys

import numpy as np
import tinker
from tinker import types

model, port = sys.argv[1:]
client = tinker.ServiceClient(base_url=f"http://127.0.0.1:{port}", api_key="tml-local")
ids = [10, 11, 12, 13, 14, 15]
inputs = {"target_tokens": np.array(ids[1:], np.int64), "weights": np.ones(len(ids) - 1, np.float32)}
datum = types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs)


def score(training):
    return round(sum(training.forward([datum], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data), 3)


def train():
    training = client.create_lora_training_client(base_model=model, rank=8, seed=1)
    before = score(training)
    training.forward_backward([datum], "cross_entropy").result()
    training.optim_step(types.AdamParams(learning_rate=1e-2)).result()
    return before, score(training)


found = [train() for _ in range(3)]
before, after = ({one[place] for one in found} for place in (0, 1))
print("before the step:", *sorted(before))
print("after it:", *sorted(after))
assert len(before) == 1
assert len(after) == 3, "one seed gives the same adapters again"
PYTHON
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/venv/bin/python" "$work/make.py" "$work/model" 2>/dev/null
TINKER_TELEMETRY=0 "$work/venv/bin/python" "$work/serve.py" "$work/model" "$port" >"$work/log" 2>&1 &
server=$!
for _ in $(seq 120); do
    curl -sf "http://127.0.0.1:$port/api/v1/healthz" >/dev/null && break
    sleep 1
done
TINKER_TELEMETRY=0 "$work/venv/bin/python" "$work/ask.py" "$work/model" "$port" 2>"$work/errors" || { tail -3 "$work/errors"; exit 1; }
