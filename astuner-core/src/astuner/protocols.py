"""What each kind of component is, and in which process it runs.

A component is any object of the right shape; nothing has to be subclassed except `Workflow` and `Judge`, which are short
and carry defaults. A component class may have an attrs class `Options` as an attribute: its YAML section is structured into it
strictly, and it is passed as the only argument of the constructor. Without `Options` the constructor takes no argument.
A class that must know the run has a classmethod `from_run(options, run_info)`, which is called in place of the constructor
(`options` is None without `Options`).

All kinds stand on this one page, long as it is, because it is what an author of plugins reads from top to bottom.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from attrs import field, frozen

from astuner.schema import (
    Call,
    Capabilities,
    Chunk,
    Episode,
    Event,
    Group,
    Message,
    Request,
    Sample,
    Split,
    Task,
    Unjudged,
    Verdict,
    WorkflowOutput,
    WorkflowTask,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from astuner.config.model import Config
    from astuner.plugins.hooks import Hooks


@runtime_checkable
class Reader(Protocol):
    """Yields tasks. Runs in the driver; made once per run.

    A reader that may have to make its tasks first, and pay for it, has a method `would_generate(split)`: what that would take, in
    words, or None where the tasks are there. `astuner run --dry-run` asks it, and reads no task then. A method `report_to(say)`,
    called before the first `read`, is told where to say what a user should know of the data, as `say(text, level)`.
    """

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split lazily, in the same order every time; nothing when the split is not configured."""
        ...


class ChatModel(Protocol):
    """Where a framework finds the model: any OpenAI-compatible client takes these three."""

    base_url: str
    api_key: str
    model: str

    @property
    def anthropic_base_url(self) -> str:
        """The base URL for Anthropic's SDK, which adds `/v1` itself; the key is the same."""
        ...


class Tuner(Protocol):
    """The model under training, as a workflow reaches it. Lives in the rollout process, one per episode."""

    def as_oai_baseurl_apikey(self, agent_name: str = "agent", target_tag: str | None = None) -> ChatModel:
        """Return `.base_url`, `.api_key` and `.model`, for any framework in any process that reaches the gateway."""
        ...

    def as_raw_openai_sdk_client(self, agent_name: str = "agent", target_tag: str | None = None, **kwargs: Any) -> Any:
        """Return an `openai.AsyncOpenAI` client that skips the socket. Its model name is ignored: any will do."""
        ...

    def as_raw_anthropic_sdk_client(self, agent_name: str = "agent", target_tag: str | None = None, **kwargs: Any) -> Any:
        """Return an `anthropic.AsyncAnthropic` client that skips the socket, where Anthropic's SDK is installed."""
        ...

    def as_agentscope_model(
        self, agent_name: str = "agent", target_tag: str | None = None, debug_model: Any = None, **kwargs: Any
    ) -> Any:
        """Return a chat model of the installed AgentScope; `debug_model` takes its place when the agent is not trained."""
        ...


class Workflow(ABC):
    """A user's agent: made anew for each episode, run in the rollout process (see `rollout.isolation`)."""

    trainable_targets: ClassVar[Sequence[str] | None] = None
    """Target tags that are trained; None trains every call."""

    @abstractmethod
    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play one episode. Any exception ends this episode only, with its reason recorded."""


@runtime_checkable
class Environment(Protocol):
    """A gym-like world of one episode. Runs in the rollout process, or is a client of a server.

    It is made for each episode, by the rule of all components with the episode's task before the other arguments:
    `cls(workflow_task)`, `cls(workflow_task, options)` or `from_run(workflow_task, options, run_info)`. Making one is cheap;
    `reset` starts what it needs. With `rollout.isolation: thread` it lives in a thread of its own and may block. An attribute
    `tools`, where it has one, holds what the model may call, in OpenAI's form; it is read before each answer.
    """

    async def reset(self) -> Sequence[Message]:
        """Return the first messages, in OpenAI's form."""
        ...

    async def step(self, action: Message) -> tuple[Sequence[Message], float, bool, Mapping[str, Any]]:
        """Return (messages, reward, done, info) after an assistant message, which may hold `tool_calls`.

        Any number of messages goes into the conversation. `info` is kept as JSON; `is_success` in it, a bool, is the episode's.
        """
        ...

    async def evaluate(self) -> float:
        """Return the score of the episode so far: its reward, where no judge is configured."""
        ...

    async def close(self) -> None:
        """Release it. Called once on every path, whether or not `reset` was; soon, since a run that is interrupted waits."""
        ...


