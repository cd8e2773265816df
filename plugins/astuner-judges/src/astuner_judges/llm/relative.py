"""Scoring the conversations of all siblings in one question, without labels, as RULER does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from statistics import fmean

from astuner.contract.schema import Unjudged, Verdict
from astuner.shared.clients import fence
from astuner_judges.asking import NO_ANSWER
from astuner_judges.llm.asker import Asker, require_majority
from astuner_judges.llm.episode_text import shorten, split_beginning
from astuner_judges.llm.listwise import choose_orders
from astuner_judges.llm.options import LlmJudgeOptions
from astuner_judges.llm.pairs import shuffle_works
from astuner_judges.llm.questions import BEGINNING, Questions
from astuner_judges.llm.relative_scores import Works, share_turned
from astuner_judges.llm.shapes import make_scores_shape

CONVERSATION_CHARS = 16_000
"""Most characters of a conversation that are shown, unless `transcript_chars` says otherwise."""

Scores = Mapping[str, float]
"""Of each conversation in one answer of the LLM."""


async def score_conversations(
    works: Works, task: Mapping[str, str], *, questions: Questions, asker: Asker, options: LlmJudgeOptions, key: str
) -> list[Verdict | Unjudged]:
    """Return a verdict per conversation, its mean score over several orders; `key` chooses the first order.

    Scores are absolute enough that one conversation alone gets one too. The same conversation has one score; an empty one is the
    worst, unasked.
    """
    there = shuffle_works((work for work in works if work is not None), key)
    scores: list[Scores] = []
    reasons: list[str] = []
    if there:
        orders = choose_orders(there, options.orders)
        shown = _show(there, questions, options)
        asked = (_ask_scores(order, shown, task, questions, asker) for order in orders)
        found = require_majority(await asyncio.gather(*asked))
        if isinstance(found, Unjudged):
            return [found if work is not None else _judge_work(None, there, [], [], options) for work in works]
        scores = [values for of_order, _ in found for values in of_order]
        reasons = list(dict.fromkeys(rationale for _, rationale in found if rationale))
    return [_judge_work(work, there, scores, reasons, options) for work in works]


def _show(there: Sequence[str], questions: Questions, options: LlmJudgeOptions) -> Mapping[str | None, str]:
    """Return each conversation as it is shown, and under None what all of them begin with."""
    beginning, rests = split_beginning(there) if questions.has_beginning else ("", there)
    most = options.transcript_chars or CONVERSATION_CHARS
    shown: dict[str | None, str] = {
        work: fence(shorten(rest, most), "transcript") for work, rest in zip(there, rests, strict=True)
    }
    return {**shown, None: fence(shorten(beginning, most), BEGINNING) if beginning else ""}


async def _ask_scores(
    order: Sequence[str], shown: Mapping[str | None, str], task: Mapping[str, str], questions: Questions, asker: Asker
) -> tuple[list[Scores], str] | Unjudged:
    numbered = questions.number_works([shown[work] for work in order])
    votes = await asker.collect_votes(
        questions.ask(task, answers=numbered, **{BEGINNING: shown[None]}), make_scores_shape(len(order))
    )
    if isinstance(votes, Unjudged):
        return votes
    return [dict(zip(order, vote.scores, strict=True)) for vote in votes], votes[0].rationale


def _judge_work(
    work: str | None, there: Sequence[str], scores: Sequence[Scores], reasons: Sequence[str], options: LlmJudgeOptions
) -> Verdict:
    reward = 0.0 if work is None else fmean(values[work] for values in scores)
    components = {"score": reward}
    others = [other for other in there if other != work]
    if work is not None and others:
        components["position_bias"] = share_turned(work, others, scores)
    success = None if options.success_threshold is None else reward >= options.success_threshold
    rationale = NO_ANSWER if work is None else "\n".join(reasons) or None
    return Verdict(reward, success, components=components, rationale=rationale)
