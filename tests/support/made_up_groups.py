"""What the comparisons of the training signal feed to two backbones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field

from astuner.contract.schema import Episode, Group, Sample, Task, Verdict, WorkflowOutput
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.hooks import Hooks


@define
class Control:
    """What a learner asks of its run."""

    resume_step: int = 0
    stop: bool = False
    hooks: Hooks = field(factory=lambda: Hooks(Catalog()))

    def notify(self, text: str, level: str = "warning") -> None:
        """Nobody listens."""


def groups_of(step: int, vocabulary: int, sizes: Sequence[int]) -> list[Group]:
    """Return made-up groups: episodes of one or two samples of several turns, with rewards that differ; `sizes` are episodes."""
    random = np.random.default_rng(step)

    def sample(episode: str, repeat: int) -> Sample:
        size = int(random.integers(12, 40))
        mask = random.random(size) < 0.4
        mask[: int(random.integers(1, 5))] = False
        mask[-1] = True
        logprobs = np.where(mask, -random.random(size) * 3, 0).astype(np.float32)
        ids = random.integers(3, vocabulary, size).astype(np.int32)
        return Sample(
            episode_id=episode, task_id="t", repeat=repeat, agent="agent", ids=ids, mask=mask, logprobs=logprobs, calls=(0,)
        )

    def episode(group: int, repeat: int) -> Episode:
        name = f"{step}-{group}-{repeat}"
        made = Episode(
            id=name,
            task=Task(main_query="?", task_id=f"t{group}"),
            step=step,
            repeat=repeat,
            output=WorkflowOutput(),
            samples=tuple(sample(name, repeat) for _ in range(1 + repeat % 2)),
        )
        return made.with_verdict(Verdict(reward=float(random.random())))

    return [
        Group(task=Task(task_id=f"t{n}"), step=step, split="train", episodes=tuple(episode(n, repeat) for repeat in range(size)))
        for n, size in enumerate(sizes)
    ]


def take_weights(local: Any, checkpoint: Path) -> None:
    """Give the learner of `local` the weights of another's checkpoint, so that only what is computed from them is compared.

    Adam makes as much of a gradient that is nearly zero as of any, so weights go apart after updates by gradients that are equal.
    """
    from safetensors.torch import load_file

    found = {name: value for file in sorted(checkpoint.glob("*.safetensors")) for name, value in load_file(file).items()}
    missing, unexpected = local.model.load_state_dict(found, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}, "only what is tied to the embeddings may be left out"
