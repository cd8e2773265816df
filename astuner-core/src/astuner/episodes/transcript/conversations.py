"""Which conversation of its agent a call belongs to: programs such as coding agents hold several at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from astuner.contract.schema import Call
from astuner.contract.token_streams import prompt_length, stream_length


def name_conversations(calls: Iterable[Call]) -> Mapping[int, str]:
    """Return names for the calls that begin a conversation or a branch, by index, for agents with more than one of them.

    The main line is the conversation with the most calls; of several, the one with the most tools, then the first. Another one
    is a side call if it is a single call without tools while the main line has tools, such as one for a title; else it is a
    side conversation, such as that of a sub-agent. A branch continues a call's prompt without its answer, or a call that another
    one already continues: a retry, or a conversation whose history was edited or summarised.
    """
    agents: dict[str, dict[int, list[Call]]] = {}
    roots: dict[int, int] = {}
    prompts: dict[int, int] = {}
    continued: set[int] = set()
    names: dict[int, str] = {}
    for call in calls:
        if not stream_length(call):
            continue
        roots[call.index] = root = call.index if call.parent is None else roots[call.parent]
        agents.setdefault(call.agent, {}).setdefault(root, []).append(call)
        if call.parent is not None:
            if call.parent in continued or call.kept <= prompts[call.parent]:
                names[call.index] = f"branch of call {call.parent}"
            else:
                continued.add(call.parent)
        prompts[call.index] = prompt_length(call)
    for trees in agents.values():
        if len(trees) > 1:
            names |= _name_roots(list(trees.values()))
    return names


def _name_roots(trees: Sequence[Sequence[Call]]) -> Mapping[int, str]:
    main = max(trees, key=lambda tree: (len(tree), len(tree[0].tools), -tree[0].index))
    return {tree[0].index: "main line" if tree is main else _name_other(tree, bool(main[0].tools)) for tree in trees}


def _name_other(tree: Sequence[Call], main_has_tools: bool) -> str:
    return "side call" if len(tree) == 1 and not tree[0].tools and main_has_tools else "side conversation"
