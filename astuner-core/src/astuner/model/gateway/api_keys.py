"""Who calls: API keys, which hold the secret of an episode, an agent and its target, and targets that requests name."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import lru_cache
from secrets import token_urlsafe
from typing import Any

from attrs import evolve, frozen

from astuner.model.rendering.errors import ApiError

TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""A target tag in the name of a model."""


@frozen
class Caller:
    """The owner of a key."""

    secret: str
    agent: str
    target_tag: str
    key_target: str | None = None
    """The target tag of the key, if the request names another one."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that must all be trained for a call to be: a request cannot train what its key does not."""
        return (self.target_tag,) if self.key_target is None else (self.key_target, self.target_tag)

    @property
    def name(self) -> str:
        """The agent as notices show it, as `agent@side` if the request names a target."""
        return self.agent if self.key_target is None else f"{self.agent}@{self.target_tag}"

    def retarget(self, tag: str | None) -> Caller:
        """Return the caller of a request that names this target tag; None if it names no other than its key's."""
        return self if tag in (None, self.target_tag) else evolve(self, target_tag=tag, key_target=self.target_tag)


def new_secret() -> str:
    """Make the secret of one episode."""
    return f"sk-astuner-{token_urlsafe(24)}"


def mint(secret: str, agent: str, target_tag: str | None) -> str:
    """Make the key of an agent; without a target tag the agent's name is its target."""
    who = json.dumps([agent, target_tag or agent]).encode()
    return f"{secret}.{urlsafe_b64encode(who).decode().rstrip('=')}"


def read_key(key: str) -> Caller | None:
    """Parse a key; None if it is not one of our keys."""
    secret, dot, who = key.partition(".")
    try:
        agent, target = _read_agent(who)
    except (ValueError, TypeError, AttributeError, RecursionError):
        # Any other text from a client: not a list of two encodable strings.
        return None
    return Caller(secret, agent, target) if dot else None


@lru_cache(maxsize=64)
def _read_agent(who: str) -> tuple[str, str]:
    agent, target = json.loads(urlsafe_b64decode(who + "=" * (-len(who) % 4)))
    agent.encode()
    target.encode()
    return agent, target


def read_target_tag(model: Any, served: str) -> str | None:
    """Return the target tag of a model called `SERVED@TAG`; None for any name without `@`, and for the served one.

    Raises ApiError (404) for every other name with `@`, so that no misspelt one is trained.
    """
    if not isinstance(model, str) or "@" not in model or model == served:
        return None
    name, _, tag = model.rpartition("@")
    if name == served and TAG.fullmatch(tag):
        return tag
    shown = model if len(model) <= _SHOWN else f"{model[:_SHOWN]}…"
    raise ApiError(
        404,
        f"Model '{shown}' is not served here. Ask for '{served}', or for '{served}@TAG' to name the target of a call; a tag has "
        "up to 64 letters, digits, dots, hyphens and underscores, and begins with a letter or a digit.",
        code="model_not_found",
        param="model",
        retry=False,
    )


_SHOWN = 80
