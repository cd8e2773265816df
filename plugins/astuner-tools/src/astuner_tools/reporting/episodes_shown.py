"""Episodes that a report shows: answers before and after, and failures with an example each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astuner.contract.schema import Episode, Unjudged
from astuner.episodes.transcript.terminal_text import Page
from astuner.runs.store.episode_index import IndexedEpisode
from astuner.runs.store.episode_store import SPLITS
from astuner_tools.diagnosis.groups import name_reason
from astuner_tools.reporting.evidence import Evidence, cite_file

MOST_CHANGES = 2
"""Tasks that are shown at each end."""
MOST_FAILURES = 500
"""Failed episodes of a split that are read."""
LONGEST, LONGEST_DETAIL = 1200, 300
"""Characters of a text that are shown."""

Pair = tuple[float, IndexedEpisode, IndexedEpisode]


def show_examples(evidence: Evidence) -> dict[str, Any]:
    """Return the answers to the validation tasks that gained and lost most between the first and the last validation."""
    old, new = ({(one.task_id, one.repeat): one for one in end} for end in evidence.ends or ((), ()))
    shared = [(old[key], one) for key, one in new.items() if key in old]
    pairs = [(b.reward - a.reward, a, b) for a, b in shared if a.reward is not None and b.reward is not None]
    gained = _choose_tasks(sorted((one for one in pairs if one[0] > 0), key=lambda one: -one[0]))
    lost = _choose_tasks(sorted((one for one in pairs if one[0] < 0), key=lambda one: one[0]))
    shown = {name: [_show_pair(evidence, pair) for pair in found] for name, found in (("better", gained), ("worse", lost))}
    return {"episodes": len(pairs), **shown}


def list_failures(evidence: Evidence) -> dict[str, Any]:
    """Return what failed, how often, and an episode of each kind."""
    kinds: list[dict[str, Any]] = []
    unread = dict.fromkeys(SPLITS, 0)
    for split in filter(evidence.run.has_episodes, SPLITS):
        index = evidence.run.index_episodes(split)
        failed = [one for one in index if one.failed]
        unread[split] = len(failed[MOST_FAILURES:])
        found: dict[str, list[Episode]] = {}
        for episode in filter(None, map(index.load, failed[:MOST_FAILURES])):
            found.setdefault(_name_failure(episode)[0], []).append(episode)
        for reason, episodes in sorted(found.items(), key=lambda one: -len(one[1])):
            count = cite_file(f"episodes/{split}.jsonl: failed, {reason}", len(episodes))
            detail = _shorten(_name_failure(episodes[-1])[1], LONGEST_DETAIL)
            found_here = {"reason": reason, "split": split, "count": count, "of": len(index), "detail": detail}
            kinds.append({**found_here, "example": evidence.cite_episode(episodes[-1].id)})
    return {"kinds": kinds, "unread": unread, "stored": any(map(evidence.run.has_episodes, SPLITS))}


def _choose_tasks(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the first pairs of different tasks."""
    first: dict[str, Pair] = {}
    for pair in pairs:
        first.setdefault(pair[1].task_id, pair)
    return list(first.values())[:MOST_CHANGES]


def _show_pair(evidence: Evidence, pair: Pair) -> dict[str, Any]:
    played = [(one, evidence.validated.load(one)) for one in pair[1:]]
    question = next((episode.task.main_query for _, episode in played if episode is not None), "")
    answers = [
        {
            "step": one.step,
            "reward": evidence.cite_episode(one.id, one.reward),
            "answer": _shorten(_read_answer(episode), LONGEST) if episode else "The episode is damaged.",
        }
        for one, episode in played
    ]
    return {"task": pair[1].task_id, "question": _shorten(question, LONGEST), "answers": answers}


def _read_answer(episode: Episode) -> str:
    texts = (call.reply.get("content") for call in reversed(episode.calls))
    failed = name_reason(episode)
    nothing = f"No answer in words{f'; the episode failed: {failed}' if failed else ''}."
    return next((text for text in texts if isinstance(text, str) and text.strip()), nothing)


def _name_failure(episode: Episode) -> tuple[str, str]:
    """Return the reason, and what is known of it."""
    if (reason := name_reason(episode)) is not None:
        last = episode.failures[-1]
        return reason, ": ".join(filter(None, (last.place, last.detail)))
    verdict = episode.verdict
    return (verdict.reason, verdict.detail) if isinstance(verdict, Unjudged) else ("failed", "")


def _shorten(text: str, longest: int) -> str:
    return Page(longest=longest).shorten(text.strip())
