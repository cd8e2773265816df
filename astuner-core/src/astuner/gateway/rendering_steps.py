"""A chat template that renders a conversation in steps, one for each message, and goes on from the steps of an earlier one.

What a step writes follows from what its turn of the loop can see: the values of outside that it reads (`entry`), what the
turns before it left in namespaces (`carried`), and the messages. How far into the conversation it looked is noted while
it runs (`reaches`): at its own message; one further, when it asks `loop.last` or `loop.nextitem`; at the whole, when it
counts from the end. So for two conversations with the same entry that share their first messages, the steps that
looked no further than these are the same, and so is what they left behind. All else of the template runs each time.

Where a step begins is known by when the loop asks for its next message, not by anything in the text.
"""

from __future__ import annotations

import marshal
import sys
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import is_
from typing import Any

from attrs import define, field, frozen
from jinja2 import Environment, Undefined
from jinja2.runtime import Context
from jinja2.utils import Namespace, missing

from astuner.gateway.rendering_loop import STEPS, VIEW, MessageLoop, find_loop

WHOLE = sys.maxsize - 1
"""The reach of a step that looked at where the conversation ends."""
LOST = sys.maxsize
"""The reach of a step that left behind what cannot be kept."""


@frozen(kw_only=True, eq=False)
class Steps:
    """A rendered conversation and where its steps begin."""

    text: str
    head: int
    """Characters before the first step."""
    starts: list[int]
    """Characters after the head at which each step begins, and the last one ends."""
    reaches: list[int]
    """The furthest message that each step or one before it looked at."""
    carried: list[tuple[Any, ...]]
    """What lies in the namespaces as each step begins, and after the last."""
    first: int
    """The message of the first step."""
    entry: bytes | None
    """The values of outside that the steps read; None when they cannot be compared, so nothing can go on from here."""
    messages: int
    """How many messages were rendered."""
    shared: int
    """Characters at the beginning that are known to be those of the conversation that this one went on from."""


class StepTemplate:
    """Renders as the template does from which it is made; raises NotInSteps for one that cannot be followed."""

    def __init__(self, source: str, environment: Environment) -> None:
        """`environment` is the one in which the template is rendered otherwise."""
        self._loop: MessageLoop = find_loop(environment.parse(source), environment)
        self._template = environment.from_string(self._loop.template)
        self.tells_generation = "add_generation_prompt" in self._loop.reads
        """Whether a step may differ with the header of the next answer."""

    def render(
        self, variables: Mapping[str, Any], messages: list[Mapping[str, Any]], earlier: Steps | None = None, same: int = 0
    ) -> Steps | None:
        """Return a rendered conversation, of which the first `same` messages are those of an earlier one.

        Returns None for variables that change what the template's own names mean.
        """
        if not self._loop.fixed.isdisjoint(variables):
            return None
        run = _Run(loop=self._loop, messages=messages, earlier=earlier, same=same)
        run.context = self._template.new_context({**variables, "messages": messages, STEPS: run.turns})
        for piece in self._template.root_render_func(run.context):
            run.pieces.append(piece)
        return run.result()


