"""The texts of a task, for the tokenizer of a new model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

from astuner.contract.protocols import Reader, ReaderTraits, read_traits
from astuner.contract.schema import Message, Split
from astuner_tools.demonstrations.reading import Demonstration

MOST_TASKS = 5000
"""Tasks of a split that are read: more would not change which words are frequent."""
SPLITS: tuple[Split, ...] = ("train", "validation")


def list_texts(demonstrations: Iterable[Demonstration], reader: Reader) -> list[str]:
    """Return the texts of demonstrations, and of tasks that exist; none is generated."""
    texts: list[str] = []
    for demonstration in demonstrations:
        texts += [tool["function"]["name"] for tool in demonstration.tools]
        for message in demonstration.messages:
            texts += _list_message_texts(message)
    may_generate = read_traits(reader, ReaderTraits).may_generate
    for split in SPLITS:
        if may_generate and cast("Any", reader).would_generate(split) is not None:
            continue
        for task in islice(reader.read(split), MOST_TASKS):
            texts.append(task.main_query)
            for message in task.init_messages:
                texts += _list_message_texts(message)
    return texts


def _list_message_texts(message: Message) -> Iterator[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    if message.get("reasoning_content"):
        yield message["reasoning_content"]
    for call in message.get("tool_calls") or ():
        # As chat templates write it.
        yield json.dumps({"name": call["function"]["name"], "arguments": ""})
        yield call["function"]["arguments"]
