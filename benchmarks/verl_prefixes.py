"""How long verl's FSDP engine takes for a mini-batch on the CPU, with and without shared prefixes, over gloo.

    python benchmarks/verl_prefixes.py [--workers 2] [--groups 2] [--repeats 8] [--prompt 400] [--answer 60]

Every worker trains on as many groups, of `repeats` rows with a common prompt, with a model of random weights.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS = 3
SIZES = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 2, "vocab_size": 1000}
HEADS = {"num_attention_heads": 8, "num_key_value_heads": 2}


def main() -> None:
    """Start the workers; the first prints a line per setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"workers": 2, "groups": 2, "repeats": 8, "prompt": 400, "answer": 60}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    from torch.multiprocessing import spawn
    from transformers import Qwen2Config, Qwen2ForCausalLM

    with tempfile.TemporaryDirectory() as home:
        Qwen2ForCausalLM(Qwen2Config(**SIZES, **HEADS)).save_pretrained(home)
        spawn(measure, args=(options, home), nprocs=options.workers)


def measure(rank: int, options: argparse.Namespace, home: str) -> None:
    """Train on the same mini-batch both ways, and print the times in the first worker."""
    os.environ |= {"VERL_PLATFORM": "cpu", "ASTUNER_VERL_RUN": "cpu", "RANK": str(rank), "WORLD_SIZE": str(options.workers)}
    import torch
    import verl  # noqa: F401  # its plugins come first
    from verl.utils import tensordict_utils as tu

    torch.set_num_threads(1)
    group = f"file://{Path(home) / 'group'}"
    torch.distributed.init_process_group("gloo", init_method=group, rank=rank, world_size=options.workers)
    engine = build_engine(home)
    difference = engine.try_sharing()
    for engine.shares in (False, True):
        seconds, computed = [], 0
        for _ in range(ROUNDS):
            data = make_batch(options, rank)
            tu.assign_non_tensor(data, use_dynamic_bsz=True, max_token_len_per_gpu=16384, use_remove_padding=False)
            torch.distributed.barrier()
            began = time.perf_counter()
            with engine.train_mode():
                found = engine.forward_backward_batch(data, loss)
                engine.optimizer_zero_grad()
            seconds.append(time.perf_counter() - began)
            computed = int(found["metrics"]["astuner/computed"].aggregate()) // options.workers
        if rank == 0:
            name = f"shared prefixes (differ by {difference:.0e})" if engine.shares else "verl's own passes"
            print(f"{name}: {statistics.median(seconds):.2f} s, {computed} tokens computed per worker", flush=True)
    torch.distributed.destroy_process_group()


def build_engine(home: str) -> Any:
    """Return verl's engine with the model."""
    from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
    from verl.workers.engine import EngineRegistry

    import astuner_verl.cpu.workers  # noqa: F401  # registers the engine

    attention = {"attn_implementation": "sdpa"}
    engine = EngineRegistry.new(
        model_type="language_model",
        backend="fsdp2",
        model_config=HFModelConfig(path=home, load_tokenizer=False, use_remove_padding=False, override_config=attention),
        engine_config=FSDPEngineConfig(strategy="fsdp2", mixed_precision={"param_dtype": "fp32"}, use_torch_compile=False),
        optimizer_config=FSDPOptimizerConfig(lr=1e-3, total_training_steps=10),
        checkpoint_config=None,
    )
    engine.initialize()
    return engine


def make_batch(options: argparse.Namespace, rank: int) -> Any:
    """Return a worker's rows as `Host` lays them out."""
    import numpy as np

    from astuner_verl.rows import TrainRow, to_tensors

    random, rows = np.random.default_rng(rank), []
    size = options.answer
    for _ in range(options.groups):
        prompt = random.integers(0, SIZES["vocab_size"], options.prompt)
        for _ in range(options.repeats):
            ids = np.concatenate([prompt, random.integers(0, SIZES["vocab_size"], size)])
            numbers = random.normal(size=size).astype(np.float32)
            mask = np.ones(size, np.bool_)
            rows.append(
                TrainRow(ids=ids, start=options.prompt, mask=mask, logprobs=-abs(numbers), advantages=numbers, share=0.01)
            )
    return to_tensors(rows, range(len(rows)), temperature=1.0, force_group_size=options.repeats)


def loss(**arguments: Any) -> Any:
    """Return the loss of a run."""
    from astuner.runs.training import LossOptions
    from astuner_verl.loss import compute_weighed_loss

    return compute_weighed_loss(LossOptions(), **arguments)


if __name__ == "__main__":
    main()
