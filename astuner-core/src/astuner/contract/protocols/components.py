"""Readers, judges, detectors, estimators and loggers: what comes before, beside and after the rollouts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from attrs import field, frozen
from attrs.validators import instance_of

from astuner.contract.protocols.traits import FLAG, promise
from astuner.contract.schema import Call, Episode, Group, Split, Task, Unjudged, Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@runtime_checkable
class Reader(Protocol):
    """Yields tasks. Runs in the driver; made once per run.

    It may offer `WouldGenerate`, if it has to make its tasks first, and `ReportsProgress`, and its class `PrefersActions`
    (`astuner.contract.protocols.optional`).
    """

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split lazily, in the same order every time; nothing when the split is not configured."""


class Judge(ABC):
    """Scores the episodes of a group. Runs in the rollout process; made once per process, so it must support concurrent groups.

    A class with only `compute_reward(workflow_task, workflow_output)` (`ScoresEpisodes`) is accepted wherever a judge is; its
    `close()`, sync or async, is called too if it has one (`Closes`). A class with `Honours` names the keys that it reads.
    """

    async def observe(self, episode: Episode, environment: Any) -> Mapping[str, Any]:
        """Look at the episode while its environment lives; the result is stored as `episode.observations`."""
        return {}

    @abstractmethod
    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        """Return one verdict per *completed* episode of the group, in their order.

        Raising leaves every episode of the group without a reward; it is counted, and is never a 0.
        """

    async def close(self) -> None:
        """Release its resources (clients, child processes); called once, when the rollouts end."""
        return


@runtime_checkable
class Detector(Protocol):
    """Looks for abnormal behaviour in what a model sampled. Made once per rollout process.

    It runs on the event loop after each call that may be trained, so it must be quick. One that raises is named, and has no
    finding for that call.
    """

    def look(self, output: Sampled) -> str | None:
        """Return the evidence, short enough to be read in a table; None if there is none."""


@frozen(kw_only=True, eq=False)
class Sampled:
    """One sampled answer, as a detector sees it."""

    call: Call
    text: str
    """The sampled text, including special tokens, without the token that ended the turn."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """The tools that the model was offered, in OpenAI's form; `call.tools` has them for the first call of a conversation only."""
    special_tokens: tuple[str, ...] = ()
    """The tokenizer's special tokens that were sampled, in order, without the one that ended the turn; without those of tool
    calls and reasoning."""


@frozen(kw_only=True)
class EstimatorTraits:
    """What an estimator compares. The method that a flag names is described with it."""

    group_relative: bool = field(default=True, validator=FLAG)
    """Whether a group's advantages depend on that group's rewards alone: then a group whose rewards agree gives no signal, and
    one episode per task is refused. False if all episodes of a step are compared: then `filter_groups` is refused."""
    default_loss_agg_mode: str = field(default="token-mean", validator=instance_of(str))
    """The aggregation that belongs to the algorithm, used when the user sets no `trainer_common.loss_agg_mode`."""
    weighs_tokens: bool = promise("token_advantages")
    """`token_advantages(groups, returns)`: return one advantage per trained token, in the shapes of `returns`; called in place of
    `advantages`. `groups` are the rewards, as there. `returns` has, for each of them, a 1-D array with one number per trained
    token, in order: the reward, less the penalties from that token on. Without `use_kl_in_reward` all are the reward itself."""


class Estimator(Protocol):
    """Turns rewards into advantages. Runs in the driver, on plain numpy arrays. It may have `traits` (`EstimatorTraits`)."""

    def advantages(self, groups: Sequence[NDArray[np.float64]]) -> Sequence[NDArray[np.float64]]:
        """Return one advantage per reward, in the same shapes: a 1-D array per group of siblings."""


class Logger(Protocol):
    """Writes what a run reports. Runs in the driver; one that raises is named and left out, and the run continues.

    It may offer `Truncates`, `ShowsProgress`, `ShowsNotices` and `NamesViewer` (`astuner.contract.protocols.optional`).
    """

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of a step."""

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        """Write the episodes of a step."""

    def close(self) -> None:
        """Flush and close."""