class Judge(ABC):
    """Scores the episodes of a group. Runs in the rollout process; made once per process, so it bears concurrent groups.

    A class with only `compute_reward(workflow_task, workflow_output)` is accepted wherever a judge is; its `close()`, sync or
    async, is called too where it has one.
    """

    async def observe(self, episode: Episode, environment: Any) -> Mapping[str, Any]:
        """Look at the episode while its environment lives; what is returned is kept as `episode.observations`."""
        return {}

    @abstractmethod
    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        """Return one finding per *completed* episode of the group, in their order.

        Raising leaves every episode of the group without a reward; it is counted, and is never a 0.
        """

    async def close(self) -> None:
        """Release what it holds (clients, child processes); called once, when the rollouts end."""
        return


@frozen(kw_only=True)
class Tracked:
    """What a tracker made of an episode's calls."""

    samples: Sequence[Sample]
    untrained: Mapping[str, int] = field(factory=dict)
    """Sampled tokens that no sample trains, by reason code."""
    notices: Mapping[str, str] = field(factory=dict)
    """What a user should read, by what it is about: of each such thing the first text of a run is told."""


@frozen(kw_only=True)
class EpisodeIdentity:
    """What samples carry of their episode."""

    episode_id: str
    task_id: str
    repeat: int


class Tracker(Protocol):
    """Reads training samples off an episode's recorded calls. Made per episode, in the rollout process; data in, data out.

    A tracker that also manages the conversation has the two methods of `ContextPolicy`; without them a model is shown every
    message, and an environment is given every answer as it is.
    """

    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Tracked:
        """Return the samples. Each sampled token is trained at most once, and each untrained one is counted under a reason."""
        ...


@frozen(kw_only=True, eq=False)
class ContextRoom:
    """What a context policy has to work with."""

    max_prompt_tokens: int
    """Most tokens that the messages may take, rendered: the context less the longest answer."""
    count_tokens: Callable[[Sequence[Message]], int]
    """Counts the tokens of messages as the model's template renders them; an estimate where there is no tokenizer."""
    ask_model: Callable[[Sequence[Message], int], Awaitable[str]]
    """Asks the model under training, with the most tokens to answer with; the call is recorded and trained as any other."""


@runtime_checkable
class ContextPolicy(Protocol):
    """What a tracker decides when no workflow does (`rollout.use_agentscope_protocol: false`); one instance per episode."""

    async def view(self, messages: Sequence[Message], room: ContextRoom) -> Sequence[Message]:
        """Return what the model is shown of the whole conversation so far; called before each of its turns."""
        ...

    def action(self, reply: Message) -> Message:
        """Return the assistant message that the environment is given for a reply."""
        ...


@runtime_checkable
class Detector(Protocol):
    """Looks for abnormal behaviour in what a model sampled. Made once per rollout process.

    It is asked on the event loop after each call that may be trained, so it must be quick. One that raises is named, and what it
    would have found in that call is missing.
    """

    def look(self, output: Sampled) -> str | None:
        """Return the evidence, short enough to be read in a table; None when there is nothing to see."""
        ...


