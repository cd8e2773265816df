"""Tasks with unique ids from the rows of a data set, for all readers of tabular data."""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple

from attrs import evolve

from astuner.contract.errors import DataError
from astuner.contract.schema import Message, Task
from astuner.contract.user_values.tasks import split_messages
from astuner.shared.tabular.original_row import MESSAGES, NUMBER_ID
from astuner.shared.tabular.strict_json import make_encoder

QUERY_COLUMNS = ("main_query", "query", "question", "prompt")
"""Columns used as the query if none is named; the first one present wins."""
MESSAGE_COLUMNS = ("init_messages", "messages")
ID_COLUMNS = ("task_id", "id")
_PLACES = dict.fromkeys(ID_COLUMNS, "task_id") | dict.fromkeys(QUERY_COLUMNS, "main_query")
_PLACES |= dict.fromkeys(MESSAGE_COLUMNS, "init_messages")
_IMAGE_COLUMNS = ("images", "videos", "audios", "image", "video", "audio")
_MESSAGES_AS_TEXT = re.compile(r"\s*\[\s*\{\s*['\"](?:role|content|from)['\"]\s*:")
_CONTENT_ID = re.compile(r"[0-9a-f]{20}")
_NOT_METADATA = frozenset((*_PLACES, *_IMAGE_COLUMNS, "env_type", "metadata"))
_write_compact = make_encoder(compact=True)
_FIELDS = ("main_query", "init_messages", "task_id", "env_type", "metadata")


class Row(NamedTuple):
    """One row and its location."""

    place: str
    """For people, as in `train.jsonl:17`."""
    values: Mapping[str, Any]
    """JSON values only."""
    offset: int = 0
    """The byte of a file at which it begins, where that is known."""


def make_tasks(
    rows: Callable[[], Iterator[Row]],
    columns: Mapping[str, str] | None = None,
    limit: int | None = None,
    *,
    default_query: str | None = None,
    keep_repeats: bool = False,
    places: array[int] | None = None,
) -> Iterator[Task]:
    """Yield a task per row, with unique ids; each call of `rows` reads the data from the start, in the same order.

    `columns` maps a field of `Task`, or a key of its metadata, to the column that it is taken from. Unused columns
    go to the metadata under their own names; a column `metadata` that holds an object is merged into it. `Task.columns` says
    where the others went. A row without an id gets one from its content. Two rows with one id raise `DataError`, which names
    both; with `keep_repeats` only if the data has ids: a row that repeats another one has its position in its id.
    `default_query` is the query of a row without one. `places` gets a number for each task, before it is yielded, from which
    `make_placed_task` makes the task again of its row alone.
    """
    mapping = dict(columns or {})
    known = UniqueIds()
    for index, row in enumerate(islice(rows(), limit)):
        task, made = _make_task(row, mapping, default_query)
        repeats = known.add(task.task_id)
        if repeats and made and keep_repeats:
            task = evolve(task, task_id=f"{task.task_id}-{index}")
        elif repeats:
            # The compact set may report a false hit, so the earlier row is looked up.
            for earlier in islice(rows(), index):
                if _make_task(earlier, mapping, default_query)[0].task_id == task.task_id:
                    raise _make_duplicate_error(earlier, row, task.task_id, made)
            repeats = False
        if places is not None:
            places.append(row.offset << 1 | repeats)
        yield task


def make_placed_task(row: Row, index: int, place: int, columns: Mapping[str, str], default_query: str | None) -> Task:
    """Return the task that `make_tasks` made of a row, which is number `index`, from 0, of the data."""
    task, _ = _make_task(row, columns, default_query)
    return evolve(task, task_id=f"{task.task_id}-{index}") if place & 1 else task


def _make_duplicate_error(first: Row, second: Row, task_id: str, made: bool) -> DataError:
    if made:
        return DataError(
            f"{second.place}: the same content as {first.place}, and without its own id (the one made from the content is "
            f"'{task_id}'); remove one of the two rows, give the rows distinct ids in a column 'task_id', or set keep_repeats: "
            "true, which numbers repeats"
        )
    return DataError(
        f"{second.place}: task id '{task_id}' is already that of {first.place}; ids are unique within a split: fix the data, "
        "or take them from another column (columns: {task_id: NAME})"
    )


