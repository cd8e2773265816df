"""The environment `env_service`: an episode played in an instance of a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attrs import field, frozen
from attrs.validators import ge, gt, min_len, optional

from astuner.contract.errors import DataError
from astuner.contract.protocols import EnvironmentTraits, RunInfo
from astuner.contract.schema import Message, WorkflowTask
from astuner.settings.plugins.options import build_options
from astuner_env_service.client import EnvServiceClient, EnvServiceFailed, Instance, Patience
from astuner_env_service.reader import EnvServiceReader
from astuner_env_service.section import KEY, READER, URL, EnvServiceOptions


class EnvServiceEnvironment:
    """Passes on every message, reward and info of the server; tools come from `tools` in its info, if present."""

    traits = EnvironmentTraits(offers_tools=True)

    has_sparse_score: ClassVar[bool] = True

    @frozen(kw_only=True)
    class Options:
        """Options of the environment `env_service`. Unset ones come from the task, or from `task_reader.env_service`."""

        env_url: str | None = field(default=None, validator=optional(URL))
        """Address of the service."""
        env_type: str | None = field(default=None, validator=optional(min_len(1)))
        """The environment's name in the service."""
        params: Mapping[str, Any] = field(factory=dict)
        """Parameters for the server when an instance is made; they override those of the task and of the reader."""
        sparse: bool = False
        """Whether the score is only right or wrong, if the environment can give it."""
        heartbeat_s: float = field(default=300.0, validator=gt(0))
        """Idle time after which a heartbeat keeps the instance alive; most servers release it after an hour."""
        timeout_s: float = field(default=300.0, validator=gt(0))
        """Longest wait for one answer of the server."""
        max_retries: int = field(default=8, validator=ge(0))
        """How often a request is retried, if that is safe, with growing pauses."""
        place_timeout_s: float = field(default=300.0, validator=ge(0))
        """How long an episode waits at its start for a server that is down or full; this does not count as retries."""

    def __init__(self, workflow_task: WorkflowTask, options: Options, section: EnvServiceOptions) -> None:
        told = _read_server_keys(workflow_task)
        url = options.env_url or told.get("env_url") or section.env_url
        trusted = (options.env_url,) if options.env_url else ()
        self._client = EnvServiceClient(
            url,
            token=section.token(url, *trusted),
            patience=Patience(
                timeout_s=options.timeout_s, max_retries=options.max_retries, place_timeout_s=options.place_timeout_s
            ),
        )
        self._instance = Instance(
            self._client,
            env_type=options.env_type or told.get("env_type") or section.env_type,
            task_id=workflow_task.task.task_id,
            params={**section.params, **told.get("params", {}), **options.params},
            heartbeat_s=options.heartbeat_s,
        )
        self._sparse = options.sparse
        self.tools: Sequence[Mapping[str, Any]] = ()

    @classmethod
    def from_run(cls, workflow_task: WorkflowTask, options: Options, run_info: RunInfo) -> EnvServiceEnvironment:
        """Make the environment of an episode, without a request yet."""
        section: EnvServiceOptions = build_options(EnvServiceReader, run_info.config.task_reader.get_options(READER), key=KEY)
        return cls(workflow_task, options, section)

    async def reset(self) -> Sequence[Message]:
        """Create the instance, and return its first messages."""
        state = await self._instance.create()
        self._offer(state.info)
        return state.messages

    async def step(self, action: Message) -> tuple[Sequence[Message], float, bool, Mapping[str, Any]]:
        """Take a step in the server."""
        state = await self._instance.step(action)
        self._offer(state.info)
        return state.messages, state.reward, state.is_terminated, state.info

    async def evaluate(self, sparse: bool | None = None) -> float:
        """Return the server's score; None takes the option `sparse`."""
        return await self._instance.evaluate(sparse=self._sparse if sparse is None else sparse)

    async def close(self) -> None:
        """Release the instance. If that fails, the server does so once it has been idle for long enough."""
        try:
            await self._instance.release()
        except EnvServiceFailed as error:
            raise EnvServiceFailed(
                f"{error}. The server keeps instance {self._instance.id} until it is idle for too long"
            ) from error
        finally:
            await self._client.close()

    def _offer(self, info: Mapping[str, Any]) -> None:
        tools = info.get("tools")
        if isinstance(tools, list):
            self.tools = tools


def _read_server_keys(workflow_task: WorkflowTask) -> Mapping[str, Any]:
    """Return what the task itself says about its server."""
    told: Any = workflow_task.task.metadata.get(READER, {})
    wrong = not isinstance(told, Mapping) or not isinstance(told.get("params", {}), Mapping)
    if wrong or any(not isinstance(told.get(key, ""), str) for key in ("env_url", "env_type")):
        raise DataError(
            f"task {workflow_task.task.task_id!r}: metadata[{READER!r}] is {told!r:.200}; an object is expected with any of "
            "`env_url` and `env_type`, texts, and `params`, an object"
        )
    return dict(told)
