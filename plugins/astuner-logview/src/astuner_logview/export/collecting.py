"""The answers that an exported page needs, collected from the functions that answer the pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field

from astuner_logview.errors import Unanswerable
from astuner_logview.export.subjects import EpisodeSubject, GroupSubject, Subject, make_address

CHUNK = 2048
"""Tokens in an answer."""
MOST = 64 << 20
"""Bytes of JSON in one file; what is left out is named in it."""

Ask = Callable[[str], dict[str, Any]]
"""Returns the answer at an address; raises `Unanswerable`."""


@define(eq=False)
class Answers:
    """Answers by address, up to a size."""

    ask: Ask
    most: int = MOST
    found: dict[str, dict[str, Any]] = field(factory=dict, init=False)
    left_out: int = field(default=0, init=False)
    """Answers for which there was no room."""
    _size: int = field(default=0, init=False)

    def add(self, address: str) -> dict[str, Any] | None:
        """Ask for an answer and keep it; return None if there is no room for it, or none exists."""
        if address in self.found:
            return self.found[address]
        if self._size >= self.most:
            self.left_out += 1
            return None
        try:
            answer = self.ask(address)
        except Unanswerable:
            # The page says itself what it lacks.
            return None
        size = len(json.dumps(answer))
        if self._size + size > self.most:
            self.left_out += 1
            return None
        self._size += size
        self.found[address] = answer
        return answer


def collect(subject: Subject, ask: Ask, *, most: int = MOST) -> Mapping[str, dict[str, Any]]:
    """Return what the pages of a group or an episode ask for, by address; raises `Unanswerable` if it does not exist."""
    answers = Answers(ask, most)
    main = ask(subject.answer)
    answers.found[subject.answer] = main
    episodes = [one["id"] for one in main["siblings"]] if isinstance(subject, GroupSubject) else [subject.id]
    found = [answers.add(EpisodeSubject(run=subject.run, id=one).answer) for one in episodes]
    whole = [one for one in found if one is not None]
    shown = [(episode["id"], [call["turn"] for call in episode["calls"]]) for episode in whole]
    if isinstance(subject, GroupSubject):
        # Its columns show less of a text than an episode does.
        shown += [(sibling["id"], sibling["turns_shown"]) for sibling in main["siblings"]]
    for one, turns in shown:
        for address in _list_cut_texts(subject.run, one, turns):
            answers.add(address)
    # The first paths before the others: of a large group, each sibling has at least one.
    for main_only in (True, False):
        for episode in whole:
            for path in episode["paths"]:
                if path["main"] is main_only:
                    _add_tokens(answers, subject.run, episode["id"], path["leaf"])
    if answers.left_out:
        notice = f"this file holds {most >> 20} MB; {answers.left_out} more answers, as tokens of long episodes, have no room"
        answers.found[subject.answer] = {**main, "problems": [*main["problems"], notice]}
    return answers.found


def _add_tokens(answers: Answers, run: str, episode: str, leaf: int) -> None:
    stream = answers.add(make_address([run, "stream"], id=episode, path=leaf))
    if stream is not None:
        for chunk in range(-(-stream["tokens"] // CHUNK)):
            answers.add(make_address([run, "tokens"], id=episode, path=leaf, chunk=chunk))


def _list_cut_texts(run: str, episode: str, turns: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the addresses of the messages of an episode that a page shows in part."""
    for turn in turns:
        for place, message in enumerate(turn["messages"]):
            if message.get("cut"):
                yield make_address([run, "text"], id=episode, call=turn["call"], part="messages", message=place)
        if turn["reply"] is not None and turn["reply"].get("cut"):
            yield make_address([run, "text"], id=episode, call=turn["call"], part="reply")
