"""The environment `openenv`: an episode played in a session of an OpenEnv server, over its WebSocket."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import gt, matches_re, min_len, optional

from astuner.contract.errors import DataError
from astuner.contract.schema import Message, WorkflowTask
from astuner_env_service.client.token import read_token
from astuner_env_service.session import OpenEnvFailed, Session

NAME = "openenv"
FIELD: Any = optional(min_len(1))
URL = matches_re(r"(https?|wss?)://[^\s/]+.*")


class OpenEnvEnvironment:
    """OpenEnv types actions and observations per environment: the options name the text field of each."""

    @frozen(kw_only=True)
    class Options:
        """Options of the environment `openenv`."""

        env_url: str = field(validator=URL)
        """Address of the server; the session is opened at its `/ws`."""
        action_field: str | None = field(default="message", validator=FIELD)
        """The field of an action that takes the model's text; null if the answer is the whole action, a JSON object."""
        observation_field: str | None = field(default=None, validator=FIELD)
        """The field of an observation that is shown to the model; null shows all of it, as JSON."""
        instructions: str | None = None
        """A system message with the model's task; OpenEnv's observations seldom explain it."""
        reset: Mapping[str, Any] = field(factory=dict)
        """Arguments of a session's reset; a task's `metadata.openenv` overrides them. By default a seed from the task's id."""
        score: Literal["sum", "last"] = "sum"
        """Which rewards make up the score."""
        heartbeat_s: float = field(default=60.0, validator=gt(0))
        """Idle time after which the session's state is requested, so that the session does not count as idle."""
        timeout_s: float = field(default=300.0, validator=gt(0))
        """Longest wait for one answer of the server, and for a place in it."""

    def __init__(self, workflow_task: WorkflowTask, options: Options) -> None:
        self._task, self._options = workflow_task.task, options
        self._session = Session(
            _to_websocket_url(options.env_url),
            token=read_token(options.env_url, (options.env_url,)),
            timeout_s=options.timeout_s,
            heartbeat_s=options.heartbeat_s,
        )
        self._rewards: list[float] = []

    async def reset(self) -> Sequence[Message]:
        """Open a session and start."""
        own = self._task.metadata.get(NAME, {})
        if not isinstance(own, Mapping):
            raise DataError(f"task {self._task.task_id!r}: metadata['{NAME}'] is {own!r:.120}; an object is expected")
        seed = zlib.crc32(self._task.task_id.encode())
        found = await self._session.open({"seed": seed, **self._options.reset, **own})
        said = [{"role": "user", "content": self._render(found)}]
        if self._task.main_query:
            said.insert(0, {"role": "user", "content": self._task.main_query})
        return [{"role": "system", "content": self._options.instructions}, *said] if self._options.instructions else said

    async def step(self, action: Message) -> tuple[Sequence[Message], float, bool, Mapping[str, Any]]:
        """Act; an answer that is not an action gets a message, and costs a step."""
        text = str(action.get("content") or "")
        try:
            given = {self._options.action_field: text} if self._options.action_field else _parse_object(text)
            found = await self._session.ask("step", given)
        except OpenEnvFailed as error:
            # The only server error about the model's answer.
            if error.code != "VALIDATION_ERROR":
                raise
            return [{"role": "user", "content": f"[error of the environment] {error.said}"}], 0.0, False, {"is_action": False}
        reward = float(found.get("reward") or 0.0)
        self._rewards.append(reward)
        info = {"observation": found.get("observation")}
        return [{"role": "user", "content": self._render(found)}], reward, bool(found.get("done")), info

    async def evaluate(self) -> float:
        """Return the sum of the rewards, or the last one."""
        return sum(self._rewards) if self._options.score == "sum" else (self._rewards[-1] if self._rewards else 0.0)

    async def close(self) -> None:
        """Close the session, with which the server ends the environment."""
        await self._session.close()

    def _render(self, found: Mapping[str, Any]) -> str:
        observation, name = found.get("observation"), self._options.observation_field
        if name is None:
            return observation if isinstance(observation, str) else json.dumps(observation, ensure_ascii=False)
        if not isinstance(observation, Mapping) or name not in observation:
            there = ", ".join(observation) if isinstance(observation, Mapping) else repr(observation)[:120]
            raise DataError(f"astuner.environment.{NAME}.observation_field: an observation has no {name!r}; it has: {there}")
        value = observation[name]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parse_object(text: str) -> Mapping[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OpenEnvFailed(f"the action is not valid JSON: {error}", code="VALIDATION_ERROR") from error
    if not isinstance(given, dict):
        raise OpenEnvFailed("the action is not a JSON object", code="VALIDATION_ERROR")
    return given


def _to_websocket_url(url: str) -> str:
    address = url.rstrip("/").replace("http://", "ws://", 1).replace("https://", "wss://", 1)
    return address if address.endswith("/ws") else f"{address}/ws"
