"""The answer in a model's message: its last box or tag, or else its last line."""

from __future__ import annotations

import re

from astuner.contract.schema import Message
from astuner.episodes.rollout.environments import find_last_box
from astuner.model.reasoning import split_thought

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def extract_text(message: Message) -> str:
    """Return the text of a message, whose content may be a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def extract_answer(message: Message) -> str:
    r"""Return the content of the last `\boxed{…}`, `<action>…</action>` or `<answer>…</answer>`, or else the last line.

    Nothing is read from reasoning.
    """
    text = split_thought(extract_text(message))[1]
    tags = _ANSWER.findall(text)
    found = tags[-1] if tags else find_last_box(text)
    if found is not None:
        return found.strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
