"""Large bodies, read in a thread: at first an outline, which is enough to refuse a prompt that cannot fit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from attrs import define

from astuner.model.gateway.dialects.fields import decode_body, load_object, parse_text
from astuner.model.gateway.dialects.outlines import Measures, OutlineDecoder
from astuner.model.http_server import PatientDecoder

if TYPE_CHECKING:
    from astuner.model.rendering.prompt_bound import CountBytes


@define(eq=False)
class LargeBody:
    """A body of many bytes, held once."""

    _bytes: str
    """Each as a character: those of other scripts would take up to four times as much memory, decoded."""
    _encoding: str

    @classmethod
    def take(cls, raw: bytes | bytearray) -> LargeBody:
        """Make one; a `bytearray` is emptied."""
        body = cls(raw.decode("latin-1"), json.detect_encoding(raw))
        if isinstance(raw, bytearray):
            raw.clear()
        return body

    def outline(self, count_bytes: CountBytes, most_items: int) -> tuple[dict[str, Any], Measures] | None:
        """Return the body with marks for long strings and with `most_items` of each list; None if it is not in UTF-8.

        Raises ApiError (400) for a body that is not valid, with places in bytes.
        """
        if self._encoding != "utf-8":
            return None
        measures = Measures(count_bytes)
        return load_object(self._bytes, OutlineDecoder, measures=measures, most_items=most_items), measures

    def parse(self) -> dict[str, Any]:
        """Return the body, of which nothing is held any longer; raises ApiError (400) as `parse_body` does."""
        text, self._bytes = self._bytes, ""
        if self._encoding != "utf-8" or not text.isascii():
            raw, text = text.encode("latin-1"), ""
            text = decode_body(raw, self._encoding)
            del raw
        return parse_text(text, PatientDecoder)
