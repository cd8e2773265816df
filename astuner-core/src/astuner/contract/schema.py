"""The frozen data that travels between components, processes and runs.

Nothing here has behaviour beyond small derived values: a worker, a judge and a trainer see the same records.
Token ids are `int32`, log-probabilities natural logs in `float32`; both are 1-D numpy arrays of equal length where paired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from attrs import evolve, field, frozen

from astuner.contract.plain_values import mend_message, mend_texts
from astuner.contract.verdicts import Failure as Failure
from astuner.contract.verdicts import Finding as Finding
from astuner.contract.verdicts import Unjudged as Unjudged
from astuner.contract.verdicts import Verdict as Verdict
from astuner.contract.verdicts import to_mapping

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.int32]
    Floats = NDArray[np.float32]
    Mask = NDArray[np.bool_]

Message = Mapping[str, Any]
"""One chat message in OpenAI's JSON form: `role`, `content`, and where they apply `tool_calls`, `tool_call_id`, `name`."""

Split = Literal["train", "validation"]

GREEDY = -1
"""The `repeat` of the sibling that is played at temperature 0 (`EstimatorTraits.wants_greedy`)."""


def _to_messages(value: Sequence[Message] | None) -> tuple[Message, ...]:
    return tuple(value or ())


def _to_recorded(value: Sequence[Message]) -> tuple[Message, ...]:
    # A model may sample half an emoji, as an escape in the arguments of a tool call.
    messages = tuple(value)
    return messages if mend_texts(messages) is messages else tuple(map(mend_texts, messages))


@frozen
class Task:
    """One task as a reader yields it."""

    main_query: str = ""
    """The question: the text of the last message of the user."""
    init_messages: tuple[Message, ...] = field(default=(), converter=_to_messages)
    """The messages before it; empty for a bare query."""
    task_id: str = ""
    """Unique within a split; readers derive it from the content if the data has none."""
    env_type: str = "no_env"
    metadata: Mapping[str, Any] = field(factory=dict, converter=to_mapping)
    """All other fields of the row, for example `answer`. JSON values only: it crosses processes and is stored."""
    columns: Mapping[str, str] = field(factory=dict, converter=to_mapping, eq=False, repr=False)
    """Where the value of a column is, if not in `metadata` under its own name; `astuner.shared.tabular.original_row` reads it."""

    @property
    def messages(self) -> list[Message]:
        """The conversation that an agent starts from: `init_messages`, then the query, unless it ends them already."""
        asked = {"role": "user", "content": self.main_query}
        return [*self.init_messages, *([asked] if self.main_query and asked not in self.init_messages[-1:] else ())]


@frozen
class WorkflowTask:
    """The input of one episode of a workflow. The runner fills in everything but `task`."""

    task: Task
    task_id: str = ""
    env_type: str = "no_env"
    gym_env: Any = None
    """The episode's environment (`astuner.contract.protocols.Environment`), when the task has one; core closes it."""
    episode_id: str = ""
    repeat: int = 0
    """Position among the siblings of the group, from 0; `GREEDY` for the one that is only compared with."""
    step: int = 0
    split: Split = "train"
    attempt: int = 0
    """0 for the first try, counting up with each retry."""
    settings: Mapping[str, Any] = field(factory=dict, converter=to_mapping)
    """The section `workflow` of the configuration, for the workflow; empty where a judge reads it."""


@frozen
class WorkflowOutput:
    """The result of a workflow. A reward given here takes precedence over the judge."""

    reward: float | Mapping[str, float] | None = None
    """A float for the episode, or a mapping from agent names. In a mapping `"*"` is the reward of the episode and of agents
    not named; if missing, the mean of the values."""
    is_success: bool | None = None
    metadata: Mapping[str, Any] = field(factory=dict, converter=to_mapping)
    """For the judge, for example `final_answer`. JSON values only."""
    log_metrics: Mapping[str, float] = field(factory=dict, converter=to_mapping)
    """Numbers averaged over episodes and logged as `workflow/<name>`."""
    response: Any = field(default=None, eq=False, repr=False)
    """What the agent answered, as an object: a judge `judge(task, response)` gets it as it is. It stays in this process: the
    store, and other processes, keep an AgentScope message or a JSON value of it in `metadata`, and of anything else its text."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the response behind: an agent may answer with anything."""
        return type(self), (self.reward, self.is_success, self.metadata, self.log_metrics)


