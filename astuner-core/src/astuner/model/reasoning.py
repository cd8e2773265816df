"""Reasoning at the start of an answer, where a model's template left it in the text."""

from __future__ import annotations

THINKING = (("<think>", "</think>"), ("[THINK]", "[/THINK]"))
"""The markers around reasoning, by family of models."""


def split_thought(text: str) -> tuple[str, str]:
    """Return the reasoning at the start of an answer, without its markers, and what follows it: the answer proper.

    Reasoning ends at its first closing marker. If it does not end, nothing follows. A closing marker that nothing opens ends
    reasoning that the prompt opened. A text without reasoning is returned unchanged, after an empty one.
    """
    for opening, closing in THINKING:
        before, end, answer = text.partition(closing)
        if before.lstrip().startswith(opening):
            return before.lstrip().removeprefix(opening).strip(), answer.lstrip()
        if end and opening not in before:
            return before.strip(), answer.lstrip()
    return "", text
