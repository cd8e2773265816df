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
from astuner.shared.tabular.text_lines import HEAD_BYTES, check_encoding, read_text_lines

EXAMPLE = '{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}'


@frozen(kw_only=True, eq=False)
class Demonstration:
    """One conversation. What the assistant writes in it is trained."""

    file: Path
    line: int
    """From 1."""
    messages: tuple[Message, ...]
    """With plain text content."""
    tools: tuple[Mapping[str, Any], ...] = ()

    def describe_problem(self, message: str) -> Problem:
        """Return a problem at its place."""
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
            messages, tools = _check_row(parse_json(line.rstrip("\r\n")))
        except json.JSONDecodeError as error:
            message = f"not JSON: {error.msg} in column {error.colno}. Write one object per line, such as {EXAMPLE}"
            problems.append(Problem(file=path, line=number, message=message))
        except (StrictJsonError, ApiError, _RowError) as error:
            problems.append(Problem(file=path, line=number, message=str(error)))
        else:
            sound.append(Demonstration(file=path, line=number, messages=messages, tools=tools))
    if not sound and not problems:
        raise UsageError(f"{path}: there is no demonstration in it. Write one conversation per line, such as {EXAMPLE}")
    return ReadDemonstrations(sound=sound, problems=problems)


class _RowError(Exception):
    """A row that is not a demonstration."""


def _read_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open("rb") as file:
            check_encoding(path, file.read(HEAD_BYTES))
            file.seek(0)
            for number, line in enumerate(read_text_lines(path, file), 1):
                if line.strip():
                    yield number, line
    except OSError as error:
        raise DataError(f"{path}: it cannot be read: {error.strerror}; name a file of JSON lines with --demos") from error


def _check_row(row: Any) -> tuple[tuple[Message, ...], tuple[Mapping[str, Any], ...]]:
    if not isinstance(row, dict) or "messages" not in row:
        found = f"its keys are {', '.join(map(repr, row)) or 'none'}" if isinstance(row, dict) else f"it is {row!r:.60}"
        raise _RowError(f"no 'messages' in this row: {found}. Write one object per line, such as {EXAMPLE}")
    messages = normalise(row["messages"])
    tools = _check_tools(row.get("tools"))
    if not any(message["role"] == "assistant" for message in messages):
        roles = ", ".join(message["role"] for message in messages)
        raise _RowError(
            f"no message of the assistant (roles: {roles}), so nothing can be learnt from it. Add one, or remove the row"
        )
    if messages[0]["role"] == "assistant":
        raise _RowError("messages[0] is the assistant's, but an answer needs a prompt. Put a user or system message before it")
    names = [tool["function"]["name"] for tool in tools]
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            _check_answer(message, f"messages[{place}]", names)
    return messages, tools


def _check_answer(message: Message, place: str, names: Sequence[str]) -> None:
    calls = message.get("tool_calls") or ()
    if not message["content"] and not calls:
        raise _RowError(
            f"{place} of the assistant is empty: it has neither content nor tool_calls. Write its answer, or remove it"
        )
    for number, call in enumerate(calls):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        if name not in names:
            close = find_closest(name, names)
            hint = f"Did you mean {close!r}?" if close else "Add it to the row's 'tools', or correct the name."
            known = f"are {', '.join(map(repr, names))}" if names else "are none"
            raise _RowError(f"{place}.tool_calls[{number}] calls {name!r}, but the tools of the row {known}. {hint}")
        if isinstance(parse_arguments(arguments), str):
            raise _RowError(
                f"{place}.tool_calls[{number}].function.arguments is {arguments!r:.80}, which is not a JSON object. "
                "Write the arguments as one, by name"
            )


def _check_tools(tools: Any) -> tuple[Mapping[str, Any], ...]:
    if tools is None:
        return ()
    if not isinstance(tools, list):
        raise _RowError(f"'tools' is {tools!r:.60}, but must be a list of tools in OpenAI's form")
    for number, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            form = '{"type": "function", "function": {"name": "…"}}'
            raise _RowError(f"tools[{number}] is {tool!r:.60}; write each tool as {form}")
    return tuple(tools)
