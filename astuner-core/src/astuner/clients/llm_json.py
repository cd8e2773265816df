"""Answers of LLMs as typed data: JSON found in a text, checked against an attrs class, and asked for again if it does not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from astuner.clients.llm import Answer, LLMClient, LLMFailed
from astuner.config.places import format_path
from astuner.config.structure_errors import FaultsError
from astuner.config.structuring import make_converter

Shape = TypeVar("Shape")

_FENCED = re.compile(r"```(?:json)?\s*\n?(.*?)```", re.DOTALL)
_SHOWN = 200
"""Characters of an answer that a message quotes."""


async def ask_for_json(
    client: LLMClient,
    messages: Sequence[Mapping[str, Any]],
    shape: type[Shape],
    *,
    max_tokens: int,
    attempts: int = 3,
    **more: Any,
) -> tuple[Shape, Answer]:
    """Return an answer structured as `shape`, an attrs class, and the answer itself.

    A wrong answer is shown to the model with its faults, up to `attempts` questions in all; then `LLMFailed` is raised.
    Keys that the class does not have are left out, since models like to add some.
    """
    asked = [dict(message) for message in messages]
    useless: list[Sequence[Mapping[str, Any]]] = []
    for left in range(attempts - 1, -1, -1):
        answer = await client.answer(asked, max_tokens=max_tokens, **more)
        try:
            return parse_answer(answer.text, shape), answer
        except ValueError as error:
            useless.append(asked)
            if not left:
                # A later run may be luckier; a cache would return the same answers.
                for question in useless:
                    await client.forget(question, max_tokens=max_tokens, **more)
                raise LLMFailed(
                    f"{client.where}: no answer of the requested form in {attempts} attempts: {error}; the last was "
                    f"{answer.text[:_SHOWN]!r}"
                ) from error
            wrong = str(error).rstrip(".")
            again = f"This is not the requested JSON object: {wrong}. Answer again, with that object alone."
            asked = [*map(dict, messages), {"role": "assistant", "content": answer.text}, {"role": "user", "content": again}]
    raise AssertionError("the last attempt returns or raises")


def parse_answer(text: str, shape: type[Shape]) -> Shape:
    """Return the JSON object in a text as an attrs class; raises `ValueError` saying what is wrong."""
    found = find_object(text)
    known = {field.name for field in shape.__attrs_attrs__}  # type: ignore[attr-defined]  # documented as an attrs class
    try:
        return make_converter().structure({key: value for key, value in found.items() if key in known}, shape)
    except FaultsError as error:
        raise ValueError("; ".join(f"{format_path(fault.path, 'answer')}: {fault.message}" for fault in error.faults)) from error


def find_object(text: str) -> dict[str, Any]:
    """Return the last separate JSON object in a text, fenced or not; raises `ValueError` if there is none."""
    for candidate in (*reversed(_FENCED.findall(text)), text):
        try:
            value = json.loads(candidate)
        except RecursionError:
            continue  # endless brackets, which models can sample
        except json.JSONDecodeError:
            value = _find_last_object(candidate)
        if isinstance(value, dict):
            return value
    raise ValueError("it holds no JSON object")


def _find_last_object(text: str) -> Any:
    """Return the last outermost object in a text, or None."""
    decode, found, at = json.JSONDecoder().raw_decode, None, text.find("{")
    while at != -1:
        try:
            found, end = decode(text, at)
        except (json.JSONDecodeError, RecursionError):
            end = at + 1
        at = text.find("{", end)
    return found
