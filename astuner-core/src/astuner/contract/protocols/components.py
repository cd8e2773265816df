"""Readers, samplers, judges, detectors, estimators and loggers: what comes before, beside and after the rollouts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from attrs import field, frozen
from attrs.validators import instance_of, optional

from astuner.contract.protocols.traits import FLAG, NAMES, promise
from astuner.contract.schema import Call, Episode, Group, Split, Task, Unjudged, Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@frozen(kw_only=True)
class ReaderTraits:
    """What a reader knows of its tasks. The method that a flag names is described with it."""

    command_workflow: str | None = field(default=None, validator=optional(instance_of(str)))
    """What plays its tasks where the configuration names the workflow of the section `agent`, and is derived from it, as
    `module:Class`: for tasks that say where a program plays them, and check what it has left."""
    names_files: bool = promise("name_files")
    """Classmethod `name_files(options) -> Mapping[str, str]`: the files that its options name, as written, by their key below its
    section. One that does not exist is reported with the other mistakes of the configuration."""
    prefers_actions: bool = promise("prefer_actions")
    """Classmethod `prefer_actions(options) -> "code" | "text" | "box"`: how actions are read off answers to its tasks, where an
    environment leads and the configuration names no form. `options` is None without `Options`."""
    may_generate: bool = promise("would_generate")
    """`would_generate(split) -> str | None`: what making the tasks first would take, if it has to, and pay for it; None if they
    exist. `astuner run --dry-run` shows it, and then reads no task."""
    reports_progress: bool = promise("report_to")
    """`report_to(say: Say)`: take what shows messages; called before the first `read`."""
    lists_files: bool = promise("list_files")
    """`list_files() -> Iterable[Path]`: the files that its tasks came from; called after the tasks were read once. `run.json`
    records their digests, and a resume names the one that changed."""
    lists_revisions: bool = promise("list_revisions")
    """`list_revisions() -> Mapping[str, str]`: the version of each source by its name, as for files."""
    finds_places: bool = promise("identify_tasks", "read_places", "read_at")
    """`identify_tasks(split) -> str | None`: a digest of all that its tasks are made of, cheap if nothing changed; None if they
    are read in order. `read_places(split, places)`: what `read` yields, of plain JSON made for each task alone; before each its
    place is added to an array of 64 bits. `read_at(split, number, place) -> Task`: the same task, by its number from 0."""


@runtime_checkable
class Reader(Protocol):
    """Yields tasks. Runs in the driver; made once per run. Its class may have `traits` (`ReaderTraits`)."""

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split lazily, in the same order every time; nothing when the split is not configured."""


@frozen(kw_only=True)
class JudgeTraits:
    """What a judge reads and compares."""

    honours: tuple[str, ...] = field(default=(), validator=NAMES)
    """The keys of an LLM that it reads, such as `task_judge.alien_llm_model`. Setting one that no judge of the run reads is
    answered with a notice."""
    compares_siblings: bool = field(default=True, validator=FLAG)
    """Whether its verdict on an episode may depend on the others of the group, or on their order. If not, `astuner judge eval`
    shows it each answer once, and if it raises on a group it is asked about each episode alone."""
    asks_service: bool = field(default=False, validator=FLAG)
    """Whether its time goes to a service, such as an LLM: then its time limit says nothing about the answer."""


class Judge(ABC):
    """Scores the episodes of a group. Runs in the rollout process; made once per process, so it must support concurrent groups.

    A class with only `compute_reward(workflow_task, workflow_output)` is accepted wherever a judge is; its `close()`, sync or
    async, is called too if it has one. Its class may have `traits` (`JudgeTraits`).
    """

    async def observe(self, episode: Episode, environment: Any) -> Mapping[str, Any]:
        """Look at the episode while its environment lives; the result is stored as `episode.observations`."""
        return {}

    @abstractmethod
    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        """Return one verdict per *completed* episode of the group, in their order.

        `Unjudged(reason="abstained")`, or None in its place, abstains.

        Raising leaves every episode of the group without a reward, other than `rollout.failure_rewards.judge_error`, and counts
        as no success: what the model wrote may have caused it. It is asked again if a connection or a service failed.
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
    gives_streams: bool = promise("signal")
    """`signal(groups: Sequence[Sequence[Outcome]]) -> Sequence[Sequence[Streams]]`: return what each token counts in each term of
    the loss, in the shapes of `groups`; called in place of `advantages`, which it then need not have."""
    beyond_advantages: bool = field(default=False, validator=FLAG)
    """Whether its streams have a likelihood or a divergence, which not every trainer takes."""
    wants_greedy: bool = field(default=False, validator=FLAG)
    """Whether each task is played once more at temperature 0, to compare with: `Outcome.greedy`. That episode is judged with its
    siblings, stored and shown, and never trained or counted as one of them."""
    scored_by: tuple[str, ...] = field(default=(), validator=NAMES)
    """The models whose log-probabilities of the sampled tokens it reads: `reference`, that of the run, or paths of models."""
    keeps_state: bool = promise("get_state", "set_state")
    """`get_state() -> Any` and `set_state(state)`: what it remembers from step to step, as JSON; in every checkpoint."""


@frozen(kw_only=True, eq=False)
class Outcome:
    """One agent of a rewarded episode: one of those that are compared. Arrays are [trained tokens], in order."""

    episode: Episode
    """With the components of its verdict, and what its environment reported: `episode.output.metadata["rewards"]` per step."""
    agent: str
    reward: float
    """Less all penalties"""
    returns: NDArray[np.float64]
    """The reward, less the penalties from each token on"""
    logprobs: NDArray[np.float64]
    """log μ, as the engine recorded it"""
    calls: NDArray[np.int64]
    """The call (`Call.index`) that sampled each token"""
    scores: Mapping[str, NDArray[np.float64]] = field(factory=dict)
    """log-probabilities by each model of `EstimatorTraits.scored_by`, at the temperature of the rollouts"""
    greedy: float | None = None
    """The agent's reward in the greedy sibling of `EstimatorTraits.wants_greedy`; None if that one has none: it failed, or the
    judge did"""

    @property
    def tokens(self) -> int:
        """Number of trained tokens; 0 if none of its tokens is trained."""
        return len(self.calls)


@frozen(kw_only=True, eq=False)
class Streams:
    """The signal of an outcome's trained tokens: each a number for all of them, or an array [trained tokens]."""

    advantages: float | NDArray[np.float64] = 0.0
    """A, in the policy gradient's loss"""
    likelihood: float | NDArray[np.float64] = 0.0
    """w in -w·log π: what is imitated"""
    divergence: float | NDArray[np.float64] = 0.0
    """w in w·KL(π‖ρ), by the estimator `kl_loss_type`"""
    reference: str = ""
    """Which of the scores is log ρ, or `sampler` for log μ; needed for a divergence"""


