"""Scoring each work on its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from astuner.contract.schema import Unjudged, Verdict
from astuner_judges.asking import NO_ANSWER
from astuner_judges.llm.asker import Asker
from astuner_judges.llm.options import LlmJudgeOptions
from astuner_judges.llm.questions import Questions
from astuner_judges.llm.shapes import make_score_shape
from astuner_judges.llm.votes import agreement, combine_scores


async def score_works(
    works: Sequence[str | None], task: Mapping[str, str], *, questions: Questions, asker: Asker, options: LlmJudgeOptions
) -> list[Verdict | Unjudged]:
    """Return a verdict per work. The same work is judged once; an empty one is the worst, without asking."""
    different = list(dict.fromkeys(work for work in works if work is not None))
    found = await asyncio.gather(*(_score_work(work, task, questions, asker, options) for work in different))
    by_work: dict[str | None, Verdict | Unjudged] = dict(zip(different, found, strict=True))
    return [by_work[work] if work is not None else _verdict(options.min_score, NO_ANSWER, options) for work in works]


async def _score_work(
    work: str, task: Mapping[str, str], questions: Questions, asker: Asker, options: LlmJudgeOptions
) -> Verdict | Unjudged:
    shape = make_score_shape(options.min_score, options.max_score)
    votes = await asker.collect_votes(questions.ask(task, answer=work), shape)
    if isinstance(votes, Unjudged):
        return votes
    score = combine_scores([vote.score for vote in votes], options.vote_aggregation)
    nearest = min(votes, key=lambda vote: abs(vote.score - score))
    more = {"agreement": agreement([vote.score for vote in votes])} if options.votes > 1 else {}
    return _verdict(score, nearest.rationale, options, **more)


def _verdict(score: float, rationale: str, options: LlmJudgeOptions, **components: float) -> Verdict:
    reward = (score - options.min_score) / (options.max_score - options.min_score)
    success = None if options.success_threshold is None else score >= options.success_threshold
    return Verdict(reward, success, components={"score": score, **components}, rationale=rationale or None)
