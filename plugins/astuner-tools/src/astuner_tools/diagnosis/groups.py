"""Siblings of a task, and what of their episodes is compared."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from astuner.contract.schema import Call, Episode, Verdict

SOLVED = 0.9
"""Share of the highest reward from which on an episode counts as solved, if its success is not known."""


def group_siblings(episodes: Iterable[Episode]) -> list[list[Episode]]:
    """Return the episodes by step and task, those of two siblings or more."""
    groups: dict[tuple[int, str], list[Episode]] = {}
    for one in episodes:
        groups.setdefault((one.step, one.task.task_id), []).append(one)
    return [siblings for siblings in groups.values() if len(siblings) > 1]


def write_answers(episode: Episode) -> tuple[str, ...]:
    """Return all that the model has said in an episode, call by call: texts and tool calls without their ids."""
    return tuple(_write_reply(call) for call in episode.calls)


def write_last_answer(episode: Episode) -> str:
    """Return the text of the last answer, with its blanks made equal."""
    for call in reversed(episode.calls):
        text = call.reply.get("content")
        if isinstance(text, str) and text.strip():
            return " ".join(text.split())
    return ""


def are_alike(siblings: Sequence[Episode]) -> bool:
    """Whether all siblings have said the same, word for word; at least something was said."""
    answers = {write_answers(one) for one in siblings}
    return len(answers) == 1 and any(answers.pop())


def measure_alike(episodes: Sequence[Episode], best: float) -> tuple[float, list[list[Episode]]] | None:
    """Return the share of groups whose siblings are alike, and these groups; None if all groups are solved.

    `best` is the highest reward that was seen: of a task that is solved, siblings may well say the same.
    """
    groups = [siblings for siblings in group_siblings(episodes) if not _are_solved(siblings, best)]
    alike = [siblings for siblings in groups if are_alike(siblings)]
    return (len(alike) / len(groups), alike) if groups else None


def _are_solved(siblings: Sequence[Episode], best: float) -> bool:
    if any(one.is_success is not None for one in siblings):
        return all(one.is_success for one in siblings)
    return best > 0 and all(one.reward is not None and one.reward >= SOLVED * best for one in siblings)


def name_reason(episode: Episode) -> str | None:
    """Return why an episode failed; None if it did not."""
    return episode.failures[-1].reason if not episode.completed and episode.failures else None


def count_reasons(episodes: Iterable[Episode]) -> Counter[str]:
    """Count failed episodes by reason."""
    return Counter(reason for one in episodes if (reason := name_reason(one)) is not None)


def name_ends(episodes: Iterable[Episode]) -> list[str]:
    """Return the ids of the episodes with the lowest and with the highest reward."""
    judged = sorted((one for one in episodes if one.reward is not None), key=lambda one: one.reward or 0.0)
    return [judged[0].id, judged[-1].id] if len(judged) > 1 else [one.id for one in judged]


def list_judged(episodes: Iterable[Episode]) -> list[Episode]:
    """Return those on which a judge has given a verdict: not those with a failure reward alone."""
    return [one for one in episodes if isinstance(one.verdict, Verdict) and not one.verdict.presumed and one.completed]


def _write_reply(call: Call) -> str:
    asked = [one.get("function") for one in call.reply.get("tool_calls") or () if isinstance(one, dict)]
    return f"{call.reply.get('content') or ''}{json.dumps(asked, sort_keys=True, default=str) if asked else ''}"
