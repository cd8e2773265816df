"""Tasks, as readers yield them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from astuner.contract.errors import DataError
from astuner.contract.plain_values import make_plain, read_text, show_value
from astuner.contract.schema import Message, Split, Task


def check_task(task: object, split: Split) -> tuple[Task, bool]:
    """Return a task with plain values, and whether some text of it was not valid Unicode."""
    if not isinstance(task, Task):
        raise DataError(f"the reader yielded {show_value(task)} ({split}); it must yield instances of astuner.Task")
    names = {name: getattr(task, name) for name in ("main_query", "task_id", "env_type")}
    checked: dict[str, Any] = {name: "" if value is None else read_text(value) for name, value in names.items()}
    mended = any(type(value) is str and value != checked[name] for name, value in names.items())
    place = f"task '{checked['task_id']}' ({split})"
    for name, verb in (("init_messages", "hold"), ("metadata", "holds")):
        plain = make_plain(getattr(task, name))
        if plain.replaced is not None:
            raise DataError(
                f"{place}: {name} {verb} {plain.replaced}, which is not a JSON value; "
                "leave it out in the reader, or store a path or text instead"
            )
        checked[name] = plain.value
        mended = mended or plain.mended
    for message in checked["init_messages"]:
        if not isinstance(message, Mapping):
            raise DataError(f"{place}: init_messages hold {message!r:.80}; a message is {{'role': 'user', 'content': TEXT}}")
    if checked["init_messages"] and not checked["main_query"].strip():
        checked["main_query"], checked["init_messages"] = split_messages(checked["init_messages"], place)
    return evolve(task, **checked), mended


def split_messages(messages: Sequence[Message], place: str) -> tuple[str, Sequence[Message]]:
    """Return the query of a task that is a list of messages, which is the text of the last one, and the messages before it.

    Raises `DataError` if the last one is not a text of the user: an agent that asks the query would ask something else.
    """
    *before, last = messages
    content = last.get("content")
    parts = [content] if isinstance(content, str) else content or []
    texts: list[Any] = [part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else part for part in parts]
    if last.get("role") == "user" and all(isinstance(text, str) for text in texts) and (query := "\n".join(texts)).strip():
        return query, before
    raise DataError(
        f"{place}: its messages end with {last!r:.120}; the last one has to be a text of the user, which is the query. Remove "
        "what follows the question, or give the query apart (main_query), and the messages stay as they are"
    )