def make_content_id(values: Mapping[str, Any], place: str) -> str:
    """Return 20 hex digits that depend only on the content of a row, not on the order of its columns."""
    try:
        text = _write_compact(values)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{place}: {error}; a row holds JSON values only") from error
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def _make_task(row: Row, columns: Mapping[str, str], default_query: str | None) -> tuple[Task, bool]:
    """Return the task of a row, and whether its id was made from the content."""
    if not columns and (simple := _make_simple_task(row.values, row.place)) is not None:
        return simple
    rest = dict(row.values)
    chosen = {target: _find_column(row, rest, target, column) for target, column in columns.items()}
    for column in columns.values():
        rest.pop(column, None)

    named = set(rest)
    env_type = chosen["env_type"] if "env_type" in chosen else rest.pop("env_type", None)
    # An environment asks its own question.
    query, messages, listed = _read_query(row, chosen, rest, "" if default_query is None and env_type else default_query)
    given = chosen["task_id"] if "task_id" in chosen else _pop_first(ID_COLUMNS, rest)
    metadata = _merge_metadata(row, chosen, rest)
    task_id = _read_id(given, row)
    task = Task(
        main_query=query,
        init_messages=messages,
        task_id=task_id or make_content_id(row.values, row.place),
        env_type="no_env" if env_type is None else str(env_type),
        metadata=metadata,
        columns=_place_columns(
            row, columns, named - set(rest), listed=listed, number_id=task_id is not None and not isinstance(given, str)
        ),
    )
    return task, task_id is None


def _make_simple_task(values: Mapping[str, Any], place: str) -> tuple[Task, bool] | None:
    """Return what `_make_task` does of a row with a text as its question, maybe another as its id, and metadata, as most are.

    None for any other row. It is several times faster.
    """
    metadata, columns = dict(values), {}
    query = task_id = ""
    for column in sorted(_NOT_METADATA.intersection(values)):
        value, target = metadata.pop(column), _PLACES.get(column)
        if type(value) is not str or not value:
            return None
        if target == "main_query" and not query:
            query = value
        elif target == "task_id" and not task_id:
            task_id = value
        else:
            return None
        if column != target:
            columns[column] = target
    if not (text := query.strip()) or text[0] == "[":
        return None
    return Task(query, (), task_id or make_content_id(values, place), metadata=metadata, columns=columns), not task_id


def _place_columns(
    row: Row, chosen: Mapping[str, str], taken: Collection[str], *, listed: str, number_id: bool
) -> dict[str, str]:
    """Return `Task.columns`: `chosen` are those that the options name, and `taken` those that were found by their names.

    `listed` is the place of a list of messages.
    """
    places = {column: _PLACES.get(column, column) for column in sorted(taken)} | {c: target for target, c in chosen.items()}
    for column, place in places.items():
        if place in ("main_query", "init_messages") and isinstance(row.values[column], list):
            places[column] = listed
        elif place == "task_id" and number_id:
            places[column] = NUMBER_ID
    # `metadata` is a field whose name alone does not say that the row had such a column.
    return {column: place for column, place in places.items() if column != place or column == "metadata"}


def _find_column(row: Row, values: Mapping[str, Any], target: str, column: str) -> Any:
    if column not in values:
        raise DataError(
            f"{row.place}: no column '{column}', from which `columns` takes '{target}'; columns are: {_names(values)}"
        )
    return values[column]


def _pop_first(names: tuple[str, ...], values: dict[str, Any]) -> Any:
    """Remove and return the first non-empty value of some columns; None if there is none."""
    for name in names:
        if values.get(name) not in (None, "", []):
            return values.pop(name)
    return None


