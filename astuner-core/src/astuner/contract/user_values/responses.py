"""What an agent answered, as an object: what of it can be stored, and the object that a judge gets of what was."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Mapping
from typing import Any

from astuner.contract.plain_values import make_plain, read_text
from astuner.contract.schema import WorkflowOutput

ANSWER, RESPONSE = "final_answer", "response"
"""Keys of `WorkflowOutput.metadata`: the text of a response, and what can be stored of it besides its text."""
MESSAGE = "agentscope_message"
"""In a stored response: the fields of a message of AgentScope."""

_VOLATILE = frozenset({"id", "timestamp", "created_at", "finished_at", "invocation_id", "usage", "error"})
"""Fields of a message, and of its texts, that are not alike in two equal episodes."""


def describe_response(response: Any) -> dict[str, Any]:
    """Return what the metadata of an output keeps of a response: its text, and a message of AgentScope or a JSON value."""
    if isinstance(response, str):
        return {ANSWER: response}
    if _is_message(response):
        return {ANSWER: _read_content(response), RESPONSE: {MESSAGE: _dump_message(response)}}
    plain = make_plain(response)
    if plain.replaced is None:
        return {ANSWER: read_text(response), RESPONSE: plain.value}
    return {ANSWER: _read_content(response)}


def restore_response(output: WorkflowOutput) -> Any:
    """Return the response of an output: the object itself in the process of the workflow, else what was stored of it.

    A message of AgentScope is one again, with its role, name, content, metadata and structured output; without AgentScope, and
    for any other object, it is the text of the answer.
    """
    if output.response is not None:
        return output.response
    stored = output.metadata.get(RESPONSE)
    if isinstance(stored, Mapping) and MESSAGE in stored:
        return _make_message(stored[MESSAGE], output.metadata.get(ANSWER))
    return output.metadata.get(ANSWER) if stored is None else stored


def _is_message(response: Any) -> bool:
    return any(kind.__name__ == "Msg" and kind.__module__.split(".")[0] == "agentscope" for kind in type(response).__mro__)


def _read_content(response: Any) -> str:
    """Return the text of an answer; a message without text gives an empty one."""
    get_text = getattr(response, "get_text_content", None)
    return read_text((get_text() or "") if callable(get_text) else response)


def _dump_message(message: Any) -> dict[str, Any]:
    dump = getattr(message, "model_dump", None)
    fields = dump(mode="json", exclude_none=True) if callable(dump) else message.to_dict()
    kept = {name: value for name, value in fields.items() if name not in _VOLATILE}
    if isinstance(kept.get("content"), list):
        kept["content"] = [_drop_own_id(block) for block in kept["content"]]
    return kept


def _drop_own_id(block: Any) -> Any:
    # Of a text; the id of a tool call says which result is its own.
    if not isinstance(block, Mapping) or str(block.get("type", "")).startswith("tool"):
        return block
    return {name: value for name, value in block.items() if name != "id"}


def _make_message(fields: Mapping[str, Any], text: Any) -> Any:
    try:
        importlib.metadata.version("agentscope")
    except importlib.metadata.PackageNotFoundError:
        return text
    kind = importlib.import_module("agentscope.message").Msg
    validate = getattr(kind, "model_validate", None)
    if callable(validate):
        return validate(dict(fields))
    return kind(**{name: fields.get(name) for name in ("name", "content", "role", "metadata")})
