"""The trainer's part of a checkpoint: the optimizer's moments, the step, and what they belong to. Never pickled."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from attrs import asdict
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim import Optimizer

from astuner.contract.errors import UsageError
from astuner_local.trainer.options import TrainerOptions

TENSORS, FACTS = "trainer.safetensors", "trainer.json"

FREE = frozenset({"total_steps", "share_prefixes", "micro_batch_tokens", "logits_per_pass", "recompute_activations"})
"""Options that a continued run may change: its length, and how the same sums are grouped."""


def save_state(
    directory: Path, parameters: Mapping[str, Tensor], optimizer: Optimizer, *, step: int, options: TrainerOptions, reference: str
) -> None:
    """Write the state into a directory, creating it if missing. The weights are not in it: `model_io.save_hf` writes them."""
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {
        f"{kind}:{name}": value.contiguous()
        for name, parameter in parameters.items()
        for kind, value in optimizer.state.get(parameter, {}).items()
    }
    save_file(tensors, directory / TENSORS)
    facts = {"format": 1, "step": step, "options": _describe(options), "reference": reference, "shapes": _shapes(parameters)}
    (directory / FACTS).write_text(json.dumps(facts, indent=1), encoding="utf-8")


def load_state(
    directory: Path,
    parameters: Mapping[str, Tensor],
    optimizer: Optimizer,
    *,
    options: TrainerOptions,
    reference: str,
    may_differ: Collection[str] = (),
) -> int:
    """Restore the optimizer and return the step.

    Raises UsageError if the state belongs to another model, reference or options, apart from those in `may_differ`.
    """
    facts = _read(directory)
    _check(facts, directory, parameters, options, reference, may_differ)
    tensors = load_file(directory / TENSORS)
    state: dict[int, dict[str, Tensor]] = {}
    places = {name: place for place, name in enumerate(parameters)}
    for key, value in tensors.items():
        kind, name = key.split(":", 1)
        state.setdefault(places[name], {})[kind] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
    return int(facts["step"])


def _read(directory: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((directory / FACTS).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"{directory}: no {FACTS}, so this is not a checkpoint that can be continued") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise UsageError(f"{directory / FACTS}: damaged ({error}); continue from an earlier checkpoint") from error
    return facts


def _check(
    facts: Mapping[str, Any],
    directory: Path,
    parameters: Mapping[str, Tensor],
    options: TrainerOptions,
    reference: str,
    may_differ: Collection[str],
) -> None:
    saved, current = facts["shapes"], _shapes(parameters)
    if saved != current:
        odd = sorted(name for name in saved.keys() | current.keys() if saved.get(name) != current.get(name))
        raise UsageError(
            f"{directory}: belongs to a model with other trained parameters ({len(odd)} differ, first {odd[0]!r}: "
            f"saved {saved.get(odd[0])}, now {current.get(odd[0])}); use the model and LoRA settings of that run"
        )
    now = json.loads(json.dumps(_describe(options)))
    then = facts["options"]
    changed = [name for name in now if then.get(name, now[name]) != now[name] and name not in FREE.union(may_differ)]
    if changed:
        pairs = ", ".join(f"{name} was {then[name]!r} and is {now[name]!r}" for name in changed)
        raise UsageError(f"{directory}: the run had other options: {pairs}; set them back, or start a new run")
    if facts["reference"] != reference:
        raise UsageError(f"{directory}: the run had another reference model; pass the one it began with, not a later checkpoint")


def _describe(options: TrainerOptions) -> dict[str, Any]:
    # The loss is an object of its plugin; the run checks that its settings are those of the first start.
    return asdict(options, filter=lambda item, _: item.name != "policy_loss")


def _shapes(parameters: Mapping[str, Tensor]) -> dict[str, list[int]]:
    return {name: list(parameter.shape) for name, parameter in parameters.items()}
