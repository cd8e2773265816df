"""Content blocks of Anthropic's Messages API that are text for a model that reads text alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from astuner.model.gateway.wire_apis import ApiError, bad_request, format_value, read_string_in

Block = tuple[str, Mapping[str, Any]]
"""A content block with its place in the body."""


def read_blocks(content: Any, place: str) -> list[Block]:
    """Return the blocks of a content; raises ApiError (400)."""
    if isinstance(content, str):
        return [(place, {"type": "text", "text": content})]
    if not isinstance(content, list):
        raise bad_request(f"{place} must be a string or a list of content blocks.", place)
    blocks = [(f"{place}[{number}]", block) for number, block in enumerate(content)]
    for at, block in blocks:
        if not isinstance(block, dict):
            raise bad_request(f"{at} must be an object.", at)
    return blocks


def read_block_text(block: Mapping[str, Any], place: str) -> str:
    """Return what a model reads of a block; raises ApiError (400) for one that is more than text.

    A tool that was found is its name; a document or search result is its title, context or source, and its text, each on
    lines of its own.
    """
    kind = block.get("type")
    if kind == "text":
        return read_string_in(block, "text", place)
    if kind == "tool_reference":
        return read_string_in(block, "tool_name", place)
    if kind == "document":
        return "\n".join(
            [*_read_lines(block, ("title", "context"), place), _read_document(block.get("source"), f"{place}.source")]
        )
    if kind == "search_result":
        parts = (read_block_text(part, at) for at, part in read_blocks(block.get("content"), f"{place}.content"))
        return "\n".join([*_read_lines(block, ("title", "source"), place), *parts])
    raise _refuse(block, place)


def _read_document(source: Any, place: str) -> str:
    if not isinstance(source, dict):
        raise bad_request(f"{place} must be an object.", place)
    if source.get("type") == "text":
        return read_string_in(source, "data", place)
    if source.get("type") == "content":
        return "\n".join(read_block_text(part, at) for at, part in read_blocks(source.get("content"), f"{place}.content"))
    raise bad_request(
        f"{place}.type is {format_value(source.get('type'))}; only documents of type text or content are served. "
        "Send the text of the document.",
        f"{place}.type",
    )


def _read_lines(block: Mapping[str, Any], names: tuple[str, ...], place: str) -> Iterator[str]:
    for name in names:
        if block.get(name) is not None and (text := read_string_in(block, name, place)):
            yield text


def _refuse(block: Mapping[str, Any], place: str) -> ApiError:
    kind = format_value(block.get("type"))
    return bad_request(f"{place} is a block of type {kind}, which is not served here; nothing is dropped silently.", place)
