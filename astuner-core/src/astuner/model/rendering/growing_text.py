"""The texts of a conversation that grows: what is said again is not rendered again, as far as trials show that it stays."""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from operator import is_
from typing import Any

from attrs import define, evolve, field, frozen

from astuner.contract.schema import Message
from astuner.model.rendering.errors import ApiError
from astuner.model.rendering.template_renderer import TemplateRenderer

SHORTEST = 24
"""Messages from which on some are left out."""
MOST = 64
"""Messages that are rendered at most where some are left out."""
TAIL = 16
"""Messages behind those that are left out from which on more are."""
KEPT = 4
"""Conversations of an episode, such as one of each agent, of which something is known."""
Render = Callable[..., str]
_LOG = logging.getLogger(__name__)
_TAG = re.compile(r"<[^<>\s]{1,30}>")


@frozen(kw_only=True, eq=False)
class _Trial:
    """A conversation, rendered with the messages from `head` to `cut` and without them: they only put a text in."""

    key: object
    messages: Sequence[Message]
    head: int
    cut: int
    kinds: frozenset[object]
    """Of the messages after `cut`."""
    settled: str
    """What is rendered without them, up to what may change when more follows."""
    at: int
    """Characters of it before the text that they put in."""
    text: str
    """The whole text up to its end."""
    whole: int
    """Messages of the last rendering of everything."""

    def begins(self, messages: Sequence[Message]) -> bool:
        return len(messages) > self.cut and all(map(is_, self.messages[: self.cut], messages))


@define(eq=False)
class GrowingText:
    """Renders the conversations of an episode, each of which mostly goes on.

    Once in a while a conversation is rendered with its middle and without. If the middle only puts a text in, and later messages
    are of the same kinds as those in it, these are rendered without it from then on: for as long as what is before them stays,
    no other kind of message follows, and the template counts no further than to two. Whenever the conversation is twice as long,
    all of it is rendered and compared. A template that looks for a text in all earlier messages could differ until then.
    """

    renderer: TemplateRenderer
    _trials: list[_Trial] = field(factory=list, init=False)
    _next: float = field(default=SHORTEST, init=False)
    """Messages from which on a trial is made, after one that failed."""

    def render(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], *, generate: bool, kwargs: Mapping[str, Any]
    ) -> str:
        """Return what `TemplateRenderer.render` does; raises what it raises."""
        render = partial(self.renderer.render, tools=tools, kwargs=kwargs)
        if len(messages) < SHORTEST or not self.renderer.counts_little(tools):
            return render(messages, generate=generate)
        key = repr((tools, kwargs))
        trial = next((one for one in self._trials if one.key == key and one.begins(messages)), None)
        text = None if trial is None else _put_in(trial, messages, render, generate)
        if trial is not None and text is not None and not (generate and len(messages) >= 2 * trial.whole):
            if generate and len(messages) - trial.cut > TAIL and len(messages) >= self._next:
                self._try(messages, key, render, trial)
            return text
        found = render(messages, generate=generate)
        if text not in (None, found):
            _LOG.warning("the chat template renders later messages in another way; this episode's are rendered whole from now on")
            self._trials, self._next = [], inf
        if generate and len(messages) >= self._next:
            self._trials = [one for one in self._trials if one is not trial]
            checked = None if text is None or trial is None else evolve(trial, whole=len(messages))
            self._try(messages, key, render, checked)
        return found

    def _try(self, messages: Sequence[Message], key: object, render: Render, trial: _Trial | None) -> None:
        made = _make_trial(messages, key, render, trial)
        if made is None:
            self._next = 2 * len(messages)
        else:
            self._trials = [made, *(one for one in self._trials if one is not trial)][:KEPT]


def _put_in(trial: _Trial, messages: Sequence[Message], render: Render, generate: bool) -> str | None:
    """Return the text of a conversation that goes on from that of a trial; None if that does not show how."""
    later = messages[trial.cut :]
    if trial.head + len(later) > MOST or not trial.kinds.issuperset(map(_find_kind, later)):
        return None
    with suppress(ApiError):
        short = render([*messages[: trial.head], *later], generate=generate)
        if short.startswith(trial.settled):
            return trial.text + short[trial.at :]
    return None


def _make_trial(messages: Sequence[Message], key: object, render: Render, trial: _Trial | None) -> _Trial | None:
    """Render a conversation with its middle and without; None if that shows nothing."""
    head, cut = _find_middle(messages, [_find_kind(message) for message in messages])
    if cut == 0:
        return None
    later = messages[cut:]
    with suppress(ApiError):
        whole = render(messages, generate=False) if trial is None else _put_in(trial, messages, render, generate=False)
        short = render([*messages[:head], *later], generate=False)
        settled = short[: _count_common(short, render([*messages[:head], *later[:-1]], generate=False))]
        if whole is None:
            return None
        at, more = _count_common(short, whole), len(whole) - len(short)
        if more > 0 and at <= len(settled) and whole.endswith(short[at:]):
            return _Trial(
                key=key,
                messages=messages,
                head=head,
                cut=cut,
                kinds=frozenset(map(_find_kind, later)),
                settled=settled,
                at=at,
                text=whole[: at + more],
                whole=len(messages) if trial is None else trial.whole,
            )
    return None


def _count_common(one: str, other: str) -> int:
    """Return how many first characters are the same."""
    return bisect_left(range(min(len(one), len(other))), True, key=lambda place: one[: place + 1] != other[: place + 1])


def _find_middle(messages: Sequence[Message], kinds: Sequence[object]) -> tuple[int, int]:
    """Return between which messages others are only of kinds that also lie behind them, before the last; 0 and 0 if nowhere.

    Their number is even, and what follows them has the role of the first of them, so that roles go on alternating.
    """
    for cut in range(len(messages) - 4, len(messages) - MOST // 2, -1):
        behind = set(kinds[cut:-1])
        head = next((place + 1 for place in range(cut - 1, -1, -1) if kinds[place] not in behind), 0)
        head = max(head, 2)
        if head + len(messages) - cut > MOST // 2:
            continue
        if cut - head > 4 and (cut - head) % 2 == 0 and messages[head]["role"] == messages[cut]["role"]:
            return head, cut
    return 0, 0


def _find_kind(message: Message) -> object:
    """Return what templates tell messages apart by."""
    content, calls = str(message["content"]), message.get("tool_calls") or ()
    given = frozenset(name for name, value in message.items() if value)
    return message["role"], given, len(calls) > 1, bool(content.strip()), frozenset(_TAG.findall(content))
