"""The section `rollout`: how episodes are played and sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import and_, ge, gt, le, optional

from astuner.contract.plain_values import LARGEST_REWARD, read_number
from astuner.settings.config.auxiliary_models import AuxiliaryModel
from astuner.settings.config.components import OpenSection, check_positive

SCRIPTED = "scripted"
"""The engine that answers from a script. Where no model is at hand, it is what the backbone `debug` takes for `auto`."""


def _check_top_k(_: Any, attribute: Attribute[Any], value: int) -> None:
    if value != -1 and value < 1:
        raise ValueError(f"'{attribute.name}' must be -1 (the whole vocabulary) or at least 1: {value}")


def _check_count(_: Any, attribute: Attribute[Any], value: int | str) -> None:
    if value != "auto" and (not isinstance(value, int) or value < 1):
        raise ValueError(f"'{attribute.name}' must be 'auto' or at least 1: {value}")


@frozen(kw_only=True)
class MultiTurn:
    """Limits on episodes of several turns."""

    max_sample_per_task: int = field(default=30, validator=ge(1))
    """Most training samples that are taken from one episode; from more, a random choice is taken."""
    max_steps: int = field(default=30, validator=ge(1))
    """Most model calls of each trained agent in one episode; one call more ends it with the failure `max_steps`. Calls of
    frozen agents are not counted: `rollout.episode_timeout_s` limits them. If an environment leads, most of its steps."""
    expected_steps: int = field(default=1, validator=ge(1))
    """Samples that an episode is expected to give; sizes the training batch where a trainer needs to know it beforehand."""


def _check_reward(_: Any, attribute: Attribute[Any], value: float | None) -> None:
    if value is not None and read_number(value, largest=LARGEST_REWARD) is None:
        raise ValueError(
            f"'{attribute.name}' must be a finite number between -{LARGEST_REWARD:g} and {LARGEST_REWARD:g}: {value}"
        )


@frozen(kw_only=True)
class FailureRewards:
    """Rewards of episodes that fail for a reason that the model can cause.

    With a number, the episode has this reward and its samples are trained; with null, it is left out of its group, and counted.
    """

    context_full: float | None = field(default=0.0, validator=_check_reward)
    """The messages left no room in the context for another answer."""
    max_steps: float | None = field(default=0.0, validator=_check_reward)
    """A trained agent asked for more than `rollout.multi_turn.max_steps` calls."""
    timeout: float | None = field(default=None, validator=_check_reward)
    """The episode took longer than `rollout.episode_timeout_s`, or one of its calls longer than `rollout.llm_timeout_s`."""
    workflow_error: float | None = field(default=None, validator=_check_reward)
    """The workflow raised an error, or the environment while it acted or scored."""
    judge_error: float | None = field(default=None, validator=_check_reward)
    """The judge's own code raised on the answer, took too long, abstained, or returned no reward. Not its services."""


@frozen(kw_only=True)
class ValKwargs:
    """Sampling of validation episodes. How many per task: `trainer_common.val_pass_n`."""

    temperature: float = field(default=0.0, validator=ge(0))
    """0 is greedy."""
    top_k: int = field(default=-1, validator=_check_top_k)
    """Most likely tokens that are sampled from; -1 is the whole vocabulary."""
    top_p: float = field(default=1.0, validator=and_(gt(0), le(1)))
    """Smallest probability mass that is sampled from; 1 is all of it."""
    do_sample: bool = False
    """False is greedy, whatever the temperature: what is most likely, which the samples of training may rarely be."""

    @property
    def greedy(self) -> bool:
        """Whether every sample of a task comes out the same."""
        return not self.do_sample or self.temperature == 0


