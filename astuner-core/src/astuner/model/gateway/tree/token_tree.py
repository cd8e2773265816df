"""The token tree: which recorded stream a new request continues, id for id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from attrs import Factory, define, evolve, field, frozen

from astuner.contract.schema import Call, Message
from astuner.contract.token_streams import prompt_length, stream_ids
from astuner.model.gateway.recording.messages import extend_digest, join_answers
from astuner.model.gateway.recording.request import ChatRequest
from astuner.model.gateway.tree.prompt_cache import PromptCache, digest_text
from astuner.model.rendering.errors import ApiError
from astuner.model.rendering.growing_text import GrowingText
from astuner.model.rendering.shape_probes import PROBE
from astuner.model.rendering.template_renderer import TemplateRenderer

if TYPE_CHECKING:
    from astuner.contract.schema import Ids
    from astuner.model.rendering.encoding import Encode

__all__ = ["Placement", "TokenTree", "stream_ids"]


@frozen(kw_only=True, eq=False)
class Placement:
    """Position of a request in the tree."""

    parent: int | None
    kept: int
    prompt_ids: Ids
    """Ids fed after the kept prefix."""
    ids: Ids
    """The whole prompt."""
    text: str
    """The whole prompt, rendered: the text of the ids, except for the sampled parts."""
    digest: bytes
    """Of the messages."""
    known: int
    """Number of messages that the parent already had."""
    begun: Message | None = None
    """The beginning of the answer, if the messages end with it."""


@frozen(kw_only=True, eq=False)
class _Point:
    """A place in a recorded stream at which a later request may continue."""

    call: int
    prompt: int
    """Ids of the stream that are the call's prompt."""
    kept: int
    """Ids of the stream that lie before this place."""
    text_length: int
    text_digest: bytes
    """Of the rendered prompt of the call: a continuation must begin with the same text."""
    reply: Message | None = None
    """The answer that ends here; None at the end of a prompt."""
    closed_by: int | None = None
    """The sampled token that ended the turn; None for an answer that was cut."""


