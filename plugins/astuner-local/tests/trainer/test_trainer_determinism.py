from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib
import numpy as np, torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from transformers import Qwen2Config, Qwen2ForCausalLM
from astuner.contract.schema import Sample
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer

for threads in (1, 2):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    # Large enough for torch to spread its work over threads.
    config = Qwen2Config(vocab_size=500, hidden_size=96, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=256, pad_token_id=None)
    model = Qwen2ForCausalLM(config)
    draw = np.random.default_rng(0)
    rows = []
    for group in range(6):
        prompt = draw.integers(0, 500, 40)
        for repeat in range(6):
            ids = np.concatenate([prompt, draw.integers(0, 500, int(draw.integers(5, 40)))]).astype(np.int32)
            mask = np.arange(len(ids)) >= 40
            sample = Sample(episode_id=f"{group}.{repeat}", task_id=str(group), repeat=repeat, agent="agent", ids=ids, mask=mask,
                            logprobs=np.where(mask, -6.2, 0).astype(np.float32), calls=(0,))
            rows.append(TrainRow(sample=sample, advantage=float(draw.normal()), group=str(group)))
    options = TrainerOptions(lr=1e-3, mini_batch_num=2, use_kl_loss=True, kl_loss_coef=0.1, micro_batch_tokens=1000)
    trainer = Trainer(model, options)
    metrics = [sorted(trainer.update(rows, step).items()) for step in (1, 2)]
    digest = hashlib.sha256(repr(metrics).encode())
    for p in model.parameters():
        digest.update(p.detach().numpy().tobytes())
    print(digest.hexdigest())

    # What depends on the order in which threads come differs now and then only.
    found = set()
    watching = register_optimizer_step_pre_hook(
        lambda optimizer, args, kwargs: found.add(b"".join(p.grad.numpy().tobytes() for p in optimizer.param_groups[0]["params"]))
    )
    trainer = Trainer(model, TrainerOptions(lr=0.0))
    for step in range(1, 31):
        trainer.update(rows, step)
    print("gradients:", len(found))
    watching.remove()
"""


@pytest.fixture(scope="module")
def printed() -> list[list[str]]:
    """What two processes printed: for each number of threads a digest, and how many gradients there were."""
    # Threads that wait without spinning do not starve each other where cores are few; the arithmetic is the same.
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    command = [sys.executable, "-c", PROGRAM]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True, env=environment) for _ in range(2)]
    return [run.stdout.splitlines() for run in runs]


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_rows_and_weights_give_the_same_bits_in_every_process(printed: list[list[str]], threads: int):
    one, other = (lines[2 * threads - 2 : 2 * threads] for lines in printed)
    assert one == other
    assert one[1] == "gradients: 1"
