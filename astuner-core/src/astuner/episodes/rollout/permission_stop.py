"""An agent of AgentScope 2 that asked for tools and ended, since nothing grants it the permission to run them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from astuner.contract.schema import Call, WorkflowOutput
from astuner.shared.clients.agentscope_models import find_agentscope, is_version_1

WAITING = "waiting for your permission"
"""In the answer of such an agent."""

TOPIC = "agentscope permission stop"

REMEDY = (
    "In a run there is no user to grant it: make the tool `FunctionTool(..., is_read_only=True)`, or give the agent's state "
    "`PermissionMode.BYPASS`"
)


def describe_permission_stop(output: WorkflowOutput | None, calls: Sequence[Call]) -> str | None:
    """Return a notice on an episode that ended for want of a permission; None for any other."""
    if output is None or not calls:
        return None
    tools = ", ".join(sorted(set(_list_unanswered(calls))))
    if any(WAITING in text for text in _list_texts(output)):
        return f"an agent waited for the permission to run {tools or 'a tool'}, and its episode ended there. {REMEDY}"
    version = find_agentscope() if tools else None
    has_results = any(message.get("role") == "tool" for call in calls for message in call.messages)
    if version is None or is_version_1(version) or has_results:
        return None
    return (
        f"an agent asked for {tools} and its episode ended without running it, in its first turn. If this is an agent of "
        f"AgentScope {version}, it waits for a permission. {REMEDY}"
    )


def _list_texts(output: WorkflowOutput) -> Iterator[str]:
    yield from (value for value in output.metadata.values() if isinstance(value, str))


def _list_unanswered(calls: Sequence[Call]) -> Iterator[str]:
    """Yield the tools that the last call of each agent asked for."""
    last = {call.agent: call for call in calls}
    for call in last.values():
        for wanted in call.reply.get("tool_calls") or ():
            yield str(_read(wanted.get("function"), "name"))


def _read(value: Any, name: str) -> Any:
    return value.get(name, "") if isinstance(value, Mapping) else ""