@define(eq=False)
class TokenTree:
    """Recorded streams of one episode.

    A path is continued when the messages on it mean the same as the first messages of the request *and* the template
    only appends to them: the rendered request begins with the rendered path. Everything else branches off at the deepest
    point for which that holds. Points are found by a rolling digest, so a lookup costs one pass over the request.
    """

    renderer: TemplateRenderer
    _streams: dict[int, _Stream] = field(factory=dict, init=False)
    _points: dict[bytes, tuple[_Point, ...]] = field(factory=dict, init=False)
    _cache: PromptCache = field(factory=PromptCache, init=False)
    _growing: GrowingText = field(default=Factory(lambda self: GrowingText(self.renderer), takes_self=True), init=False)

    def place(self, request: ChatRequest, agent: str, encode: Encode) -> Placement:
        """Find the longest recorded prefix of a request and encode the rest; raises what `encode` raises."""
        if request.continues:
            return self._place_begun(request, agent, encode)
        text = self._growing.render(request.messages, request.tools, generate=True, kwargs=request.template_kwargs)
        return self._place(request, agent, text, encode)

    def _place_begun(self, request: ChatRequest, agent: str, encode: Encode) -> Placement:
        """Place a request whose last message is the beginning of its answer: sampled ids stay, whatever was fed is encoded."""
        tools, kwargs, messages = request.tools, request.template_kwargs, request.messages
        text, begun = self.renderer.render_beginning(messages, tools, kwargs=kwargs), messages[-1]
        before = evolve(request, messages=messages[:-1], continues=False)
        digest = self._cache.digest_prefixes(before, agent)[-1]
        for point in self._points.get(extend_digest(digest, begun), ()):
            own = self._streams[point.call].output[: point.kept - point.prompt - (point.closed_by is not None)]
            if not len(own) or text[point.text_length :] != self.renderer.decode(own.tolist()) or not self._begins(point, text):
                continue
            # The model said the beginning itself, so its ids stay.
            kept, none = point.prompt + len(own), own[:0].copy()
            ids, known = self._extend(point.call, kept, none), len(messages)
            found = Placement(parent=point.call, kept=kept, prompt_ids=none, ids=ids, text=text, digest=digest, known=known)
            return evolve(found, begun=begun)
        return evolve(self._place(before, agent, text, encode), begun=begun)

    def _place(self, request: ChatRequest, agent: str, text: str, encode: Encode) -> Placement:
        if not self._points:
            # Nothing is kept of a request that is refused here.
            ids = encode(text)
            digest = self._cache.digest_prefixes(request, agent)[-1]
            return Placement(parent=None, kept=0, prompt_ids=ids, ids=ids, text=text, digest=digest, known=0)
        chain = self._cache.digest_prefixes(request, agent)
        for known in range(len(chain) - 1, 0, -1):
            for point in self._points.get(chain[known], ()):
                found = self._continue(point, request, known, text, encode)
                if found is not None:
                    kept, added = found
                    ids = self._extend(point.call, kept, added)
                    return Placement(
                        parent=point.call, kept=kept, prompt_ids=added, ids=ids, text=text, digest=chain[-1], known=known
                    )
        ids = encode(text)
        return Placement(parent=None, kept=0, prompt_ids=ids, ids=ids, text=text, digest=chain[-1], known=0)

    def forget(self, request: ChatRequest, agent: str) -> None:
        """Drop what was cached to place a request that is refused."""
        self._cache.forget_prefixes(request, agent)

    def add_prompt(self, index: int, placement: Placement) -> None:
        """Let later requests start from the prompt of a new call."""
        prompt = self._cache.add_prompt(index, placement.parent, placement.text, placement.ids)
        length = len(placement.ids)
        point = _Point(call=index, prompt=length, kept=length, text_length=len(placement.text), text_digest=prompt.digest)
        self._streams[index] = _Stream(placement.parent, placement.kept, placement.prompt_ids, point)
        self._add(placement.digest, point)

    def add_reply(self, placement: Placement, call: Call, usable: int, closed_by: int | None) -> None:
        """Let later requests continue after the answer of a call.

        `usable` counts the output ids whose text is the answer as the client saw it; with 0 there is nothing to continue.
        """
        stream = self._streams[call.index]
        stream.output = call.output_ids
        if usable:
            reply = call.reply if placement.begun is None else join_answers([placement.begun, call.reply])[0]
            point = evolve(stream.point, kept=prompt_length(call) + usable, reply=reply, closed_by=closed_by)
            self._add(extend_digest(placement.digest, reply), point)

    def _add(self, digest: bytes, point: _Point) -> None:
        points = self._points.get(digest, ())
        # An identical retry adds no new point to continue from.
        if all(point.text_digest != other.text_digest or (point.reply is None) != (other.reply is None) for other in points):
            self._points[digest] = (*points, point)

    def _continue(self, point: _Point, request: ChatRequest, known: int, text: str, encode: Encode) -> tuple[int, Ids] | None:
        """Return how many ids stay and which are added, or None if the template does more than append here."""
        if not self._begins(point, text):
            return None
        rest = text[point.text_length :]
        if point.reply is None:
            return point.kept, encode(rest)
        return self._continue_verbatim(point, rest, encode) or self._continue_rewritten(point, request, known, text, encode)

    def _begins(self, point: _Point, text: str) -> bool:
        """Whether a text begins with the rendered prompt of a point's call."""
        recent = self._cache.find_prompt(point.call)
        if recent is not None:
            return text.startswith(recent.text)
        return digest_text(text[: point.text_length]) == point.text_digest

    def _continue_verbatim(self, point: _Point, rest: str, encode: Encode) -> tuple[int, Ids] | None:
        """Continue after an answer that the template renders exactly as sampled."""
        output = self._streams[point.call].output[: point.kept - point.prompt]
        sampled_text = self.renderer.decode(output.tolist())
        if not rest.startswith(sampled_text):
            return None
        if point.closed_by is None:
            added = encode(rest[len(sampled_text) :])
            return (point.kept, added) if self.renderer.decode(added.tolist()) == rest[len(sampled_text) :] else None
        # Encoded with the closing token in front: tokenizers treat the start of a text specially.
        closing = self.renderer.turn_ends.get(point.closed_by) or self.renderer.decode((point.closed_by,))
        added = encode(closing + rest[len(sampled_text) :])
        return (point.kept, _drop_first(added)) if added[0] == point.closed_by else None

    def _continue_rewritten(
        self, point: _Point, request: ChatRequest, known: int, text: str, encode: Encode
    ) -> tuple[int, Ids] | None:
        """Continue after an answer that the template rewrites and then only appends to."""
        reply = point.reply or {}
        if reply.get("reasoning_content") and not reply.get("content") and not reply.get("tool_calls"):
            # The model did not end its reasoning, but the template does.
            return None
        for closed in self._render_closings(request, known):
            answer = closed[point.text_length :]
            end, place = self._find_close(answer)
            if end >= 0 and text.startswith(closed) and _shows_everything(reply, answer[:end]):
                break
        else:
            return None
        added = encode(text[point.text_length + end :])
        if not len(added) or added[0] != place:
            return None
        if point.closed_by is None:
            return point.kept, added
        if point.closed_by == place:
            return point.kept, _drop_first(added)
        # The model ended its turn with a token other than the template's: the conversation continues with the template's.
        return (point.kept - 1, added) if point.kept - 1 > point.prompt else None

    def _find_close(self, answer: str) -> tuple[int, int]:
        """Return where the tokens that close a rendered answer begin, or -1, and the first of them."""
        closers = self.renderer.closers
        end, place = max((answer.rfind(word), number) for number, word in closers.items())
        # Some templates write several, such as Cohere's <|END_RESPONSE|><|END_OF_TURN_TOKEN|>.
        while end > 0 and (before := [number for number, word in closers.items() if answer[:end].endswith(word)]):
            end, place = end - len(closers[before[0]]), before[0]
        return end, place

    def _render_closings(self, request: ChatRequest, known: int) -> Iterator[str]:
        """Yield beginnings of the rendered request that hold the known messages and the end of the last answer."""
        tools, kwargs, known_messages = request.tools, request.template_kwargs, request.messages[:known]
        with suppress(ApiError):
            yield self._growing.render(known_messages, tools, generate=False, kwargs=kwargs)
        # A template may render an answer differently as the last message, or close it with the next one's beginning.
        for following in request.messages[known : known + 1]:
            with suppress(ApiError):
                probed = (*known_messages, {**following, "content": PROBE})
                before, found, _ = self._growing.render(probed, tools, generate=False, kwargs=kwargs).rpartition(PROBE)
                if found:
                    yield before

    def _extend(self, index: int, kept: int, added: Ids) -> Ids:
        """Return the first ids of a stream, and what follows them."""
        recent = self._cache.find_prompt(index)
        if recent is not None:
            return np.concatenate((recent.ids[:kept], self._streams[index].output[: max(0, kept - len(recent.ids))], added))
        parts: list[Ids] = [added]
        place: int | None = index
        while place is not None:
            stream = self._streams[place]
            own = np.concatenate((stream.prompt, stream.output)) if len(stream.output) else stream.prompt
            parts.append(own[: max(0, kept - stream.kept)])
            kept = min(kept, stream.kept)
            place = stream.parent
        return np.concatenate(parts[::-1])


@define(eq=False)
class _Stream:
    parent: int | None
    kept: int
    prompt: Ids
    point: _Point
    """The end of the prompt."""
    output: Ids = field(factory=lambda: np.empty(0, np.int32))


def _drop_first(ids: Ids) -> Ids:
    # A view would keep the whole array, and itself, alive for the episode.
    rest = ids[1:].copy()
    rest.setflags(write=False)
    return rest


def _shows_everything(reply: Message, rendered: str) -> bool:
    """Whether a rendered answer still shows everything sampled: templates drop reasoning, or text next to tool calls."""
    parts = (reply.get("content"), reply.get("reasoning_content"))
    called = [call["function"]["name"] for call in reply.get("tool_calls") or ()]
    texts = all(text.strip() in rendered for text in parts if text)
    return texts and all(rendered.count(name) >= called.count(name) for name in set(called))
