"""The protocol of backbones, which train."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from astuner.contract.protocols.run import Control, RunInfo, TaskSource
from astuner.contract.schema import Event


class Backbone(Protocol):
    """Trains. Its module imports nothing heavy; `train` runs in the driver and may start other processes.

    Every key of the schema must be accounted for: honoured by core, by `honours` or by a row of the alignment, `inapplicable`
    or refused. Its class may offer `Refuses`, `HasAlignment`, `PrefersEngines`, `BringsEngines`, `HasOwnVenv` and
    `Throwaway` (`astuner.contract.protocols.optional`).
    """

    name: ClassVar[str]
    honours: ClassVar[Iterable[str]]
    """Key paths below `astuner` that it acts on, as shell patterns (`trainer_common.optim.*`)."""
    inapplicable: ClassVar[Mapping[str, str]]
    """Key patterns that have no meaning for it, with the reason; setting one is answered with a notice."""

    def train(self, run: RunInfo, tasks: TaskSource, recipe: Any, control: Control) -> Generator[Event]:
        """Yield reports as they happen; closing the generator ends everything under way.

        `recipe` is `astuner.episodes.rollout.recipe.Recipe`: how a rollout process makes its parts.
        """

    def evaluate(
        self, run: RunInfo, tasks: TaskSource, recipe: Any, checkpoint: Path | None, control: Control
    ) -> Generator[Event]:
        """Yield the report of one validation pass with the weights of a checkpoint, or of `model.path`."""

    def export(self, checkpoint: Path, out: Path, *, merge_lora: bool, dtype: str | None = None) -> None:
        """Write a checkpoint as a Hugging Face model that other tools load."""

    def close(self) -> None:
        """Release everything, even during a run."""
