"""Comparing works two by two, each pair in both orders: a judge that goes by position finds a tie."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from statistics import fmean

from attrs import evolve, frozen

from astuner.contract.schema import Unjudged, Verdict
from astuner_judges.llm.asker import Asker, require_majority
from astuner_judges.llm.options import LlmJudgeOptions
from astuner_judges.llm.pairs import Pair, choose_pairs
from astuner_judges.llm.questions import Questions
from astuner_judges.llm.relative_scores import Works, count_works, share_won
from astuner_judges.llm.shapes import Compared
from astuner_judges.llm.strengths import fit_strengths
from astuner_judges.llm.votes import agreement, most_frequent

_SHARE = {"first": 1.0, "second": 0.0, "tie": 0.5}


@frozen(kw_only=True)
class Outcome:
    """The result of comparing two works."""

    share: float
    """The points of the first: 1, 0, or 0.5 for a tie."""
    is_biased: bool = False
    """Whether the two orders disagreed: always a tie."""
    agreement: float = 1.0
    """Of the votes."""
    rationale: str = ""

    def reverse(self) -> Outcome:
        """Return it from the second work's side."""
        return evolve(self, share=1 - self.share)


Outcomes = Mapping[Pair, "Outcome | Unjudged"]


async def compare_works(
    works: Works,
    names: Mapping[str | None, str],
    task: Mapping[str, str],
    *,
    questions: Questions,
    asker: Asker,
    options: LlmJudgeOptions,
    key: str,
) -> list[Verdict | Unjudged]:
    """Return a verdict per work; `key` chooses the pairs. The same work ties with itself; an empty one loses, without asking."""
    there = [work for work in works if work is not None]
    pairs = choose_pairs(there, key, options.pairs_per_episode)
    found = await asyncio.gather(*(_compare_both_orders(pair, task, questions, asker) for pair in pairs))
    outcomes: Outcomes = dict(zip(pairs, found, strict=True))
    counts = count_works(works)
    expected = _expect_win_rates(counts, outcomes) if options.pair_reward == "bradley_terry" else None
    verdicts = {work: _judge_work(work, counts, outcomes, names, options, expected) for work in counts}
    return [verdicts[work] for work in works]


async def _compare_both_orders(pair: Pair, task: Mapping[str, str], questions: Questions, asker: Asker) -> Outcome | Unjudged:
    one, other = await asyncio.gather(
        asker.collect_votes(questions.ask(task, first=pair[0], second=pair[1]), Compared),
        asker.collect_votes(questions.ask(task, first=pair[1], second=pair[0]), Compared),
    )
    if isinstance(one, Unjudged):
        return one
    if isinstance(other, Unjudged):
        return other
    share, turned = _share(one), 1 - _share(other)
    together = fmean([agreement([vote.winner for vote in votes]) for votes in (one, other)])
    if share != turned:
        told = f"in one order: {one[0].rationale} In the other: {other[0].rationale}"
        return Outcome(share=0.5, is_biased=True, agreement=together, rationale=told)
    # Votes for both sides may result in a tie that none of them gave.
    deciding = next((vote for vote in one if _SHARE[vote.winner] == share), one[0])
    return Outcome(share=share, agreement=together, rationale=deciding.rationale)


def _share(votes: Sequence[Compared]) -> float:
    winners = most_frequent([vote.winner for vote in votes])
    return _SHARE[winners[0]] if len(winners) == 1 else 0.5


def _judge_work(
    work: str | None,
    counts: Mapping[str | None, int],
    outcomes: Outcomes,
    names: Mapping[str | None, str],
    options: LlmJudgeOptions,
    expected: Mapping[str, float] | None,
) -> Verdict | Unjudged:
    seen = {} if work is None else _outcomes_for(work, outcomes)
    given = require_majority(list(seen.values()))
    if isinstance(given, Unjudged):
        return given
    known = {other: outcome for other, outcome in seen.items() if isinstance(outcome, Outcome)}
    win_rate = share_won(work, counts, lambda _, other: known[other].share if other in known else None)
    components = {"win_rate": win_rate}
    if known:
        components["position_bias"] = fmean(outcome.is_biased for outcome in given)
        if options.votes > 1:
            components["agreement"] = fmean(outcome.agreement for outcome in given)
    reward = expected[work] if expected is not None and work is not None else win_rate
    reasons = [_reason(names[other], outcome) for other, outcome in known.items()]
    return Verdict(reward, components=components, rationale="\n".join(reasons) or None)


def _outcomes_for(work: str, outcomes: Outcomes) -> dict[str, Outcome | Unjudged]:
    """Return the outcomes of a work by opponent, each from its side."""
    seen: dict[str, Outcome | Unjudged] = {}
    for (first, second), outcome in outcomes.items():
        if work == first:
            seen[second] = outcome
        elif work == second:
            seen[first] = outcome.reverse() if isinstance(outcome, Outcome) else outcome
    return seen


def _expect_win_rates(counts: Mapping[str | None, int], outcomes: Outcomes) -> Mapping[str, float]:
    """Return the expected win rate of each work against all siblings."""
    there = [work for work in counts if work is not None]
    shares = {pair: outcome.share for pair, outcome in sorted(outcomes.items()) if isinstance(outcome, Outcome)}
    fitted = fit_strengths(there, shares)
    return {work: share_won(work, counts, lambda one, other: fitted[one] / (fitted[one] + fitted[other])) for work in there}


def _reason(name: str, outcome: Outcome) -> str:
    how = {1.0: "better than", 0.0: "worse than", 0.5: "as good as"}[outcome.share]
    how = "undecided beside" if outcome.is_biased else how
    return f"{how} {name}: {outcome.rationale}".rstrip(": ")
