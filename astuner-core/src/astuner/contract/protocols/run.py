"""The run of a component: its facts, and requests to the driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from attrs import field, frozen

from astuner.contract.protocols.components import Detector, Estimator, Judge, Sampler
from astuner.contract.protocols.engine import MakeEngine
from astuner.contract.protocols.losses import PolicyLoss
from astuner.contract.protocols.sandbox import Sandboxes
from astuner.contract.protocols.tracker import MakeTracker
from astuner.contract.protocols.workflow import MakeEnvironment
from astuner.contract.schema import Episode, Group, Task

if TYPE_CHECKING:
    from astuner.contract.protocols.candidate import Candidate
    from astuner.settings.config.model import Config


@frozen(kw_only=True)
class RunInfo:
    """The facts of a component's run."""

    project_name: str
    experiment_name: str
    backbone: str
    directory: Path
    """The run directory."""
    config_dir: Path
    """The YAML's directory; relative paths in it start here."""
    seed: int
    config: Config
    user_keys: frozenset[str] = frozenset()
    """Dotted paths below `astuner` that the user set; the others hold defaults."""
    attempt: int = 1
    """Counts the starts of this run: 1, and one more for each resume. 0 if a component is tried without a run, and writes
    nothing into its directory."""
    fresh: bool = False
    """Do not use servers kept from earlier runs; see `astuner run --fresh`."""
    native: Mapping[str, Any] = field(factory=dict)
    """The backbone's own configuration, from ours and the user's raw section by its alignment; empty without alignment."""
    conf: Path | None = None
    """The YAML that the run was started with."""
    overrides: tuple[str, ...] = ()
    """The arguments of `--set`."""
    from_environment: Mapping[str, str] = field(factory=dict)
    """What is shown in place of each text of `config` that came from an environment variable, by dotted path."""


class EpisodeStore(Protocol):
    """Where finished episodes go, and come back from after a crash. Lives in the driver."""

    def recall(self, identity: str) -> Episode | None:
        """Return a finished episode of an earlier attempt of the run, with its verdict if it had one."""

    def add_episode(self, episode: Episode) -> None:
        """Store a finished episode, before it is judged."""

    def add_encoded(self, episode: Episode, line: bytes) -> None:
        """Store a finished episode of which another process has made the line with `astuner.runs.store.codec.encode_episode`."""

    def add_verdicts(self, group: Group) -> None:
        """Store the verdicts on a group."""

    def sync(self) -> None:
        """Make everything so far survive a crash of the machine."""


class ComponentMaker(Protocol):
    """Makes the parts of a rollout process through the installed extensions."""

    def make_engine(self, candidate: Candidate, options: Any, run_info: RunInfo) -> MakeEngine:
        """Return what makes the engine of a rollout process."""

    def make_judge(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Judge:
        """Make a judge, whole even when the class has only `compute_reward`."""

    def make_reward(self, judges: Sequence[Any], run_info: RunInfo) -> Judge | None:
        """Make one judge of all `astuner.episodes.judging.weighted_judge.WeightedJudge`; None if there is none."""

    def make_tracker(self, candidate: Candidate, options: Any, run_info: RunInfo) -> MakeTracker:
        """Return what makes the tracker of an episode."""

    def make_estimator(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Estimator:
        """Make the advantage estimator."""

    def make_loss(self, candidate: Candidate, options: Any, run_info: RunInfo) -> PolicyLoss:
        """Make the policy gradient's loss."""

    def make_sampler(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Sampler:
        """Make what chooses the tasks of the training steps."""

    def make_detector(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Detector:
        """Make a detector of abnormal behaviour."""

    def make_sandbox(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Sandboxes:
        """Make what opens sandboxes."""

    def make_environment(self, candidate: Candidate, options: Any, run_info: RunInfo) -> MakeEnvironment:
        """Return what makes the environment of an episode."""


class Control(Protocol):
    """A backbone's link to the driver. Thread-safe; a stop or a save takes effect at its next step boundary."""

    @property
    def stop(self) -> bool:
        """Save the state and return."""

    def take_save(self) -> bool:
        """Whether a checkpoint was requested since the last call."""

    def on_stop(self, callback: Callable[[], object]) -> None:
        """Call back, in any thread, as soon as a stop is requested: to cancel rollouts under way."""

    @property
    def store(self) -> EpisodeStore:
        """The run's episodes."""

    @property
    def hooks(self) -> ComponentMaker:
        """The hooks of the driver, for backbones whose rollouts live there."""

    @property
    def resume_step(self) -> int:
        """The step of the checkpoint to continue from; 0 starts from `model.path`."""

    def notify(self, text: str, level: Literal["info", "warning"] = "warning") -> None:
        """Show the user a message, at once."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Show progress, if there is a display."""


class TaskSource(Protocol):
    """The tasks of a run in the order of `data.shuffle`, which is the same for all backbones."""

    @property
    def total_steps(self) -> int:
        """The number of training steps."""

    def batch(self, step: int, draw: int = 0) -> Sequence[Task]:
        """Return the tasks of a step (from 1); the same for the same seed, whatever came before.

        `draw` counts further batches for the same step, for resampling groups without signal.
        """

    def first(self, count: int) -> Sequence[Task]:
        """Return the first training tasks in the reader's order, at most `count`."""

    def validation(self) -> Sequence[Task]:
        """Return all validation tasks."""
