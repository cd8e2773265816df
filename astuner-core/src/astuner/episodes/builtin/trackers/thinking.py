"""Answers without the reasoning before them."""

from __future__ import annotations

import re

from astuner.contract.schema import Message

_BOX = re.compile(r"\\(?:boxed|box|fbox)\s*\{")


def strip_thinking(text: str) -> str:
    """Return a text without its `<think>` blocks, including those opened by a template or cut off."""
    # Text before a lone closing tag is reasoning that the prompt opened.
    rest = text.rpartition("</think>")[2] if "</think>" in text else text
    return rest.partition("<think>")[0].strip() if "<think>" in rest else rest.strip()


def strip_reasoning(message: Message) -> Message:
    """Return an assistant message without its reasoning; any other message unchanged."""
    if message["role"] != "assistant":
        return message
    content = message.get("content")
    kept = {key: value for key, value in message.items() if key not in ("reasoning_content", "reasoning")}
    return {**kept, "content": strip_thinking(content)} if isinstance(content, str) else kept


def find_last_boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{…}` or `\box{…}` of a text; None if no closed one exists."""
    found = None
    for match in _BOX.finditer(text):
        depth = 1
        for place in range(match.end(), len(text)):
            depth += (text[place] == "{") - (text[place] == "}")
            if depth == 0:
                found = text[match.end() : place].strip()
                break
    return found
