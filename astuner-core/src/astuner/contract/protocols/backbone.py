"""The protocol of backbones, which train, and of the virtual environment that one may have for itself."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from attrs import field, frozen
from attrs.validators import instance_of, optional

from astuner.contract.protocols.run import Control, RunInfo, TaskSource
from astuner.contract.protocols.traits import FLAG, NAMES, REASONS, promise
from astuner.contract.schema import Event

if TYPE_CHECKING:
    from astuner.settings.config.alignment import Alignment


@frozen(kw_only=True)
class VenvState:
    """The state of a backbone's environment."""

    backbone: str
    status: Literal["in place", "ready", "missing", "outdated", "unsupported"]
    """`in place` where this environment has the libraries already; `ready` for one that commands continue in."""
    directory: Path
    reason: str = ""
    """Why it cannot be used; of one that is ready, how it differs from the user's environment."""
    command: str = ""
    """What makes it, or makes it again."""

    @property
    def is_usable(self) -> bool:
        """Whether the backbone can run."""
        return self.status in ("in place", "ready")

    def describe(self) -> str:
        """Say what is wrong, and the command."""
        remedy = f": {self.command}" if self.command else ""
        return f"the backbone '{self.backbone}' has its own virtual environment, {self.reason}{remedy}"


@runtime_checkable
class OwnVenv(Protocol):
    """What a backbone knows of its environment. Its package makes it; commands that use the backbone continue in it.

    The environment has the command `astuner` and the same astuner packages as the user's.
    """

    def examine(self, backbone: str) -> VenvState:
        """Return the state of the environment of the backbone with this name. Reads metadata only, and imports nothing heavy."""


@frozen(kw_only=True)
class BackboneTraits:
    """What a backbone acts on and can do. The methods that a flag names are described with it."""

    honours: tuple[str, ...] = field(default=(), validator=NAMES)
    """Key paths below `astuner` that it acts on, as shell patterns (`trainer_common.optim.*`)."""
    inapplicable: Mapping[str, str] = field(factory=dict, validator=REASONS)
    """Key patterns that have no meaning for it, with the reason; setting one is answered with a notice."""
    refuses: Mapping[str, str] = field(factory=dict, validator=REASONS)
    """Key patterns that it does not support, with the reason; setting one is an error."""
    alignment: Alignment | None = None
    """The table from our keys to those of its own configuration; the result comes as `run.native`."""
    default_engines: tuple[str, ...] = field(default=(), validator=NAMES)
    """What `rollout.name: auto` means: the first of them that is installed with all its requirements. A single one is always
    taken, and its problems are the user's. Empty for a backbone that brings its engine."""
    brings_engines: tuple[str, ...] = field(default=(), validator=NAMES)
    """The values of `rollout.name` for which no engine of a plugin is made, since it serves these itself."""
    # A Protocol that is checked at run time, which mypy takes for an abstract class.
    own_venv: OwnVenv | None = field(default=None, validator=optional(instance_of(OwnVenv)))  # type: ignore[type-abstract]
    """For libraries that cannot share an environment with those of its users: the state of the environment that they are in."""
    trains: bool = field(default=True, validator=FLAG)
    """False if it only plays: then nothing asks for episodes to compare, or for a model whose weights are at hand."""
    throwaway: bool = field(default=False, validator=FLAG)
    """Whether it keeps only its latest run, in `EXPERIMENT.NAME` next to the experiment's directory."""
    warm_starts: bool = promise("warm_start")
    """`warm_start(run, job: WarmStartJob, say) -> WarmStartResult`: train on demonstrations, for `astuner warm-start`, on the
    cross entropy of the trained tokens, alike for the same job. Order and rate come from `astuner.runs.training.supervised`;
    `say` shows a line of progress."""
    checks_warm_starts: bool = promise("check_warm_start")
    """`check_warm_start(run, job: WarmStartJob)`: raise `AstunerError` for what `warm_start` would refuse; called before anything
    is played or started."""
    makes_tiny_models: bool = promise("make_tiny_tokenizer", "make_tiny_model")
    """`make_tiny_tokenizer(job: TinyModelJob)`: write the tokenizer alone and return it, one of transformers, without torch.
    `make_tiny_model(job)`: write a model with random weights next to it. For `warm-start --tiny`, also of other backbones."""
    settles_values: bool = promise("settle_values")
    """Classmethod `settle_values(run_info) -> Sequence[SettledValue]`: what open settings become on this machine, and
    why. It imports nothing heavy. A value with a `cost` is reported when a run starts."""
    plans_memory: bool = promise("plan_memory")
    """Classmethod `plan_memory(run_info, question: MemoryQuestion) -> MemoryPlan`: what it will hold in memory. It imports
    nothing heavy, and raises `AstunerError` for what the machine cannot do. A run that does not fit is refused early."""


class Backbone(Protocol):
    """Trains. Its module imports nothing heavy; `train` runs in the driver and may start other processes.

    Every key of the schema must be accounted for: honoured by core, or by `traits` (`BackboneTraits`), which honour it, align
    it, call it inapplicable or refuse it.
    """

    name: ClassVar[str]

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
