"""Raw prompts, texts or token ids without a chat template: how they continue recorded streams."""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
from attrs import define, field, frozen

from astuner.model.gateway.tree.token_tree import Placement
from astuner.model.reasoning import THINKING
from astuner.model.rendering.errors import bad_request
from astuner.model.rendering.reply_parser import Piece

if TYPE_CHECKING:
    from astuner.contract.schema import Call, Ids
    from astuner.model.rendering import TemplateRenderer
    from astuner.model.rendering.encoding import Encode


class PlainParser:
    """Treats all text as content."""

    malformed = 0
    dropped = 0

    def __init__(self, prompt: str) -> None:
        """Take the prompt, which may open the reasoning."""
        self._text = next((opening for opening, _ in THINKING if prompt.rstrip().endswith(opening)), "")

    @property
    def reasons(self) -> bool:
        """Whether the text ends inside reasoning."""
        return any(self._text.rfind(opening) > self._text.rfind(closing) for opening, closing in THINKING)

    def feed(self, text: str) -> Iterator[Piece]:
        """Yield the text."""
        self._text += text
        if text:
            yield Piece("content", text)

    def finish(self) -> Iterator[Piece]:
        """Yield nothing: nothing was held back."""
        yield from ()


@define(eq=False)
class RawTree:
    """Recorded streams of one episode that began with a raw prompt.

    A prompt of ids continues the longest recorded stream that it begins with. A prompt of text continues the longest one
    whose text it begins with, sampled ids included, if those ids and the encoded rest decode to the prompt; anything
    else is a new root. So a sampled id is never re-encoded, and text that was not sampled is encoded in one piece.
    """

    renderer: TemplateRenderer
    _by_ids: defaultdict[str, _Beginnings] = field(factory=lambda: defaultdict(_Beginnings), init=False)
    _by_text: defaultdict[str, _Beginnings] = field(factory=lambda: defaultdict(_Beginnings), init=False)
    _points: dict[tuple[int, int], _Point] = field(factory=dict, init=False)

    def place(self, prompt: str | Sequence[int], agent: str, encode: Encode) -> Placement:
        """Find the longest recorded stream of an agent that a prompt begins with, and encode the rest.

        Raises what `encode` raises.
        """
        if isinstance(prompt, str):
            text = prompt
            point, added = self._continue(prompt, agent, encode) or (None, encode(prompt))
        else:
            unknown = [number for number in prompt if not 0 <= number < self.renderer.vocabulary]
            if unknown:
                # An engine would read beyond its embeddings.
                known = f"the ids of this model are below {self.renderer.vocabulary}"
                raise bad_request(f"'prompt' holds the token id {unknown[0]}; {known}.", "prompt")
            text = self.renderer.decode(prompt)
            ids = np.asarray(prompt, dtype=np.int32)
            point = next((point for _, point in self._by_ids[agent].find(ids.tobytes())), None)
            # A view would keep the whole array alive for the episode.
            added = ids if point is None else ids[point.length :].copy()
        return Placement(
            parent=None if point is None else point.call,
            kept=0 if point is None else point.length,
            prompt_ids=added,
            ids=added if point is None else np.concatenate((point.ids, added)),
            text=text,
            digest=agent.encode(),
            known=0,
        )

    def add_prompt(self, index: int, placement: Placement) -> None:
        """Let later prompts start from the prompt of a new call."""
        before = None if placement.parent is None else self._points[placement.parent, placement.kept]
        point = _Point(call=index, length=len(placement.ids), sampled=False, own=placement.prompt_ids, before=before)
        self._add(point, placement.digest.decode(), placement.text)

    def add_reply(self, placement: Placement, call: Call, usable: int, closed_by: int | None) -> None:
        """Let later prompts continue after the answer of a call, with and without the token that ended it."""
        text_end = usable if closed_by is None else usable - 1
        text = placement.text + (call.reply.get("content") or "")
        prompt = self._points[call.index, len(placement.ids)]
        for count, ending in ((text_end, ""), (usable, "" if closed_by is None else self.renderer.decode((closed_by,)))):
            if count > 0:
                own = call.output_ids[:count]
                point = _Point(call=call.index, length=prompt.length + count, sampled=True, own=own, before=prompt)
                self._add(point, call.agent, text + ending)

    def _add(self, point: _Point, agent: str, text: str) -> None:
        self._points.setdefault((point.call, point.length), point)
        self._by_ids[agent].add(point.ids.tobytes(), point)
        self._by_text[agent].add(text.encode(), point)

    def _continue(self, prompt: str, agent: str, encode: Encode) -> tuple[_Point, Ids] | None:
        if not self._points:
            return None
        whole = prompt.encode()
        for length, point in self._by_text[agent].find(whole):
            rest = whole[length:].decode()
            if not rest:
                return point, point.own[:0]
            # Text is not cut at the end of a prompt: another prompt with the same beginning is encoded in one piece.
            if point.sampled:
                for added in self._try_encodings(point, rest, encode):
                    if self.renderer.decode([*point.ids.tolist(), *added.tolist()]) == prompt:
                        return point, added
        return None

    def _try_encodings(self, point: _Point, rest: str, encode: Encode) -> Iterator[Ids]:
        yield encode(rest)
        # Some tokenizers treat the start of a text specially, so the last id goes in front.
        last = int(point.own[-1])
        fronted = encode(self.renderer.decode((last,)) + rest)
        if len(fronted) and fronted[0] == last:
            yield fronted[1:]


@frozen(kw_only=True, eq=False)
class _Point:
    """A place in a recorded stream at which a later prompt may continue."""

    call: int
    length: int
    """Ids of the stream up to here."""
    sampled: bool
    """Whether this is after an answer, not a prompt."""
    own: Ids
    """The ids since `before`."""
    before: _Point | None

    @property
    def ids(self) -> Ids:
        """The ids of the stream up to here."""
        parts, point = [self.own], self.before
        while point is not None:
            parts.append(point.own)
            point = point.before
        return np.concatenate(parts[::-1])


@define(eq=False)
class _Beginnings:
    """Points by their prefixes, found in one pass over a prompt."""

    _lengths: list[int] = field(factory=list, init=False)
    _points: dict[bytes, _Point] = field(factory=dict, init=False)

    def add(self, data: bytes, point: _Point) -> None:
        """Add a point, unless it was recorded before."""
        if self._points.setdefault(blake2b(data, digest_size=16).digest(), point) is point and len(data) not in self._lengths:
            insort(self._lengths, len(data))

    def find(self, data: bytes) -> list[tuple[int, _Point]]:
        """Return the recorded beginnings of some bytes, and their points, the longest first."""
        found, rolling, done = [], blake2b(digest_size=16), 0
        for length in self._lengths:
            if length > len(data):
                break
            rolling.update(data[done:length])
            done = length
            point = self._points.get(rolling.digest())
            if point is not None:
                found.append((length, point))
        return found[::-1]
