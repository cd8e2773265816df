"""What a chat template cannot show, in words for the user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from astuner.model.rendering.system_messages import count_first_systems

if TYPE_CHECKING:
    from astuner.contract.schema import Message
    from astuner.model.rendering.template_shape import TemplateShape


LONGEST_SHOWN = 300
"""Characters of an answer that a notice shows."""


_TEMPLATE = "the model's chat template"


def describe_tool_losses(shape: TemplateShape, key: str, *, tools_in_system: bool, tool_call_format: str) -> Iterator[str]:
    """Yield a notice for each part of a conversation with tools that a template does not show as it is given."""
    if not shape.shows_tools and tools_in_system:
        yield f"{key}: {_TEMPLATE} does not show tools, so they go into the system message (model.tools_in_prompt)."
    elif not shape.shows_tools:
        yield f"{key}: {_TEMPLATE} does not show tools: the model sees only what the agent's own messages say about them."
    if shape.inline_calls:
        yield (
            f"{key}: {_TEMPLATE} does not show tool calls, so they go into the text of an answer, as tool_call_format "
            f"'{tool_call_format}' writes them, and are read from there."
        )
    if not shape.many_calls:
        yield f"{key}: {_TEMPLATE} shows one tool call per message: only the first of an answer is returned."


def describe_losses(shape: TemplateShape, key: str, *, tool_call_format: str, unread: tuple[str, str] | None) -> tuple[str, ...]:
    """Return a notice for each part of any conversation that a template does not show as it is given.

    `unread`: an answer that it writes and that does not come back through the parser, and what is read of it.
    """
    found = []
    if not shape.shows_system:
        found.append(f"{key}: {_TEMPLATE} takes no system message, so it goes before the text of the first user message.")
    if unread is not None:
        text, difference = unread
        shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
        found.append(
            f"{key}: {_TEMPLATE} writes an answer that tool_call_format '{tool_call_format}' does not read back: {shown!r} "
            f"{difference}. So will be what the model writes in this form; set model.tool_call_format if another one fits."
        )
    return tuple(found)


def find_changes(shape: TemplateShape, messages: Sequence[Message]) -> list[str]:
    """Return a notice for each kind of message in a request that the model is shown otherwise than it was sent."""
    found = (_find_hidden_names(shape, messages), _find_late_system(shape, messages))
    return [text for text in found if text is not None]


def _find_late_system(shape: TemplateShape, messages: Sequence[Message]) -> str | None:
    """Return a notice if a later system message becomes a user message."""
    if shape.late_systems or all(message["role"] != "system" for message in messages[count_first_systems(messages) :]):
        return None
    return (
        "The model's chat template does not show a system or developer message in the middle of a conversation, where it is "
        "sent, so the model sees it as a user message (model.late_system_messages)."
    )


def _find_hidden_names(shape: TemplateShape, messages: Sequence[Message]) -> str | None:
    """Return a notice if several speakers share the user's role and the template does not show their names."""
    if shape.shows_names:
        return None
    names = sorted({message["name"] for message in messages if message["role"] == "user" and message.get("name")})
    if len(names) < 2:
        return None
    return (
        f"The model's chat template does not show the names of user messages ({', '.join(map(repr, names[:3]))}), so the model "
        "cannot distinguish the speakers. Write the names into the texts."
    )
