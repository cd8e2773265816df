"""The actor that holds the trainer of a warm start."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from astuner.contract.protocols import Fit
from astuner.runs.training.supervised import find_misses
from astuner_verl.first_choices import ASKED, FIRST
from astuner_verl.host import STATE, Host
from astuner_verl.rows import TrainRow


class WarmStartHost(Host):
    """Ray actor. Trains and measures; nothing is sampled, so there are no engines."""

    def start(self) -> None:
        """Start the workers."""
        self._start(engines=False)

    def measure_fit(self, rows: Sequence[TrainRow]) -> Fit:
        """Return how well the current weights predict the trained tokens of rows."""
        import torch
        from verl.utils import tensordict_utils as tu

        batch, order = self._lay_out(rows)
        query = self._build_query(batch)
        tu.assign_non_tensor(query, **ASKED)
        found = self._trainer.actor_rollout_wg.choose_first(query)
        loss, right, tokens = 0.0, 0, 0
        chosen: list[Any] = [()] * len(rows)
        for place, logprobs, first in zip(order, found["log_probs"].unbind(), found[FIRST].unbind(), strict=True):
            if place is None:
                continue
            row = rows[place]
            mask = torch.tensor(row.mask)
            targets = torch.tensor(row.ids[row.start :])[mask]
            loss -= float(logprobs[row.start - 1 : -1][mask].sum(dtype=torch.float64))
            own = first[row.start - 1 : -1][mask]
            right += int((own == targets).sum())
            chosen[place] = own.cpu().numpy()
            tokens += len(targets)
        places = [row.start + np.flatnonzero(row.mask) for row in rows]
        misses = find_misses([row.ids for row in rows], places, chosen)
        return Fit(loss=loss / max(1, tokens), accuracy=right / max(1, tokens), tokens=tokens, misses=misses)

    def write_model(self, directory: str, base: str) -> None:
        """Write the model in transformers' format, or the adapters; `base` is the model under these."""
        group, home = self._trainer.actor_rollout_wg, Path(directory)
        if self._trainer.ref_in_actor:
            group.save_adapter(directory, base)
            return
        group.save_checkpoint(str(home / STATE), None, 0)
        for file in (home / STATE / "huggingface").iterdir():
            shutil.move(file, home / file.name)
        shutil.rmtree(home / STATE)
