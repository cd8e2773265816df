"""Siblings that were not asked the same, in words for the user: they are compared as if they were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from astuner.contract.schema import Task

if TYPE_CHECKING:
    from astuner.contract.schema import Group, Message

AROUND = 30
"""Characters that are shown before and after the first difference."""


def describe_different_prompts(groups: Sequence[Group]) -> dict[str, str]:
    """Return a notice for each agent whose first prompts differ among the siblings of a task, by its topic."""
    found: dict[str, str] = {}
    for group in groups:
        # An environment may show each sibling something else.
        calls = [episode.calls[0] for episode in group.episodes if episode.calls and group.task.env_type == Task().env_type]
        for call in calls[1:]:
            if call.agent == calls[0].agent and (shown := _find_difference(calls[0].messages, call.messages)) is not None:
                found[f"prompts of {call.agent}"] = (
                    f"{call.agent}: the first prompts of one task differ, as of '{group.task.task_id}': {shown}. Its episodes "
                    "are compared as if they were asked the same. A framework may write the time into every prompt, as "
                    "AgentScope 2 does by default: turn that off."
                )
    return found


def _find_difference(one: Sequence[Message], other: Sequence[Message]) -> str | None:
    """Return both texts around their first difference; None for the same texts, or other messages."""
    if [message["role"] for message in one] != [message["role"] for message in other]:
        return None
    for place, (first, second) in enumerate(zip(one, other, strict=True)):
        texts = [str(message.get("content") or "") for message in (first, second)]
        if texts[0] != texts[1]:
            pairs = enumerate(zip(*texts, strict=False))
            start = max(0, next((at for at, (a, b) in pairs if a != b), min(map(len, texts))) - AROUND)
            cut = [text[start : start + 2 * AROUND] for text in texts]
            return f"messages[{place}] ({first['role']}) has {cut[0]!r} and {cut[1]!r}"
    return None