@frozen(kw_only=True)
class Rollout(OpenSection):
    """How episodes are played and sampled."""

    use_agentscope_protocol: bool = True
    """Play the user's workflow; False lets an environment (`environment.environment_type`) lead and the model answer."""
    user_workflow: str | None = None
    """The workflow: `package.module->Class`, `package.module:Class` or `./file.py:Class`."""
    auxiliary_models: Mapping[str, AuxiliaryModel] = field(factory=dict)
    """Models that a workflow function and a judge function, as AgentScope's `tune()` takes them, get as `auxiliary_models`, by
    name; other workflows get them from `tuner.as_agentscope_auxiliary_models()`."""
    agentscope_disable_toolcalls: bool = False
    """Take the tools out of every call."""
    max_env_worker: int = field(default=128, validator=ge(1))
    """Episodes that are played at the same time."""
    players: int | Literal["auto"] = field(default="auto", validator=_check_count)
    """Processes that play the episodes, each with its own event loop, gateway and judges and a share of the groups; with Ray,
    spread over the nodes. 1 plays in the run's own process; more come with a package, which is named where it is missing.
    `auto` is 1 unless there are many concurrent episodes, enough cores, and an engine that other processes reach directly."""
    gamma: float = field(default=1.0, validator=and_(ge(0), le(1)))
    """Discount from step to step of an episode; experimental."""
    compute_madness_checklist: tuple[str, ...] = ()
    """Detectors of abnormal behaviour that watch the calls of trained agents, by name; `astuner plugin list` shows them."""
    agent_madness_termination: bool = True
    """End an episode as soon as a detector finds something; False plays it to its end. Its reward is `agent_madness_reward`
    either way, and what was sampled is trained with it."""
    agent_madness_reward: float = field(default=-1.0, validator=_check_reward)
    """Reward of an episode in which a detector finds something, instead of the judge's or the workflow's."""
    detectors: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    """Options of the detectors that are switched on, by name."""
    max_response_length_in_one_turn: int = field(default=4096, validator=ge(1))
    """Most tokens sampled in one call."""
    max_model_len: int = field(default=18000, validator=ge(1))
    """Most tokens in the context: prompt and answer together."""
    multi_turn: MultiTurn = field(factory=MultiTurn)
    tensor_model_parallel_size: int = field(default=1, validator=ge(1))
    """GPUs that one inference engine is spread over."""
    n_vllm_engine: int = field(default=2, validator=ge(1))
    """How many inference engines: servers of one engine, or those that a backbone places itself."""
    max_num_seqs: int | Literal["auto"] = field(default="auto", validator=_check_count)
    """Sequences that one inference engine works on at the same time. `auto` is 10 on a CPU; on a GPU it is this engine's share of
    `max_env_worker`, but not more than 256. An engine in the trainer's process takes `max_env_worker`."""
    name: str = "auto"
    """The inference engine; `auto` is the backbone's own choice."""
    num_repeat: int = field(default=4, validator=ge(1))
    """Episodes per task: the size of a group."""
    temperature: float = field(default=0.9, validator=ge(0))
    """0 is greedy."""
    top_p: float = field(default=1.0, validator=and_(gt(0), le(1)))
    """Smallest probability mass that is sampled from; 1 is all of it."""
    top_k: int = field(default=-1, validator=_check_top_k)
    """-1 is the whole vocabulary."""
    constraints: Literal["ignore", "enforce"] = "ignore"
    """What `response_format` and a required tool call do to calls of trained agents, on engines that can constrain answers.
    `ignore`: the answer is sampled freely and trained, and the agent checks its form. `enforce`: the answer has the form and is
    not trained, since it does not come from the policy alone. Calls of frozen agents are constrained wherever the engine can."""
    val_kwargs: ValKwargs = field(factory=ValKwargs)
    seed: int | None = field(default=None, validator=optional(ge(0)))
    """Seed of the sampling only; the run's seed when not given."""
    isolation: Literal["async", "thread", "process"] = "async"
    """Where workflows run: all in one event loop, or each in a separate thread or process, for those that block. A workflow
    whose `execute` is a plain `def` runs in a thread where others run in the loop."""
    episode_timeout_s: float | None = field(default=1800.0, validator=check_positive)
    """Longest an episode may take; null sets no limit."""
    llm_timeout_s: float | None = field(default=600.0, validator=check_positive)
    """Longest one model call may take; null sets no limit."""
    max_retries: int = field(default=2, validator=ge(0))
    """How often an episode is played again after a failure that the model did not cause: its environment, the engine, a
    connection or a service failed. Failures that the model can cause are final; `failure_rewards` says what they are worth."""
    failure_rewards: FailureRewards = field(factory=FailureRewards)
    failure_budget: float = field(default=0.5, validator=and_(ge(0), le(1)))
    """Share of the episodes of a step that may end without a reward before the run ends, with the reasons counted."""
