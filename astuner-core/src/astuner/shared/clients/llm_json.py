"""Answers of LLMs as typed data: one JSON object, checked against an attrs class, and asked for again if it does not fit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

import attrs
import cattrs

from astuner.settings.config.places import format_path
from astuner.settings.config.structure_errors import FaultsError
from astuner.settings.config.structuring import make_converter
from astuner.shared.clients.fences import break_control_tokens, find_fenced
from astuner.shared.clients.json_answers import ends_thought, find_objects, is_quoted, is_whole_object, strip_thought
from astuner.shared.clients.llm import MORE_ROOM, Answer, AnswerCut, AnswerMalformed, LLMClient

Shape = TypeVar("Shape")

_NUMBER = re.compile(r"\s*[-+]?\d+(\.\d+)?\s*")
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

    A wrong answer is shown to the model with its faults, one that was cut off is asked for again with more room, up to `attempts`
    questions in all; then `AnswerMalformed` is raised. Keys that the class does not have are left out: models like to add some.

    What stands in a fence of the question (`astuner.shared.clients.fences`) cannot supply the answer: if a key with its value
    appears there too, it may be a quotation, and counts only in an answer without explanations, which has no place for one.
    """
    asked = [dict(message) for message in messages]
    fenced = find_fenced(str(message.get("content")) for message in messages)
    useless: list[tuple[Sequence[Mapping[str, Any]], int]] = []
    room = 1
    for left in range(attempts - 1, -1, -1):
        try:
            answer = await client.answer(asked, max_tokens=max_tokens, room=room, **more)
        except AnswerCut as cut:
            if not left:
                await _forget(client, useless, max_tokens, more)
                raise
            room *= MORE_ROOM if cut.needs_room else 1
            continue
        try:
            return parse_answer(answer.text, shape, fenced), answer
        except ValueError as error:
            useless.append((asked, room))
            if not left:
                # A later run may be luckier; a cache would return the same answers.
                await _forget(client, useless, max_tokens, more)
                raise AnswerMalformed(
                    f"{client.where}: no answer of the requested form in {attempts} attempts: {error}; the last was "
                    f"{answer.text[:_SHOWN]!r}"
                ) from error
            wrong = str(error).rstrip(".")
            again = (
                f"This is not the requested JSON object: {wrong}. Answer again, with that object alone, "
                "without explanations and without quoting anything."
            )
            # It may quote control tokens that were broken in the question, without the break.
            said = [{"role": "assistant", "content": answer.text}, {"role": "user", "content": again}]
            asked = [*map(dict, messages), *({**turn, "content": break_control_tokens(turn["content"])} for turn in said)]
    raise AssertionError("the last attempt returns or raises")


def parse_answer(text: str, shape: type[Shape], fenced: Sequence[str] = ()) -> Shape:
    """Return the JSON object in a text as an attrs class; raises `ValueError` saying what is wrong.

    Reasoning in `<think>` is left out. Of several objects, those with keys of the class must fit and be equal. A number may be
    written as a text.
    `fenced` are texts that the model was shown and that cannot supply the object.
    """
    answer = strip_thought(text)
    found, misfits, faults = [], [], []
    for candidate in find_objects(answer):
        try:
            found.append((candidate, _structure(candidate, shape)))
        except FaultsError as error:
            misfits.append(candidate)
            faults.append(error)
    if not found:
        raise ValueError("; ".join(f"{format_path(fault.path, 'answer')}: {fault.message}" for fault in faults[-1].faults))
    candidate, made = found[0]
    if any(_list_keys(shape) & other.keys() for other in misfits) or any(other != made for _, other in found):
        raise ValueError(f"it holds {len(found) + len(misfits)} JSON objects that differ")
    alone = is_whole_object(answer) and set(candidate) <= _list_keys(shape) and _is_bare(made)
    # Reasoning may quote the mark that ends it, and what follows there.
    alone &= answer == text or not any(map(ends_thought, fenced))
    if not alone and is_quoted(candidate, fenced):
        raise ValueError("a key with its value also appears in the text that it is about, so that it may be a quotation")
    return made


async def _forget(
    client: LLMClient, useless: Sequence[tuple[Sequence[Mapping[str, Any]], int]], max_tokens: int, more: Mapping[str, Any]
) -> None:
    for question, room in useless:
        await client.forget(question, max_tokens=max_tokens, room=room, **more)


def _structure(found: Mapping[str, Any], shape: type[Shape]) -> Shape:
    known = _list_keys(shape)
    return _make_lenient_converter().structure({key: value for key, value in found.items() if key in known}, shape)


def _list_keys(shape: type[Any]) -> set[str]:
    return {field.name for field in attrs.fields(shape)}


def _is_bare(value: Any) -> bool:
    """Whether nothing optional is in an answer, such as an explanation, which is where a quotation would be."""
    if isinstance(value, tuple | list):
        return all(map(_is_bare, value))
    if not attrs.has(type(value)):
        return True
    fields = [(field, getattr(value, field.name)) for field in attrs.fields(type(value))]
    return all(_is_bare(item) if field.default is attrs.NOTHING else item == field.default for field, item in fields)


@cache
def _make_lenient_converter() -> cattrs.Converter:
    """Make the strict converter, except that it takes numbers written as texts, as weak models do."""
    converter = make_converter()
    for kind in (int, float):
        strict = converter.get_structure_hook(kind)

        def structure(value: Any, of: Any, strict: Any = strict) -> Any:
            if isinstance(value, str) and _NUMBER.fullmatch(value):
                value = float(value) if "." in value else int(value)
            return strict(value, of)

        converter.register_structure_hook(cast("Any", kind), structure)
    return converter
