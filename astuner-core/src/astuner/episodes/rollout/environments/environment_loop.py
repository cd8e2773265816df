"""The built-in workflow in which the environment leads and the model answers (`rollout.use_agentscope_protocol: false`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.contract.protocols import ContextPolicy, ContextRoom, Tuner, Workflow
from astuner.contract.schema import Message, WorkflowOutput, WorkflowTask
from astuner.episodes.rollout.environments.actions import extract_action
from astuner.episodes.rollout.environments.conversation_room import ContextLimits, TokenCounter
from astuner.episodes.rollout.environments.guarded_environment import GuardedEnvironment
from astuner.episodes.rollout.environments.loop_record import Ended, EpisodeRecord
from astuner.episodes.rollout.episode_failures import FirstMessagesTooLong

if TYPE_CHECKING:
    from astuner.settings.config.env_variables import ActionPreference


@frozen(kw_only=True)
class LoopOptions:
    """Settings of the loop."""

    name: str
    """The environment's name."""
    preference: ActionPreference
    max_steps: int
    max_env_len: int
    limits: ContextLimits
    gives_reward: bool
    """Whether the environment's score is the reward: when no judge is configured."""


class EnvironmentLoop(Workflow):
    """Plays one episode: reset, then answer and step until the environment is done, then evaluate."""

    def __init__(
        self, environment: GuardedEnvironment, options: LoopOptions, *, policy: ContextPolicy | None, counter: TokenCounter
    ) -> None:
        """Without a `policy` the model is shown every message, and the environment is given every answer."""
        self._environment, self._options, self._policy, self._counter = environment, options, policy, counter
        self._shortest: int | None = None

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play. A full context ends the episode with what was played, unless it leaves no room for a first answer."""
        environment, options = self._environment, self._options
        client = tuner.as_raw_openai_sdk_client()
        record = EpisodeRecord(options.name)
        record.messages += await environment.reset()
        ended: Ended = "max_steps"
        while record.steps < options.max_steps:
            reply = await self._ask_for_reply(client, record)
            if reply is None:
                ended = "context_full"
                break
            action = extract_action(reply if self._policy is None else self._policy.action(reply), options.preference)
            record.actions_not_found += not action.found
            step = await environment.step(action.message)
            record.add(reply, step, [await self._clip(message, record) for message in step.messages])
            if step.done:
                ended = "done"
                break
        score = await environment.evaluate()
        return record.build_output(
            ended=ended, score=score, gives_reward=options.gives_reward, messages_mended=environment.messages_mended
        )

    async def _ask_for_reply(self, client: Any, record: EpisodeRecord) -> Message | None:
        """Return the model's answer; None when the context is full and an answer was given before."""
        from openai import BadRequestError

        try:
            return await _ask(client, await self._build_view(client, record.messages), tools=list(self._environment.tools))
        except BadRequestError as error:
            if error.code != "context_length_exceeded" or not record.steps:
                raise
            return None

    async def _build_view(self, client: Any, messages: Sequence[Message]) -> Sequence[Message]:
        if self._policy is None:
            return messages
        limits, shortest = self._options.limits, self._shortest
        room = ContextRoom(
            max_prompt_tokens=limits.limit_first_view() if shortest is None else limits.limit_view(shortest),
            count_tokens=self._count_tokens,
            ask_model=lambda asked, max_tokens: _ask_text(client, asked, max_tokens),
        )
        view = await self._policy.view(tuple(messages), room)
        taken = await self._count_tokens(view)
        if shortest is None and self._counter.exact and taken > limits.max_prompt_length:
            most = limits.max_prompt_length
            at_least = "at least " if taken > self._counter.enough else ""
            raise FirstMessagesTooLong(
                f"the first messages take {at_least}{taken} tokens, more than data.max_prompt_length = {most}"
            )
        self._shortest = taken if shortest is None else min(shortest, taken)
        return view

    async def _count_tokens(self, messages: Sequence[Message]) -> int:
        return await self._counter.count_messages(messages, self._environment.tools)

    async def _clip(self, message: Message, record: EpisodeRecord) -> Message:
        clipped = await self._counter.clip(message, self._options.max_env_len)
        record.messages_clipped += clipped is not message
        return clipped


async def _ask(client: Any, messages: Sequence[Message], **more: Any) -> Message:
    given = {name: value for name, value in more.items() if value}
    completion = await client.chat.completions.create(model="astuner", messages=list(messages), **given)
    reply: dict[str, Any] = completion.choices[0].message.model_dump(exclude_none=True)
    return {"role": "assistant", "content": "", **reply}


async def _ask_text(client: Any, messages: Sequence[Message], max_tokens: int) -> str:
    return str((await _ask(client, messages, max_tokens=max_tokens))["content"])