@frozen(kw_only=True, eq=False)
class Sampled:
    """One sampled answer, as a detector sees it."""

    call: Call
    text: str
    """What was sampled, special tokens included, without the token that ended the turn."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """The tools that the model was offered, in OpenAI's form; `call.tools` has them for the first call of a conversation only."""
    special_tokens: tuple[str, ...] = ()
    """The tokenizer's special tokens that were sampled, in order, without the one that ended the turn; those that tool calls and
    reasoning are written with are not among them."""


class Estimator(Protocol):
    """Turns rewards into advantages. Runs in the driver, on plain numpy arrays."""

    default_loss_agg_mode: ClassVar[str]
    """The aggregation that belongs to the algorithm, used when the user sets none."""

    def advantages(self, groups: Sequence[NDArray[np.float64]]) -> Sequence[NDArray[np.float64]]:
        """Return one advantage per reward, in the same shapes: a 1-D array per group of siblings."""
        ...


class Engine(Protocol):
    """Generates tokens. Lives where the rollouts run.

    Four more attributes may be there. `honours` on the class: patterns of keys that it acts on, whatever the backbone says of
    them, or a mapping from the backbone's name (`*`: any other) to such patterns. A method `report_to(say)`, called before
    `start`: it is told where to say how starting its programs comes along, as `say(text, level)`. A classmethod `lacks(options)`
    returns what it needs that is not installed or not set, or None, for backbones that take the first engine that can be used;
    `options` are as they are written. An attribute `busy_s`: the seconds so far in which at least one request was under way, for
    the metric `time/engine_s`.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do."""
        ...

    async def start(self) -> None:
        """Be ready to generate; called once in the running event loop."""
        ...

    def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the tokens of a request as they come. Closing the iterator cancels the request."""
        ...

    async def release(self, session: str) -> None:
        """Forget what is kept for a session (its KV cache)."""
        ...

    async def update_weights(self, ref: Any, version: int) -> None:
        """Serve new weights: `ref` is what the backbone that owns the engine hands over (a module, a path)."""
        ...

    async def pause(self) -> None:
        """Start no new request until `resume`."""
        ...

    async def resume(self) -> None:
        """Go on after `pause`."""
        ...

    async def close(self) -> None:
        """End, and free what was taken."""
        ...


class Logger(Protocol):
    """Writes what a run reports. Runs in the driver; one that raises is named, left out, and the run goes on."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of a step."""
        ...

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        """Write the episodes of a step."""
        ...

    def close(self) -> None:
        """Flush and end."""
        ...


@frozen(kw_only=True)
class RunInfo:
    """What a component may know of the run it is in."""

    project_name: str
    experiment_name: str
    backbone: str
    directory: Path
    """The run directory."""
    config_dir: Path
    """Where the YAML lies; relative paths in it start here."""
    seed: int
    config: Config
    user_keys: frozenset[str] = frozenset()
    """Dotted paths below `astuner` that the user set; the others hold defaults."""
    attempt: int = 1
    """Counts the starts of this run: 1, and one more for each resume. 0 where a component is tried without a run, and writes
    nothing into its directory."""
    fresh: bool = False
    """Servers that earlier runs have kept are not used; see `astuner run --fresh`."""
    native: Mapping[str, Any] = field(factory=dict)
    """The backbone's own configuration, as its alignment makes it of ours and the user's raw section; empty without alignment."""
    conf: Path | None = None
    """The YAML that the run was started with."""
    overrides: tuple[str, ...] = ()
    """The arguments of `--set` beside it."""


class EpisodeStore(Protocol):
    """Where finished episodes go, and come back from after a crash. Lives in the driver."""

    def recall(self, identity: str) -> Episode | None:
        """Return a finished episode of an earlier attempt of the run, with its verdict if it had one."""
        ...

    def add_episode(self, episode: Episode) -> None:
        """Store a finished episode, before it is judged."""
        ...

    def add_verdicts(self, group: Group) -> None:
        """Store the findings on a group."""
        ...

    def sync(self) -> None:
        """Make everything so far outlive the machine too."""
        ...