@define(eq=False, kw_only=True)
class _Run:
    """One rendering."""

    loop: MessageLoop
    messages: list[Mapping[str, Any]]
    earlier: Steps | None
    same: int
    context: Context = field(init=False)
    pieces: list[str] = field(factory=list)
    """What was written since the last step began."""
    reach: int = -1
    _parts: list[str] = field(factory=list)
    _head: str = ""
    _starts: list[int] = field(factory=list)
    _reaches: list[int] = field(factory=list)
    _carried: list[tuple[Any, ...]] = field(factory=list)
    _first: int = 0
    _entry: bytes | None = None
    _kept: int = 0
    """Characters of steps that were taken over."""
    _length: int = 0
    """Characters of all steps so far."""

    def turns(self, items: Any) -> Iterator[tuple[Any, ...]]:
        """Yield for each step what stands for `loop`, for the conversation wherever it is looked up, and its message."""
        self._head = self._written()
        first = self._place(items)
        items = list(items) if first is None else items
        self._first = first or 0
        values = {name: self._found(name) for name in self.loop.reads}
        views = self._views(values)
        namespaces = {name: values[name][1] for name, _ in self.loop.carried}
        if first is not None and all(isinstance(value, Namespace) for value in namespaces.values()):
            self._entry = _compared(values)
        start = self._restart(namespaces)
        for number in range(start, len(items)):
            self._begin(namespaces)
            self.reach = max(self.reach, self._first + number)
            yield Turn(self, items, number), *views, items[number]
            self._parts.append(self._written())
            self._length += len(self._parts[-1])
            self._reaches.append(self.reach)
        self._begin(namespaces)

    def result(self) -> Steps:
        """Return what was rendered."""
        text = "".join((self._head, *self._parts, *self.pieces))
        earlier, head = self.earlier, len(self._head)
        same_head = earlier is not None and earlier.head == head and earlier.text.startswith(self._head)
        return Steps(
            text=text,
            head=head,
            starts=self._starts,
            reaches=self._reaches,
            carried=self._carried,
            first=self._first,
            entry=self._entry,
            messages=len(self.messages),
            shared=head + self._kept if same_head else 0,
        )

    def undefined(self, hint: str) -> Undefined:
        """Return what a template gets for nothing."""
        return self.context.environment.undefined(hint)

    def look(self, place: int) -> None:
        """Note that the step depends on a message, or on there being none at its place."""
        self.reach = max(self.reach, place)

    def _restart(self, namespaces: Mapping[str, Any]) -> int:
        """Take over the steps that are the same as in the earlier conversation; return how many."""
        earlier = self.earlier
        if earlier is None or self._entry is None or earlier.entry != self._entry or earlier.first != self._first:
            return 0
        everything = self.same == len(self.messages) == earlier.messages
        start = bisect_right(earlier.reaches, WHOLE if everything else self.same - 1)
        self._starts, self._reaches = earlier.starts[:start], earlier.reaches[:start]
        self._carried = earlier.carried[:start]
        self._kept = self._length = earlier.starts[start]
        if start:
            self._parts.append(earlier.text[earlier.head : earlier.head + self._kept])
            self.reach = earlier.reaches[start - 1]
            for (name, attribute), value in zip(self.loop.carried, earlier.carried[start], strict=True):
                if value is not missing:
                    _attributes(namespaces[name])[attribute] = value
        return start

    def _begin(self, namespaces: Mapping[str, Any]) -> None:
        self._starts.append(self._length)
        left = tuple(_attributes(namespaces[name]).get(attribute, missing) for name, attribute in self.loop.carried)
        if self._reaches and not all(map(_can_be_kept, left)):
            self.reach = self._reaches[-1] = LOST
        self._carried.append(left)

    def _written(self) -> str:
        text = "".join(self.pieces)
        self.pieces.clear()
        return text

    def _found(self, name: str) -> tuple[str, Any]:
        """Return the value of a name as the loop begins, and whether it was set or given.

        Where a name was set, in a branch that was taken or not, decides what the loop sees, and this tells it.
        """
        if name in self.context.vars:
            return "set", self.context.vars[name]
        return ("given", self.context.parent[name]) if name in self.context.parent else ("missing", None)

    def _place(self, value: Any) -> int | None:
        """Return the first message of a list that is the conversation from there to its end, or None."""
        if value is self.messages:
            return 0
        if type(value) is not list or len(value) > len(self.messages):
            return None
        first = len(self.messages) - len(value)
        return first if all(map(is_, value, self.messages[first:])) else None

    def _views(self, values: dict[str, tuple[str, Any]]) -> list[Any]:
        """Return what the turns get for the names in which they look messages up; what is no conversation joins the values."""
        views: list[Any] = []
        for name in self.loop.views:
            found = self._found(name)
            first = self._place(found[1])
            if first is None:
                values[VIEW + name] = found
                views.append(self.context.environment.undefined(name=name) if found[0] == "missing" else found[1])
            else:
                values[VIEW + name] = ("conversation", first)
                views.append(View(self, found[1], first))
        return views


class Turn:
    """What `loop` is to a step."""

    __slots__ = ("_items", "_run", "first", "index", "index0")

    def __init__(self, run: _Run, items: Sequence[Any], number: int) -> None:
        self._run, self._items = run, items
        self.index0, self.index, self.first = number, number + 1, number == 0

    @property
    def last(self) -> bool:
        """Whether no message follows."""
        self._run.look(self._run._first + self.index)
        return self.index == len(self._items)

    @property
    def previtem(self) -> Any:
        """The message before."""
        return self._run.undefined("there is no previous item") if self.first else self._items[self.index0 - 1]

    @property
    def nextitem(self) -> Any:
        """The message that follows."""
        return self._run.undefined("there is no next item") if self.last else self._items[self.index]


class View:
    """A conversation in which a step looks up messages."""

    __slots__ = ("_first", "_items", "_run")

    def __init__(self, run: _Run, items: list[Any], first: int) -> None:
        self._run, self._items, self._first = run, items, first

    def __getitem__(self, place: Any) -> Any:
        # What has no end, or one that is counted from the end, depends on the whole conversation.
        ends = (place.start or 0, place.stop) if isinstance(place, slice) else (place,)
        plain = all(type(end) is int and end >= 0 for end in ends)
        self._run.look(self._first + max(ends) if plain else WHOLE)
        return self._items[place]


def _compared(values: Mapping[str, tuple[str, Any]]) -> bytes | None:
    """Return bytes that are the same for the same values only, down to types and the order of keys; None if there are none."""
    plain = [(name, kind, _plain(value)) for name, (kind, value) in values.items()]
    return _marshalled(plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Namespace):
        # Told from a mapping by the tuple around it, which no JSON holds.
        return ({key: _plain(held) for key, held in _attributes(value).items()},)
    # No value of JSON is an ellipsis.
    return ... if type(value) is Undefined else value


def _can_be_kept(value: Any) -> bool:
    if value is missing or value is None or type(value) in (str, int, float, bool, Undefined):
        return True
    return _marshalled(value) is not None


def _marshalled(value: Any) -> bytes | None:
    try:
        # Version 2 writes values only; later ones also which of them are the same object.
        return marshal.dumps(value, 2)
    except ValueError:
        return None


def _attributes(namespace: Any) -> dict[str, Any]:
    """Return the attributes of a template's namespace, which shows them one by one only."""
    attributes: dict[str, Any] = object.__getattribute__(namespace, "_Namespace__attrs")
    return attributes