@frozen(kw_only=True)
class Sampling:
    """The distribution a call is sampled from, and when it ends."""

    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = -1
    """-1 is the whole vocabulary."""
    max_tokens: int = 1024
    stop_token_ids: tuple[int, ...] = ()
    """The sampled stop token is part of the output."""
    seed: int = 0
    """Keys the random numbers of this request, which depend on nothing else (64 bits)."""
    top_logprobs: int = 0


@frozen(kw_only=True)
class Request:
    """One generation: token ids in."""

    id: str
    session: str
    """Calls of one agent in one episode; an engine keeps its KV cache between them."""
    prompt_ids: Sequence[int]
    sampling: Sampling
    constraint: Mapping[str, Any] | None = None
    """A grammar or schema, for engines whose capabilities say `constrained`."""
    stream: bool = True
    """Whether a client reads the tokens as they arrive; False lets an engine return larger chunks."""
    target_tag: str = ""
    """Of the call, by which an engine that serves several models chooses one."""


FinishReason = Literal["stop", "length", "abort"]


@frozen(kw_only=True)
class Chunk:
    """Some generated tokens: token ids out."""

    ids: Sequence[int]
    logprobs: Sequence[float]
    """Of the sampling distribution, one per id."""
    weight_version: int = 0
    finish_reason: FinishReason | None = None
    """Set on the last chunk of a request."""
    top_logprobs: Sequence[Mapping[int, float]] = ()


@frozen(kw_only=True)
class Capabilities:
    """What an engine can do; the gateway and the config check ask before anything is sent."""

    token_ids: bool = True
    """Ids in and out. A chat-only API has none, so nothing is trained through it."""
    logprobs: bool = True
    """Of the sampling distribution. Training needs them."""
    weight_updates: bool = False
    several_models: bool = False
    """`update_weights` takes a mapping from target tags, with `""` for all others, and requests name theirs."""
    constrained: bool = False
    """Answers can be held to a grammar."""
    constraints: tuple[str, ...] = ("json_object", "json_schema", "tool_call")
    """The supported kinds of grammar: `Request.constraint["type"]`."""
    max_model_len: int | None = None
    reproducible: bool = False
    """The same request gives bit-identical results whatever else is in the batch."""

    def constrains(self, constraint: Mapping[str, Any]) -> bool:
        """Whether answers can be held to this grammar."""
        return self.constrained and constraint.get("type") in self.constraints


@frozen(kw_only=True)
class WeightSpan:
    """From which position of a call's output on which version of the weights sampled."""

    start: int
    version: int


@frozen(kw_only=True, eq=False)
class Call:
    """One recorded model call, which stores only the ids that it added.

    Its full stream, which the token tree shares, is `stream(parent)[:kept] + prompt_ids + output_ids`.
    """

    index: int
    """Position in the episode, in the order in which calls began."""
    agent: str
    target_tag: str
    parent: int | None
    """Index of the call whose stream this one continues."""
    kept: int
    """How many ids of the parent's stream are its prefix: the whole of it, or up to a branching point."""
    prompt_ids: Ids
    """The ids after that prefix that were fed, not sampled."""
    output_ids: Ids
    logprobs: Floats
    finish_reason: str
    """`stop`, `length`, `context`, `abort`: four different ends."""
    weights: tuple[WeightSpan, ...] = ()
    untrained: str | None = None
    """Reason code, when no token of this call may be trained: `frozen_agent`, `constrained`, `aborted`…"""
    messages: tuple[Message, ...] = field(default=(), converter=_to_recorded)
    """The messages of the request that the parent's did not have, and the tools when there is no parent."""
    reply: Message = field(factory=dict, converter=mend_message)
    tools: tuple[Mapping[str, Any], ...] = field(default=(), converter=_to_recorded)
    temperature: float = 1.0
    latency_s: float = 0.0


@frozen(kw_only=True, eq=False)
class Sample:
    """One row for a trainer: a token sequence in which each trained id has, id for id, the prefix it was sampled under."""

    episode_id: str
    task_id: str
    repeat: int
    agent: str
    ids: Ids
    """[n]"""
    mask: Mask
    """[n], true where the id is trained."""
    logprobs: Floats
    """[n], of the sampler, at trained positions; 0 elsewhere."""
    calls: tuple[int, ...]
    """The calls whose tokens are trained here."""
    target_tag: str = ""
    """Of these calls."""

    @property
    def trained(self) -> int:
        """Number of trained tokens."""
        return int(self.mask.sum())


