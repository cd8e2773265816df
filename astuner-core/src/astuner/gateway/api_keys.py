"""API keys: the secret of an episode, and which agent and target hold it."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from secrets import token_urlsafe

from attrs import frozen


@frozen
class Caller:
    """The owner of a key."""

    secret: str
    agent: str
    target_tag: str


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
        agent, target = json.loads(urlsafe_b64decode(who + "=" * (-len(who) % 4)))
        agent.encode()
        target.encode()
    except (ValueError, TypeError, AttributeError, RecursionError):
        # Any other text from a client: not a list of two encodable strings.
        return None
    return Caller(secret, agent, target) if dot else None
