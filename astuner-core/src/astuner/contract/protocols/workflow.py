"""A user's agent, its environment, and their access to the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from attrs import field, frozen

from astuner.contract.protocols.traits import FLAG, promise, promise_attribute
from astuner.contract.schema import Message, WorkflowOutput, WorkflowTask


class ChatModel(Protocol):
    """Where a framework finds the model: any OpenAI-compatible client takes these three."""

    base_url: str
    api_key: str
    model: str

    @property
    def anthropic_base_url(self) -> str:
        """The base URL for Anthropic's SDK, which adds `/v1` itself; the key is the same."""


class Tuner(Protocol):
    """A workflow's access to the model under training. Lives in the rollout process, one per episode."""

    def as_oai_baseurl_apikey(self, agent_name: str = "agent", target_tag: str | None = None) -> ChatModel:
        """Return `.base_url`, `.api_key` and `.model`, for any framework in any process that reaches the gateway."""

    def as_raw_openai_sdk_client(self, agent_name: str = "agent", target_tag: str | None = None, **kwargs: Any) -> Any:
        """Return an `openai.AsyncOpenAI` client that skips the socket. Its model name is ignored: any will do."""

    def as_raw_anthropic_sdk_client(self, agent_name: str = "agent", target_tag: str | None = None, **kwargs: Any) -> Any:
        """Return an `anthropic.AsyncAnthropic` client that skips the socket, if Anthropic's SDK is installed."""

    def as_agentscope_model(
        self, agent_name: str = "agent", target_tag: str | None = None, debug_model: Any = None, **kwargs: Any
    ) -> Any:
        """Return a chat model of the installed AgentScope; `debug_model` replaces it if the agent is not trained."""

    def as_agentscope_auxiliary_models(self) -> dict[str, Any]:
        """Return a chat model of the installed AgentScope for each entry of `rollout.auxiliary_models`; none of them streams."""


@frozen(kw_only=True)
class WorkflowTraits:
    """How a workflow class is made. The method that a flag names is described with it."""

    runs_in_sandboxes: bool = promise("with_sandboxes")
    """Classmethod `with_sandboxes(run_info, sandboxes: Sandboxes) -> Workflow`: make the workflow of an episode, for an agent
    that is a program; called once before the first episode too, to raise what is missing. It is played in the rollout process:
    `rollout.isolation: process` is refused."""
    checks_config: bool = promise("find_problems")
    """Classmethod `find_problems(config: Config, config_dir: Path) -> Iterable[Problem]`: yield what keeps it from being played
    as the YAML says, with keys such as `astuner.agent.command`; called when a run is planned."""
    adapts: bool = promise("as_workflow")
    """Classmethod `as_workflow() -> type[Workflow]`: return the class that plays it in its place, for an agent that is written
    for another library and has its own idea of a task and of a tuner."""


class Workflow(ABC):
    """A user's agent: a new instance for each episode, run in the rollout process (see `rollout.isolation`)."""

    trainable_targets: ClassVar[Sequence[str] | None] = None
    """Target tags that are trained; None trains every call."""

    @abstractmethod
    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play one episode. Any exception ends this episode only, with its reason recorded.

        A plain `def execute` is called in a thread of the episode's own.
        """


@frozen(kw_only=True)
class EnvironmentTraits:
    """What an environment offers a model and a judge."""

    offers_tools: bool = promise_attribute("tools")
    """`tools: Sequence[Mapping]`: the tools that the model may call now, in OpenAI's form; read before each answer."""
    has_sparse_score: bool = field(default=False, validator=FLAG)
    """Whether `evaluate(sparse=True)` asks only for right or wrong, apart from the score of `evaluate()`."""


@runtime_checkable
class Environment(Protocol):
    """A gym-like environment of one episode. Runs in the rollout process, or is a client of a server.

    It is made for each episode, by the rule of all components with the episode's task before the other arguments:
    `cls(workflow_task)`, `cls(workflow_task, options)` or `from_run(workflow_task, options, run_info)`. Making one is cheap;
    `reset` starts what it needs. With `rollout.isolation: thread` it lives in its own thread and may block. Its class may have
    `traits` (`EnvironmentTraits`).
    """

    async def reset(self) -> Sequence[Message]:
        """Return the first messages, in OpenAI's form."""

    async def step(self, action: Message) -> tuple[Sequence[Message], float, bool, Mapping[str, Any]]:
        """Return (messages, reward, done, info) after an assistant message, which may hold `tool_calls`.

        Any number of messages goes into the conversation. `info` is stored as JSON; `is_success` in it, a bool, is the episode's.
        """

    async def evaluate(self) -> float:
        """Return the score of the episode so far: its reward, if no judge is configured."""

    async def close(self) -> None:
        """Release everything, quickly, since an interrupted run waits. Called once on every path, with or without `reset`."""


MakeEnvironment = Callable[[WorkflowTask], Environment]
