"""Demonstrations from a file of JSON lines, each checked; what is wrong in any of them is collected."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from astuner.contract.errors import DataError, Problem, UsageError
from astuner.contract.schema import Message
from astuner.model.gateway.recording.messages import normalise
from astuner.model.rendering.errors import ApiError
from astuner.model.rendering.tool_calls.sampled_json import parse_arguments
from astuner.settings.config.structure_errors import find_closest
from astuner.shared.tabular.strict_json import StrictJsonError, parse_json
from astuner.shared.tabular.text_lines import HEAD_BYTES, check_encoding, decode_line

EXAMPLE = '{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}'


@frozen(kw_only=True, eq=False)
class Demonstration:
    """One conversation. What the assistant writes in it is trained, but for messages with `"train": false`."""

    file: Path
    line: int
    """From 1; of a played episode, its number."""
    messages: tuple[Message, ...]
    """With plain text content."""
    tools: tuple[Mapping[str, Any], ...] = ()
    untrained: frozenset[int] = frozenset()
    """Places of the assistant's messages that are only read."""
    name: str = ""
    """The id of the episode that it was played in; empty for a line of a file."""

    @property
    def place(self) -> str:
        """Where a person finds it."""
        return self.name or f"{self.file}:{self.line}"

    def describe_problem(self, message: str) -> Problem:
        """Return a problem at its place."""
        if self.name:
            return Problem(file=self.file, message=f"episode {self.name}: {message}")
        return Problem(file=self.file, line=self.line, message=message)


@frozen(kw_only=True)
class ReadDemonstrations:
    """The rows of a file."""

    sound: Sequence[Demonstration]
    problems: Sequence[Problem]
    """Of the other rows."""


def read_demonstrations(path: Path) -> ReadDemonstrations:
    """Read a file whose rows have `messages` in OpenAI's form and, if tools may be called, `tools`. Other columns are left out.

    Raises `UsageError` for a file without rows, and `DataError` for one whose text cannot be read.
    """
    sound: list[Demonstration] = []
    problems: list[Problem] = []
    for number, line in _read_lines(path):
        try:
            row = parse_json(line.rstrip("\r\n"))
            messages, tools, untrained = check_row(row)
        except json.JSONDecodeError as error:
            message = f"not JSON: {error.msg} in column {error.colno}. Write one object per line, such as {EXAMPLE}"
            problems.append(Problem(file=path, line=number, message=message))
        except (StrictJsonError, ApiError, RowError) as error:
            problems.append(Problem(file=path, line=number, message=str(error)))
        else:
            sound.append(Demonstration(file=path, line=number, messages=messages, tools=tools, untrained=untrained))
    if not sound and not problems:
        raise UsageError(f"{path}: there is no demonstration in it. Write one conversation per line, such as {EXAMPLE}")
    return ReadDemonstrations(sound=sound, problems=problems)


class RowError(Exception):
    """A row that is not a demonstration."""


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open("rb") as file:
            check_encoding(path, file.read(HEAD_BYTES))
            file.seek(0)
            for number, raw in enumerate(file, 1):
                if (line := decode_line(path, number, raw)).strip():
                    yield number, line
    except OSError as error:
        raise DataError(f"{path}: it cannot be read: {error.strerror}; name a file of JSON lines with --demos") from error


def check_row(row: Any) -> tuple[tuple[Message, ...], tuple[Mapping[str, Any], ...], frozenset[int]]:
    """Return the messages of a row, its tools, and the places of answers that are only read.

    Raises `RowError`, or `ApiError` for a message that no model can be sent.
    """
    if not isinstance(row, dict) or "messages" not in row:
        found = f"its keys are {', '.join(map(repr, row)) or 'none'}" if isinstance(row, dict) else f"it is {row!r:.60}"
        raise RowError(f"no 'messages' in this row: {found}. Write one object per line, such as {EXAMPLE}")
    messages = normalise(row["messages"])
    tools = _check_tools(row.get("tools"))
    if not any(message["role"] == "assistant" for message in messages):
        roles = ", ".join(message["role"] for message in messages)
        raise RowError(
            f"no message of the assistant (roles: {roles}), so nothing can be learnt from it. Add one, or remove the row"
        )
    untrained = frozenset(place for place, message in enumerate(row["messages"]) if not _read_train(message, place))
    if messages[0]["role"] == "assistant" and 0 not in untrained:
        raise RowError("messages[0] is the assistant's, but an answer needs a prompt. Put a user or system message before it")
    trained = [place for place, one in enumerate(messages) if one["role"] == "assistant" and place not in untrained]
    if not trained:
        raise RowError('every answer has "train": false, so nothing can be learnt from it. Train one, or remove the row')
    names = [tool["function"]["name"] for tool in tools]
    for place in trained:
        check_answer(messages[place], f"messages[{place}]", names)
    return messages, tools, untrained


def _read_train(message: Mapping[str, Any], place: int) -> bool:
    train = message.get("train", True)
    if not isinstance(train, bool):
        raise RowError(f"messages[{place}].train is {train!r:.60}; write true or false, without quotes")
    if train and "train" in message and message["role"] != "assistant":
        raise RowError(f"messages[{place}].train is true, but only what the assistant writes is trained. Remove the field")
    return train


def check_answer(message: Message, place: str, names: Sequence[str]) -> None:
    """Raise `RowError` for an answer that a model should not learn: an empty one, or a call that no tool takes."""
    calls = message.get("tool_calls") or ()
    if not message["content"] and not calls:
        raise RowError(
            f"{place} of the assistant is empty: it has neither content nor tool_calls. Write its answer, or remove it"
        )
    for number, call in enumerate(calls):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        if name not in names:
            close = find_closest(name, names)
            hint = f"Did you mean {close!r}?" if close else "Add it to the row's 'tools', or correct the name."
            known = f"are {', '.join(map(repr, names))}" if names else "are none"
            raise RowError(f"{place}.tool_calls[{number}] calls {name!r}, but the tools of the row {known}. {hint}")
        if isinstance(parse_arguments(arguments), str):
            raise RowError(
                f"{place}.tool_calls[{number}].function.arguments is {arguments!r:.80}, which is not a JSON object. "
                "Write the arguments as one, by name"
            )


def _check_tools(tools: Any) -> tuple[Mapping[str, Any], ...]:
    if tools is None:
        return ()
    if not isinstance(tools, list):
        raise RowError(f"'tools' is {tools!r:.60}, but must be a list of tools in OpenAI's form")
    for number, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            form = '{"type": "function", "function": {"name": "…"}}'
            raise RowError(f"tools[{number}] is {tool!r:.60}; write each tool as {form}")
    return tuple(tools)
