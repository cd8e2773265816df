"""From the spans of a trace to turns: a user's question, the messages before it, and the agent's answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import evolve, frozen

from astuner_tracing.exchange import (
    Exchange,
    exchange_of,
    find_agent_name,
    find_conversation_id,
    find_model_name,
    is_agent,
    is_model,
    list_tools,
)
from astuner_tracing.messages import ChatMessage
from astuner_tracing.records import Span


@frozen(kw_only=True)
class Turn:
    """One question of a user and its answer."""

    source: str
    trace_id: str
    span_id: str
    """The id of the agent's span, or of the first model call."""
    members: tuple[str, ...]
    """Ids of its spans; annotations of these belong to the turn."""
    time_ns: int
    query: str
    """Empty if there is no question."""
    before: tuple[ChatMessage, ...] = ()
    """System prompt and earlier turns."""
    answer: str | None = None
    tools: tuple[str, ...] = ()
    """Names of the tools that were called, in order, without repetition."""
    agent: str | None = None
    model: str | None = None
    conversation_id: str | None = None
    not_text: bool = False
    """Whether the question has more than text."""
    selected: bool = True
    """Whether it is a turn of a selected agent."""


def find_turns(spans: Sequence[Span], agents: Sequence[str] = ()) -> list[Turn]:
    """Return the turns of one trace, in order of time; none for a trace without a question.

    Each outermost span of an agent is a turn; with `agents` those with these names are selected, and the other turns only
    counted. In a trace without agents model calls are turns: those that begin with the same messages, up to the user's last, are
    one. In a trace without either, the root is one if it has an input.
    """
    tree = _Tree(spans)
    wanted = tree.find_outermost(lambda span: is_agent(span) and (not agents or find_agent_name(span) in agents))
    inside = {one.span_id for span in wanted for one in tree.list_below(span)}
    others = tree.find_outermost(lambda span: is_agent(span) and inside.isdisjoint(_ids(tree.list_below(span)))) if agents else []
    found = [(span, _agent_turn(span, tree.list_below(span))) for span in (*wanted, *others)]
    turns = [turn for _, turn in found if turn is not None]
    if not turns:
        turns = _model_turns(tree.ordered)
    if not turns:
        turns = [turn for span in tree.roots if (turn := _agent_turn(span, tree.list_below(span))) is not None]
    # An agent's question may not have been recorded; annotations of that turn belong to no other.
    turns += [_turn(span, tree.list_below(span), ChatMessage(role="user"), (), None) for span, turn in found if turn is None]
    chosen = {span.span_id for span in wanted}
    turns = [evolve(turn, selected=turn.span_id in chosen) for turn in turns] if agents else turns
    return sorted(turns, key=lambda turn: turn.time_ns)


class _Tree:
    """The spans of a trace by parent. A span whose parent is missing, or that is its own ancestor, is a root."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.ordered = sorted(spans, key=lambda span: (span.start_ns, span.end_ns, span.span_id))
        self._known = {span.span_id: span for span in self.ordered}
        self._children: dict[str, list[Span]] = {}
        self.roots: list[Span] = []
        for span in self.ordered:
            if span.parent_id in self._known and not self._is_in_circle(span):
                self._children.setdefault(span.parent_id or "", []).append(span)
            else:
                self.roots.append(span)

    def find_outermost(self, is_one: Callable[[Span], bool]) -> list[Span]:
        """Return the matching spans without a matching ancestor, in order of time."""
        found, waiting = [], list(self.roots)
        while waiting:
            span = waiting.pop()
            if is_one(span):
                found.append(span)
            else:
                waiting += self._children.get(span.span_id, ())
        return self._sort(found)

    def list_below(self, span: Span) -> list[Span]:
        """Return a span and its descendants, in order of time."""
        found, waiting = [], [span]
        while waiting:
            one = waiting.pop()
            found.append(one)
            waiting += self._children.get(one.span_id, ())
        return self._sort(found)

    def _sort(self, spans: Iterable[Span]) -> list[Span]:
        return sorted(spans, key=lambda span: (span.start_ns, span.end_ns, span.span_id))

    def _is_in_circle(self, span: Span) -> bool:
        seen = {span.span_id}
        above = self._known.get(span.parent_id or "")
        while above is not None:
            if above.span_id in seen:
                return True
            seen.add(above.span_id)
            above = self._known.get(above.parent_id or "")
        return False


def _agent_turn(span: Span, below: Sequence[Span]) -> Turn | None:
    own = exchange_of(span)
    calls = [(one, exchange) for one in below if is_model(one) and (exchange := exchange_of(one)).asked]
    if not own.opening:
        # The span has no input; the calls below it do.
        turns = _model_turns(below)
        if not turns:
            return None
        answer = (own.answer if own.answer is not None else turns[-1].answer) if not span.failed else None
        return evolve(
            turns[0],
            span_id=span.span_id,
            members=_ids(below),
            answer=answer,
            tools=list_tools(below),
            agent=find_agent_name(span),
        )
    query = own.opening[-1]
    # The agent's input is only the question; the rest of its model's context is in its first call.
    shown = next((exchange.opening for _, exchange in calls if exchange.opening and _is_same(exchange.opening[-1], query)), ())
    before = max(own.opening[:-1], shown[:-1], key=len)
    answer = own.answer
    if answer is None and not own.said and not span.failed and calls:
        answer = calls[-1][1].answer
    return _turn(span, below, query, before, answer)


def _model_turns(spans: Sequence[Span]) -> list[Turn]:
    """Return a turn for each run of calls with the same opening."""
    groups: list[tuple[Sequence[ChatMessage], list[Span], list[Exchange]]] = []
    for span in spans:
        if not is_model(span):
            continue
        exchange = exchange_of(span)
        if not exchange.opening:
            continue
        for opening, members, exchanges in groups:
            if len(opening) == len(exchange.opening) and all(map(_is_same, opening, exchange.opening)):
                members.append(span)
                exchanges.append(exchange)
                break
        else:
            groups.append((exchange.opening, [span], [exchange]))
    alone = len(groups) == 1
    return [
        _turn(members[0], spans if alone else members, opening[-1], opening[:-1], exchanges[-1].answer)
        for opening, members, exchanges in groups
    ]


def _turn(span: Span, below: Sequence[Span], query: ChatMessage, before: Sequence[ChatMessage], answer: str | None) -> Turn:
    return Turn(
        source=span.source,
        trace_id=span.trace_id,
        span_id=span.span_id,
        members=_ids(below),
        time_ns=span.start_ns,
        query=query.text.strip(),
        before=tuple(before),
        answer=answer,
        tools=list_tools(below),
        agent=find_agent_name(span) if is_agent(span) else None,
        model=next((name for one in below if (name := find_model_name(one))), None),
        conversation_id=next((found for one in (span, *below) if (found := find_conversation_id(one))), None),
        not_text=query.not_text,
    )


def _ids(spans: Iterable[Span]) -> tuple[str, ...]:
    return tuple(span.span_id for span in spans)


def _is_same(one: ChatMessage, other: ChatMessage) -> bool:
    return one.role == other.role and one.text.strip() == other.text.strip()