def _read_query(
    row: Row, chosen: Mapping[str, Any], rest: dict[str, Any], default: str | None
) -> tuple[str, Sequence[Message], str]:
    """Return the query, the messages before it, and what a column of messages holds of them, as in `Task.columns`."""
    query = chosen["main_query"] if "main_query" in chosen else _pop_first(QUERY_COLUMNS, rest)
    messages = chosen["init_messages"] if "init_messages" in chosen else _pop_first(MESSAGE_COLUMNS, rest)
    if isinstance(query, list):
        if messages:
            raise DataError(f"{row.place}: two lists of messages, one as the query; choose one with `columns`")
        query, messages = None, query
    if query is not None and not isinstance(query, str):
        raise DataError(
            f"{row.place}: the query is of type {type(query).__name__}: {query!r}; it must be a string or a list of messages"
        )
    if query and _MESSAGES_AS_TEXT.match(query):
        raise DataError(f"{row.place}: the query is a text that holds a list of messages: {query[:80]!r}{_json_hint(query)}")
    if lost := next((name for name in _IMAGE_COLUMNS if _holds_images(row.values.get(name), query, messages)), None):
        raise DataError(
            f"{row.place}: column '{lost}' belongs to the question, of which only the text can be played; leave such rows out"
        )
    listed = _read_messages(messages, row)
    if query and query.strip():
        return query, listed, "init_messages"
    if not listed:
        if default is not None:
            return default, (), "init_messages"
        raise DataError(
            f"{row.place}: no query: none of the columns {', '.join((*QUERY_COLUMNS, *MESSAGE_COLUMNS))} holds one; "
            f"columns are: {_names(row.values)}. Name it with `columns: {{main_query: NAME}}`, "
            "or give all such rows one with `default_query`"
        )
    try:
        query, before = split_messages(listed, row.place)
    except DataError:
        if default is None:
            raise
        return default, listed, "init_messages"
    last = {"role": "user", "content": query}
    return query, before, MESSAGES if listed[-1] == last else MESSAGES + json.dumps(listed[-1])


def _holds_images(value: Any, query: str | None, messages: Any) -> bool:
    """Whether a column holds images, sounds or videos that belong to the question, as in data sets for other trainers."""
    if not value:
        return False
    said = f"{query or ''}{json.dumps(messages) if messages else ''}"
    files = value if isinstance(value, list) else [value]
    return bool(re.search(r"<(?:image|video|audio)>", said)) or all(
        isinstance(one, dict) and {"bytes", "path"} & {*one} for one in files
    )


def _read_messages(value: Any, row: Row) -> tuple[Message, ...]:
    if not value:
        return ()
    if not isinstance(value, list) or not all(isinstance(message, dict) and message.get("role") for message in value):
        raise DataError(
            f"{row.place}: messages must be objects with 'role' and 'content', not {str(value)[:80]!r}{_json_hint(value)}"
        )
    # Columnar stores fill absent keys with nulls, which chat APIs reject.
    return tuple({key: part for key, part in message.items() if part is not None or key == "content"} for message in value)


def _read_id(value: Any, row: Row) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise DataError(f"{row.place}: a task id must be a string or a number, not {value!r}")
    return str(value)


def _merge_metadata(row: Row, chosen: Mapping[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
    """Merge the remaining columns, the object in `metadata`, and the fields named in `columns`; the last one wins."""
    held = chosen["metadata"] if "metadata" in chosen else rest.get("metadata")
    if "metadata" not in chosen and (held is None or isinstance(held, dict)):
        rest.pop("metadata", None)
    elif "metadata" in chosen and not isinstance(held, dict | None):
        raise DataError(
            f"{row.place}: `columns` takes the metadata from a column that is not an object: {str(held)[:80]!r}{_json_hint(held)}"
        )
    inner = held if isinstance(held, dict) else {}
    named = {target: value for target, value in chosen.items() if target not in _FIELDS}
    for name in inner.keys() & rest.keys() - named.keys():
        if inner[name] != rest[name]:
            raise DataError(f"{row.place}: '{name}' is both a column and a key of 'metadata', with different values; keep one")
    return {**rest, **inner, **named}


def _json_hint(value: Any) -> str:
    return "; list columns that hold JSON text in `json_columns`" if isinstance(value, str) else ""


def _names(values: Mapping[str, Any]) -> str:
    return ", ".join(values) or "none"


class UniqueIds:
    """Stores 48 bits of a hash per string: about 6 bytes each, plus a few megabytes.

    A hit may therefore be a collision (1 in 500 runs over a million rows); callers verify the string before acting on it.
    """

    def __init__(self) -> None:
        # 16 bits choose a shard and are not stored. Shards are sorted, and short enough for an insertion in the middle.
        self._shards: defaultdict[int, array[int]] = defaultdict(partial(array, "I"))

    def add(self, text: str) -> bool:
        """Add a string; return whether it, or one with the same hash, was present before."""
        if _CONTENT_ID.fullmatch(text):
            number = int(text, 16)
        else:
            number = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).digest(), "big")
        shard, rest = self._shards[number & 0xFFFF], number >> 16 & 0xFFFFFFFF
        position = bisect_left(shard, rest)
        if position < len(shard) and shard[position] == rest:
            return True
        shard.insert(position, rest)
        return False