class Control(Protocol):
    """What a backbone may ask of the driver. Thread-safe; a stop or a save is obeyed at its next step boundary."""

    @property
    def stop(self) -> bool:
        """Save the state and return."""
        ...

    def take_save(self) -> bool:
        """Whether a checkpoint was asked for since the last call."""
        ...

    def on_stop(self, callback: Callable[[], object]) -> None:
        """Call back, in any thread, as soon as a stop is asked for: to cancel rollouts under way."""
        ...

    @property
    def store(self) -> EpisodeStore:
        """The run's episodes."""
        ...

    @property
    def hooks(self) -> Hooks:
        """The hooks of the driver, for backbones whose rollouts live there."""
        ...

    @property
    def resume_step(self) -> int:
        """The step of the checkpoint to go on from; 0 starts from `model.path`."""
        ...

    def notify(self, text: str, level: Literal["info", "warning"] = "warning") -> None:
        """Tell the user something, at once."""
        ...

    def progress(self, what: str, done: int, total: int) -> None:
        """Show how far something is, where there is a display."""
        ...


class TaskSource(Protocol):
    """The tasks of a run in the order in which they are trained: core's sampler, the same for all backbones."""

    @property
    def total_steps(self) -> int:
        """How many training steps the run has."""
        ...

    def batch(self, step: int, draw: int = 0) -> Sequence[Task]:
        """Return the tasks of a step (from 1); the same for the same seed, whatever came before.

        `draw` counts further batches for the same step, for resampling groups without signal.
        """
        ...

    def first(self, count: int) -> Sequence[Task]:
        """Return the first training tasks in the reader's order, at most `count`."""
        ...

    def validation(self) -> Sequence[Task]:
        """Return all validation tasks."""
        ...


class Backbone(Protocol):
    """Trains. Its class imports light; `train` runs in the driver and may start other processes.

    Every key of the schema has to be accounted for: honoured by core, by `honours` or by a row of the alignment, `inapplicable`
    or refused. More class attributes may be there: `refuses: Mapping[str, str]`, key patterns whose setting is an error, with the
    reason; `alignment: astuner.config.alignment.Alignment`, the table from our keys to a configuration of its own, which then
    comes as `run.native`; `default_engine: str | tuple[str, ...]`, what `rollout.name: auto` means to a backbone that brings no
    engine of its own: of several the first that is installed with all it needs, and for `openai` has options;
    `brings_engines: tuple[str, ...]`, the values of `rollout.name` that it serves itself, so that no engine of a plugin is made;
    `throwaway: bool`, whether its runs are for looking at alone: each lies in `EXPERIMENT.NAME` beside the experiment's
    directory, and the next one replaces it.
    """

    name: ClassVar[str]
    honours: ClassVar[Iterable[str]]
    """Key paths below `astuner` that it acts on, as shell patterns (`trainer_common.optim.*`)."""
    inapplicable: ClassVar[Mapping[str, str]]
    """Key patterns that have no meaning for it, with the reason; setting one is answered with a notice."""

    def train(self, run: RunInfo, tasks: TaskSource, recipe: Any, control: Control) -> Generator[Event]:
        """Yield reports as they happen; closing the generator ends everything under way.

        `recipe` is `astuner.rollout.recipe.Recipe`: how a rollout process makes its parts.
        """
        ...

    def evaluate(
        self, run: RunInfo, tasks: TaskSource, recipe: Any, checkpoint: Path | None, control: Control
    ) -> Generator[Event]:
        """Yield the report of one validation pass with the weights of a checkpoint, or of `model.path`."""
        ...

    def export(self, checkpoint: Path, out: Path, *, merge_lora: bool) -> None:
        """Write a checkpoint as a Hugging Face model that other tools load."""
        ...

    def close(self) -> None:
        """Release everything, also in the middle of a run."""
        ...


MakeTracker = Callable[[], Tracker]
MakeEngine = Callable[[], Engine]
MakeEnvironment = Callable[[WorkflowTask], Environment]
