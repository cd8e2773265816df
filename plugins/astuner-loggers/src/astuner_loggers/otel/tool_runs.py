"""The tools that an episode ran: each call of a tool together with the message that answers it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from astuner.contract.schema import Call, Message
from astuner.contract.token_streams import prompt_length


@frozen(kw_only=True, eq=False)
class ToolRun:
    """One call of a tool that was answered."""

    call: Call
    """The model call that asked for it."""
    number: int
    """Position among the tool calls of the answer."""
    id: str
    name: str
    arguments: object
    """As the model wrote them: normally a text of JSON."""
    answer: Message


def find_tool_runs(calls: Sequence[Call]) -> Iterator[ToolRun]:
    """Yield them in the order in which the model asked. A tool call that no message answers was not run, as far as is known."""
    for place, call in enumerate(calls):
        asked = call.reply.get("tool_calls") or ()
        if not asked:
            continue
        answers = _find_answers(call, calls[place + 1 :])
        for number, one in enumerate(asked):
            function = one.get("function") or {}
            if (answer := answers.get(one.get("id"))) is not None:
                yield ToolRun(
                    call=call,
                    number=number,
                    id=str(one["id"]),
                    name=str(function.get("name")),
                    arguments=function.get("arguments"),
                    answer=answer,
                )


def _find_answers(call: Call, later: Sequence[Call]) -> dict[str, Message]:
    """Return the messages that answer the tool calls of a call, by id, from the first later call that has some."""
    for other in later:
        follows = other.parent == call.index and other.kept > prompt_length(call)
        messages = other.messages if follows else _follow_reply(call, other.messages)
        found: dict[str, Message] = {}
        for message in messages:
            # Some frameworks use the same ids in every turn.
            if message.get("role") == "assistant":
                break
            if message.get("role") == "tool" and message.get("tool_call_id"):
                found.setdefault(message["tool_call_id"], message)
        if found:
            return found
    return {}


def _follow_reply(call: Call, messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages after the last one that repeats the call's reply; none if it is not among them."""
    wanted = _name_calls(call.reply)
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].get("role") == "assistant" and _name_calls(messages[place]) == wanted:
            return messages[place + 1 :]
    return ()


def _name_calls(message: Message) -> list[tuple[object, object]]:
    return [(one.get("id"), (one.get("function") or {}).get("name")) for one in message.get("tool_calls") or ()]
