"""A model of transformers with adapters of peft, in float32."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tinker
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from tinker_double.store import make_error

ALPHA = 32
"""What the servers fix lora_alpha to."""


def load_base(folder: str) -> Any:
    """Return the base model of a local folder."""
    if not (Path(folder) / "config.json").is_file():
        raise make_error(tinker.BadRequestError, f"base model {folder} is not served")
    # In evaluation mode, as transformers loads it.
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


class LoraModel:
    """Adapters on the linear layers of a base model but its head: B is 0 at first, A is drawn from the seed."""

    def __init__(self, base_model: str, *, rank: int, seed: int | None, train_mlp: bool, train_attn: bool) -> None:
        base = load_base(base_model)
        wanted = [part for part, trained in ((".mlp.", train_mlp), (".self_attn.", train_attn)) if trained]
        linear = [name for name, module in base.named_modules() if isinstance(module, nn.Linear)]
        targets = [name for name in linear if any(part in name for part in wanted)]
        if not targets:
            raise make_error(tinker.BadRequestError, "neither train_mlp nor train_attn: there is nothing to train")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(secrets.randbits(62) if seed is None else seed)
            self.peft_model = get_peft_model(base, LoraConfig(r=rank, lora_alpha=ALPHA, target_modules=targets)).eval()
        trained = {name: parameter for name, parameter in self.peft_model.named_parameters() if parameter.requires_grad}
        self.parameters: dict[str, nn.Parameter] = {name.replace(".default.", "."): trained[name] for name in trained}
        """By their names in PEFT's files."""

    def compute_logprobs(self, ids: Sequence[int], targets: Tensor) -> Tensor:
        """Return log π of each target [T] after the ids [T] up to its place, at temperature 1."""
        logits: Tensor = self.peft_model(input_ids=torch.tensor([list(ids)])).logits[0]  # [T, vocab]
        return logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Give the adapters other values."""
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(tensors[name])

    def merge(self) -> Any:
        """Return a model of its own that has the adapters in its weights."""
        return copy.deepcopy(self.peft_model).merge_and_unload()