@frozen(kw_only=True, eq=False, repr=False)
class Episode:
    """One run of the workflow on one task, with everything that was recorded of it."""

    id: str
    task: Task
    step: int
    repeat: int
    split: Split = "train"
    output: WorkflowOutput | None = None
    calls: tuple[Call, ...] = ()
    samples: tuple[Sample, ...] = ()
    untrained: Mapping[str, int] = field(factory=dict)
    """Sampled tokens that no sample trains, by reason code."""
    failures: tuple[Failure, ...] = ()
    """One per failed attempt, the last one final when `output` is None. Calls and samples are those of the last attempt."""
    observations: Mapping[str, Any] = field(factory=dict)
    """What the judge observed of the environment before it was closed. JSON values only."""
    verdict: Verdict | Unjudged | None = None
    findings: Mapping[str, tuple[Finding, ...]] = field(factory=dict)
    """What each detector of abnormal behaviour found, by its name; empty for one that found nothing."""
    duration_s: float = 0.0

    def __repr__(self) -> str:
        """Describe it in a line: its arrays would fill a screen."""
        worth = "no reward" if self.reward is None else f"reward {self.reward:g}"
        sampled = sum(len(call.output_ids) for call in self.calls)
        failed = "" if self.completed or not self.failures else f", {self.failures[-1].reason}"
        return f"<Episode {self.id}: {len(self.calls)} calls, {sampled} tokens sampled, {worth}{failed}>"

    def _repr_html_(self) -> str:
        """Return what was said, for notebooks; nothing in it is markup."""
        said = (message for call in self.calls for message in (*call.messages, call.reply))
        lines = (f"{one.get('role')}: {one.get('content') or ''}{one.get('tool_calls') or ''}" for one in said)
        text = "\n".join((repr(self), *lines))
        return f"<pre>{escape(text)}</pre>"

    @property
    def completed(self) -> bool:
        """Whether the workflow finished."""
        return self.output is not None

    @property
    def abnormal(self) -> bool:
        """Whether a detector found something; the reward is then `rollout.agent_madness_reward`, and the judge is skipped."""
        return any(self.findings.values())

    @property
    def reward(self) -> float | None:
        """The reward of the episode; None if the judge or the episode failed and `rollout.failure_rewards` gives it none."""
        return None if self.verdict is None else self.verdict.reward

    @property
    def is_success(self) -> bool | None:
        """The verdict's success; None if unknown."""
        return None if self.verdict is None else self.verdict.is_success

    def reward_of(self, agent: str) -> float | None:
        """Return the reward of one agent: its own if the verdict names it, else the shared one."""
        if not isinstance(self.verdict, Verdict):
            return self.reward
        return float((self.verdict.rewards or {}).get(agent, self.verdict.reward))

    def with_verdict(self, verdict: Verdict | Unjudged) -> Episode:
        """Return this episode with a verdict."""
        return evolve(self, verdict=verdict)


@frozen(kw_only=True, eq=False)
class Group:
    """All repeats of a task in one step, failed ones included, ordered by repeat."""

    task: Task
    step: int
    split: Split
    episodes: tuple[Episode, ...]
    greedy: Episode | None = None
    """The sibling at temperature 0 that an estimator compares with: judged and stored, never trained, and none of `episodes`."""

    @property
    def played(self) -> tuple[Episode, ...]:
        """All of its episodes, the greedy one last."""
        return self.episodes if self.greedy is None else (*self.episodes, self.greedy)

    def with_played(self, episodes: Iterable[Episode]) -> Group:
        """Return this group with other episodes, of which one may be greedy."""
        found = tuple(episodes)
        greedy = next((one for one in found if one.repeat == GREEDY), None)
        return evolve(self, episodes=tuple(one for one in found if one.repeat != GREEDY), greedy=greedy)

    @property
    def key(self) -> str:
        """Identity of the group within a run."""
        return f"{self.split}/{self.step}/{self.task.task_id}"


@frozen(kw_only=True, eq=False)
class StepReport:
    """One finished training step."""

    step: int
    """Counts from 1."""
    metrics: Mapping[str, float]
    groups: tuple[Group, ...] = ()
    clock: str = "trainer"
    """Whose step it is; a sampler that runs next to the trainer has a clock of its own."""


@frozen(kw_only=True, eq=False)
class ValidationReport:
    """One validation pass, after `step` training steps."""

    step: int
    metrics: Mapping[str, float]
    groups: tuple[Group, ...] = ()


@frozen(kw_only=True)
class CheckpointSaved:
    """A checkpoint is complete on disk."""

    step: int
    path: str


@frozen(kw_only=True)
class Notice:
    """A message that a user should read once."""

    text: str
    level: Literal["info", "warning"] = "info"


Event = StepReport | ValidationReport | CheckpointSaved | Notice
