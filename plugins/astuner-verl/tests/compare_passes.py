"""Computes a mini-batch on verl's FSDP engine with and without shared prefixes, and prints what came out as JSON.

It is a separate process, because verl chooses its platform when it is first imported.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

GROUPS, REPEATS, PROMPT, ANSWER = 3, 4, 40, 6


def make_rows() -> list[Any]:
    """Return rows of groups with a common prompt."""
    from astuner_verl.rows import TrainRow

    random = np.random.default_rng(0)
    rows = []
    for _ in range(GROUPS):
        prompt = random.integers(0, 50, PROMPT)
        for repeat in range(REPEATS):
            size = ANSWER + repeat
            rows.append(
                TrainRow(
                    ids=np.concatenate([prompt, random.integers(0, 50, size)]),
                    start=PROMPT,
                    mask=np.ones(size, np.bool_),
                    logprobs=-random.random(size).astype(np.float32),
                    advantages=random.normal(size=size).astype(np.float32),
                    share=0.01,
                )
            )
    return rows


def build_engine(home: Path) -> Any:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
    from verl.workers.engine import EngineRegistry

    import astuner_verl.cpu.workers  # noqa: F401  # registers the engine

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 50}
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**sizes, num_attention_heads=4, num_key_value_heads=2))
    model.save_pretrained(home)
    torch.distributed.init_process_group("gloo", init_method=f"file://{home}/group", rank=0, world_size=1)
    made = EngineRegistry.new(
        model_type="language_model",
        backend="fsdp2",
        model_config=HFModelConfig(
            path=str(home),
            load_tokenizer=False,
            use_remove_padding=False,
            override_config={"attn_implementation": "sdpa"},
        ),
        engine_config=FSDPEngineConfig(
            strategy="fsdp2", mixed_precision={"param_dtype": "fp32"}, use_torch_compile=False, fsdp_size=-1
        ),
        optimizer_config=FSDPOptimizerConfig(lr=1e-3, total_training_steps=10),
        checkpoint_config=None,
    )
    made.initialize()
    return made


def compute_gradients(engine: Any, limit: int) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the gradients of a mini-batch, and the sums over its tokens, with passes of at most `limit` tokens."""
    import torch

    from astuner.runs.training import Correction, LossOptions
    from astuner_verl.loss import PREFIX, compute_weighed_loss
    from astuner_verl.rows import STRETCH, choose_units, to_tensors

    rows = make_rows()
    together, order, stretch = choose_units(rows, 1, most=REPEATS if engine.shares else 1, limit=limit)
    settings = {"force_group_size": together, STRETCH: stretch}
    data = to_tensors(rows, order, temperature=0.7, global_batch_size=len(order), **settings)
    from verl.utils import tensordict_utils as tu

    tu.assign_non_tensor(
        data, use_dynamic_bsz=True, max_token_len_per_gpu=limit, use_remove_padding=False, calculate_entropy=True
    )
    options = LossOptions(correction=Correction(rollout_is_threshold=2.0))

    def loss(**arguments: Any) -> Any:
        return compute_weighed_loss(options, **arguments)

    with engine.train_mode():
        engine.optimizer_zero_grad()
        found = engine.forward_backward_batch(data, loss)
        gradients = {name: value.grad.full_tensor().clone() for name, value in engine.module.named_parameters()}
    sums = {name.removeprefix(PREFIX): float(value.aggregate()) for name, value in found["metrics"].items()}
    assert all(torch.isfinite(value).all() for value in gradients.values())
    return gradients, sums


def find_first_choices(engine: Any, limit: int, *, shares: bool) -> list[list[int]]:
    """Return the first choice at each place of each row."""
    from verl.utils import tensordict_utils as tu

    from astuner_verl.first_choices import ASKED, FIRST, choose_first
    from astuner_verl.rows import arrange, sort_by_prefix, to_tensors

    engine.shares = shares
    rows = make_rows()
    order = arrange([len(row.ids) for row in rows], sort_by_prefix(rows), 1, together=REPEATS)
    data = to_tensors(rows, order, temperature=1.0, force_group_size=REPEATS)
    tu.assign_non_tensor(data, use_dynamic_bsz=True, max_token_len_per_gpu=limit, use_remove_padding=False, **ASKED)
    with engine.eval_mode():
        found = engine.infer_batch(data, loss_function=choose_first)["model_output"][FIRST].unbind()
    return [found[order.index(place)].tolist() for place in range(len(rows))]


def find_likeliest(home: Path) -> list[list[int]]:
    """Return the same by transformers alone."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(home, dtype=torch.float32)
    with torch.no_grad():
        return [model(input_ids=torch.from_numpy(row.ids)[None]).logits[0].argmax(-1).tolist() for row in make_rows()]


def compare(engine: Any, limit: int) -> dict[str, Any]:
    """Return the largest difference of gradients, relative to the largest of them, and both sums."""
    engine.shares = False
    expected, whole = compute_gradients(engine, limit)
    error = engine.try_sharing()
    found, shared = compute_gradients(engine, limit)
    largest = max(float(value.abs().max()) for value in expected.values())
    differences = [float((found[name] - value).abs().max()) / largest for name, value in expected.items()]
    return {"gradients": max(differences), "tried": error, "shares": engine.shares, "whole": whole, "shared": shared}


def main(home: Path) -> None:
    """Compare with one pass, with several, and with an attention that takes no such mask."""
    import verl  # noqa: F401  # its plugins come first

    engine = build_engine(home)
    found: dict[str, Any] = {"tokens": sum(len(row.ids) for row in make_rows())}
    found["repeated"] = GROUPS * (REPEATS - 1) * PROMPT
    # The rows of a group have room in 100 places only where their prompt counts once.
    found["one pass"], found["passes"] = compare(engine, 10**4), compare(engine, 100)
    found["first choices"] = [
        find_first_choices(engine, limit, shares=shares) for shares in (False, True) for limit in (10**4, 250)
    ]
    found["likeliest"] = find_likeliest(home)
    # Its masks are added to the scores, so that true and false hide nothing.
    engine.module.config._attn_implementation = "eager"
    found["eager"] = {"tried": engine.try_sharing(), "shares": engine.shares}
    (home / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    os.environ |= {"VERL_PLATFORM": "cpu", "ASTUNER_VERL_RUN": "cpu", "RANK": "0", "WORLD_SIZE": "1"}
    main(Path(sys.argv[1]))