class Estimator(Protocol):
    """Turns rewards into advantages, or episodes into streams. Runs in the driver, on numpy arrays.

    It may have `traits` (`EstimatorTraits`), which may depend on its options.
    """

    def advantages(self, groups: Sequence[NDArray[np.float64]]) -> Sequence[NDArray[np.float64]]:
        """Return one advantage per reward, in the same shapes: a 1-D array per group of siblings."""


@frozen(kw_only=True, eq=False)
class TaskDraw:
    """What a step asks a sampler for."""

    step: int
    """From 1."""
    count: int
    """How many tasks, all of them different."""
    tasks: Sequence[str]
    """The ids to choose from: the training tasks in the reader's order, without those that the step has already drawn."""
    rng: Random
    """Seeded with the run's seed, the step and how often it has drawn."""


@frozen(kw_only=True)
class PlayedTask:
    """What the group of a task has shown."""

    task_id: str
    step: int
    """The training step that it was played for."""
    rewards: tuple[float, ...]
    """Of its episodes that have one, by repeat."""
    successes: tuple[bool, ...]
    """Of its episodes whose success is known, by repeat."""

    @property
    def success_rate(self) -> float | None:
        """The share of successes; None if no success is known."""
        return sum(self.successes) / len(self.successes) if self.successes else None


class Sampler(Protocol):
    """Chooses the tasks of each step. Lives in the driver.

    It keeps nothing itself: core holds its state, plain JSON values, `{}` at first, and saves it with each checkpoint. The same
    arguments give the same answer, so a resumed run plays the same tasks; `draw.rng` is the only chance.

        class FewestVisits:
            def choose(self, draw, state):
                return sorted(draw.tasks, key=lambda task: state.get(task, 0))[: draw.count]

            def observe(self, played, state):
                return {**state, **{one.task_id: state.get(one.task_id, 0) + 1 for one in played}}
    """

    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        """Return `draw.count` different ids of `draw.tasks`. A step that replaces groups without signal draws several times."""

    def observe(self, played: Sequence[PlayedTask], state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state after a step; `played` are all of its tasks, in the order in which they were chosen.

        Called as soon as they are judged, which may be before they are trained. A state of an earlier attempt of the run may name
        tasks that it no longer has.
        """


@frozen(kw_only=True)
class LoggerTraits:
    """What a logger shows beyond rows. The method that a flag names is described with it."""

    truncates: bool = promise("truncate_after")
    """`truncate_after(step)`: remove the rows after a step, which a resumed run writes again; -1 removes all."""
    shows_progress: bool = promise("progress")
    """`progress(what, done, total)`: show progress."""
    shows_notices: bool = promise("notice")
    """`notice(text, level)`: show a text; the level is `info` or `warning`."""
    links_steps: bool = promise("link_steps")
    """`link_steps(url)`: take the URL of the pages about steps, with `{step}` for the number; called before the first step if a
    service has such pages."""
    names_viewer: bool = promise("format_viewer_command")
    """`format_viewer_command() -> str`: the command that shows its results, as it is typed in the working directory; the end of a
    run names it."""


class Logger(Protocol):
    """Writes what a run reports. Runs in the driver; one that raises is named and left out, and the run continues.

    Its class may have `traits` (`LoggerTraits`).
    """

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of a step."""

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        """Write the episodes of a step."""

    def close(self) -> None:
        """Flush and close."""
