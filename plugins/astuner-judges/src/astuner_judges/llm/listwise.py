"""Ranking all works at once, in several orders, so that the position in the list does not count."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import fmean

from astuner.contract.schema import Unjudged, Verdict
from astuner_judges.llm.asker import Asker, require_majority
from astuner_judges.llm.options import LlmJudgeOptions
from astuner_judges.llm.pairs import shuffle_works
from astuner_judges.llm.questions import Questions
from astuner_judges.llm.relative_scores import Works, compare, count_works, share_turned, share_won
from astuner_judges.llm.shapes import make_ranking_shape

Ranking = Mapping[str, int]
"""The place of each work, from 1, the best first; works that are equally good share one."""


async def rank_works(
    works: Works,
    task: Mapping[str, str],
    *,
    questions: Questions,
    asker: Asker,
    options: LlmJudgeOptions,
    key: str,
) -> list[Verdict | Unjudged]:
    """Return a verdict per work; `key` chooses the first order. The same work has one place; an empty one is last, unasked."""
    there = shuffle_works((work for work in works if work is not None), key)
    counts = count_works(works)
    rankings: list[Ranking] = []
    reasons: list[str] = []
    if len(there) > 1:
        orders = choose_orders(there, options.orders)
        found = require_majority(await asyncio.gather(*(_ask_ranking(order, task, questions, asker) for order in orders)))
        if isinstance(found, Unjudged):
            return [found] * len(works)
        rankings = [ranking for of_order, _ in found for ranking in of_order]
        reasons = list(dict.fromkeys(rationale for _, rationale in found if rationale))
    verdicts = {work: _judge_work(work, counts, rankings, reasons) for work in counts}
    return [verdicts[work] for work in works]


def choose_orders(works: Sequence[str], count: int) -> list[tuple[str, ...]]:
    """Return at most `count` different orders: the works as they come, reversed, rotated and reversed, and so on."""
    turns = (count + 1) // 2
    starts = [turn * len(works) // turns for turn in range(turns)]
    turned = [(*works[start:], *works[:start]) for start in starts]
    return list(dict.fromkeys(chain.from_iterable((order, order[::-1]) for order in turned)))[:count]


async def _ask_ranking(
    order: Sequence[str], task: Mapping[str, str], questions: Questions, asker: Asker
) -> tuple[list[Ranking], str] | Unjudged:
    asked = questions.ask(task, answers=questions.number_works(order))
    votes = await asker.collect_votes(asked, make_ranking_shape(len(order)))
    if isinstance(votes, Unjudged):
        return votes
    rankings: list[Ranking] = [
        {order[number - 1]: place for place, group in enumerate(vote.groups, 1) for number in group} for vote in votes
    ]
    return rankings, votes[0].rationale


def _judge_work(
    work: str | None, counts: Mapping[str | None, int], rankings: Sequence[Ranking], reasons: Sequence[str]
) -> Verdict:
    def beats(one: str, other: str) -> float:
        return fmean((compare(ranking[other], ranking[one]) + 1) / 2 for ranking in rankings)

    reward = share_won(work, counts, beats)
    siblings = sum(counts.values()) - 1
    components = {"rank": 1 + (1 - reward) * siblings}
    others = [other for other in counts if other not in (work, None)]
    if work is not None and others:
        components["position_bias"] = share_turned(work, [str(other) for other in others], rankings)
    return Verdict(reward, components=components, rationale="\n".join(reasons) or None)
