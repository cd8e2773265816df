"""What an agent's framework has changed in a conversation before it sends it back, in words for the user."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from astuner.model.gateway.recording.messages import encode_meaning

if TYPE_CHECKING:
    from astuner.contract.schema import Message

BRANCHES = "before it sends the conversation back, so the model reads what was not said, and the call begins a branch"


def find_rewritten(
    before: Sequence[Message],
    reply: Message,
    messages: Sequence[Message],
    shows_reasoning: Callable[[Message, Sequence[Message]], bool],
) -> Iterator[str]:
    """Yield a notice for each kind of change between a request with its answer, and a later request of the same agent.

    `shows_reasoning` says whether the template would show the reasoning of an answer that some messages follow.
    """
    size = len(before)
    if len(messages) <= size:
        return
    other = [place for place in range(size) if messages[place] != before[place]]
    if len(other) == 1 and messages[other[0]]["role"] == before[other[0]]["role"]:
        what = "the first message" if other[0] == 0 else f"an earlier message of the role {before[other[0]]['role']}"
        yield f"its framework rewrites {what} (a clock, a list of what failed) {BRANCHES}."
    elif not other and messages[size]["role"] == "assistant":
        sent, after = messages[size], messages[size + 1 :]
        yield from (f"its framework {what} {BRANCHES}." for what in _compare(reply, sent))
        thought, kept = reply.get("reasoning_content"), sent.get("reasoning_content")
        if thought and not kept and thought not in (sent.get("content") or "") and after and shows_reasoning(sent, after):
            yield (
                "its framework drops the reasoning of answers before it sends the conversation back. The template would show it "
                "here, so the model does not read what it thought, and the call begins a branch. Send `reasoning_content` back; "
                "docs/recording.md says what frameworks do."
            )


def _compare(reply: Message, sent: Message) -> Iterator[str]:
    said, calls = reply.get("tool_calls") or (), sent.get("tool_calls") or ()
    text, shown = (reply.get("content") or "").strip(), (sent.get("content") or "").strip()
    if len(calls) > len(said):
        yield "repairs tool calls that could not be read" if reply.get("malformed_tool_call") else "adds tool calls"
    elif len(calls) < len(said):
        yield "drops tool calls"
    elif said != calls and any(map(_differ, said, calls)):
        yield "changes the arguments of tool calls (it repairs them, or fills in defaults)"
    if text and not shown and calls:
        yield "drops the text next to tool calls"
    elif text != shown and len(calls) == len(said):
        yield "changes the text of answers"


def _differ(call: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    one, two = (encode_meaning({"role": "assistant", "tool_calls": [made]}) for made in (call, other))
    return one != two
