"""The part of an answer that an environment gets: all of it, its last code block, or the content of its last box."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrs import frozen

from astuner.model.reasoning import split_thought

if TYPE_CHECKING:
    from astuner.contract.schema import Message
    from astuner.settings.config.env_variables import ActionPreference

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_BOX = re.compile(r"\\boxed\s*\{")
_TAG = re.compile(r"<action>(.*?)</action>", re.DOTALL)


@frozen
class Action:
    """An assistant message for the environment."""

    message: Message
    found: bool = True
    """Whether the requested part was found; otherwise the message holds the whole answer, without its reasoning."""


def extract_action(message: Message, preference: ActionPreference) -> Action:
    """Return the action in an answer, never in its reasoning. An answer that calls tools is the action itself."""
    message = _separate_thought(message)
    if preference == "text" or message.get("tool_calls"):
        return Action(message)
    text = message.get("content") or ""
    part = find_last_code_block(text) if preference == "code" else find_last_box(text)
    return Action(message, found=False) if part is None else Action({**message, "content": part})


def _separate_thought(message: Message) -> Message:
    """Move reasoning that stayed in the content to where it is if the gateway splits it off."""
    content = message.get("content")
    if not isinstance(content, str) or message.get("reasoning_content"):
        return message
    thought, answer = split_thought(content)
    return message if answer == content else {**message, "reasoning_content": thought, "content": answer}


def find_last_code_block(text: str) -> str | None:
    """Return the content of the last fenced code block that is closed."""
    found: str | None = None
    fence, block = "", list[str]()
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if not fence:
            # A language's name has no backtick: "```x```" within a line is not a block.
            if mark and "`" not in mark[2]:
                fence, block = mark[1], []
        elif mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not mark[2].strip():
            found, fence = "\n".join(block), ""
        else:
            block.append(line)
    return found


def find_last_box(text: str) -> str | None:
    r"""Return the content of the last `\boxed{…}` or `<action>…</action>` that is closed, whichever begins later."""
    ends = [(start.start(), content) for start in _BOX.finditer(text) if (content := _read_braces(text, start.end())) is not None]
    ends += [(tag.start(), tag[1]) for tag in _TAG.finditer(text)]
    return max(ends)[1].strip() if ends else None


def _read_braces(text: str, start: int) -> str | None:
    """Return the text up to the brace that closes the one before `start`; escaped braces are text."""
    depth, place = 1, start
    while place < len(text):
        if text[place] == "\\":
            place += 1
        elif text[place] == "{":
            depth += 1
        elif text[place] == "}":
            depth -= 1
            if not depth:
                return text[start:place]
        place += 1
    return None
