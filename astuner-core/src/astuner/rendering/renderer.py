"""The boundary between messages and token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from astuner.rendering.reply_parser import ReplyParser
    from astuner.schema import Ids, Message


class Renderer(Protocol):
    """Converts between messages and ids. One per gateway, shared by all episodes."""

    @property
    def turn_ends(self) -> Mapping[int, str]:
        """The token ids with which a model ends its turn, with their text: generation stops at these."""
        ...

    @property
    def closers(self) -> Mapping[int, str]:
        """The token ids that close an answer in a rendered conversation: the turn ends, and the tokens used in their place."""
        ...

    @property
    def vocabulary(self) -> int:
        """Every token id is below it."""
        ...

    def render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, generate: bool, kwargs: Mapping[str, Any]
    ) -> str:
        """Return the text of a conversation, with the header of the next answer if `generate`.

        Raises ApiError (400) when the template refuses the messages or would lose one.
        """
        ...

    def encode(self, text: str) -> Ids:
        """Return the ids of a text; special tokens in it become their ids, none is added. The array is read-only."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, special tokens included."""
        ...

    def parser(self, prompt: str, *, tools: Sequence[Mapping[str, Any]], parallel: bool) -> ReplyParser:
        """Return a parser for the answer to a rendered prompt; `tools` are those whose calls are read."""
        ...
