"""Untrusted texts in a prompt: between tags that they cannot close, without the control tokens of chat templates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from itertools import count

BREAK = "\u200b"
"""The zero-width space that breaks a control token."""

_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")

_NAMES = (
    "s|bos|eos|pad|unk|mask|sep|cls|think|thinking|thought|reasoning|start_of_turn|end_of_turn|start_of_image|start_of_role|"
    "end_of_role|end_of_text|end_of_utterance|tools?|tool_calls?|tool_response|tool_results?|function_calls?|observation|"
    "system|user|assistant|human|bot|turn|im_start|im_end|eot_id|answer_start|SPECIAL_\\d+|reserved_\\w+|unused\\d+|extra_id_\\d+"
)
_CONTROL = re.compile(
    r"(?<=<)(?=[|\uff5c])"  # <|im_start|>, and DeepSeek's full-width bars
    r"|(?<=[|\uff5c])(?=>)"
    rf"|(?<=<)(?=/?(?:{_NAMES})>)"
    r"|(?<=<<)(?=/?SYS>>)"
    r"|(?<=\[)(?=/?[A-Z][A-Z_]+\])"  # [INST], [TOOL_CALLS]
    r"|(?<=\])(?=[<~]\])"  # MiniMax
)
_FENCED = re.compile(r"<(\w+-[0-9a-f]{16})>\n(.*?)\n</\1>", re.DOTALL)


def fence(text: str, name: str = "untrusted") -> str:
    """Return a text between `<name-ID>` and `</name-ID>`, where ID is a digest of the two.

    The author of a text cannot include its digest, so only we can close the tag. The same text gets the same tags, so answers can
    be cached. Lone surrogates, which no API takes, become U+FFFD. A zero-width space breaks what a chat template would read as a
    control token (`<|im_start|>`, `[INST]`, `<think>`): servers of open models tokenize it even inside a message.
    """
    text = _LONE_SURROGATE.sub("\ufffd", text)
    identity = _identify(name, text)
    return f"<{name}-{identity}>\n{break_control_tokens(text)}\n</{name}-{identity}>"


def break_control_tokens(text: str) -> str:
    """Return a text whose control tokens of chat templates are broken by a zero-width space."""
    return _CONTROL.sub(BREAK, text)


def find_fenced(texts: Iterable[str]) -> list[str]:
    """Return what is between such tags in some texts."""
    return [found[1] for text in texts for found in _FENCED.findall(text)]


def _identify(name: str, text: str) -> str:
    # A text that holds its own digest is never seen in practice; looking for it costs nothing.
    digests = (blake2b(f"{name}:{turn}:{text}".encode(), digest_size=8).hexdigest() for turn in count())
    return next(digest for digest in digests if digest not in text)
