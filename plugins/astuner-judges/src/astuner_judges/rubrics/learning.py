"""From labelled examples to rubrics: propose, evaluate and revise for each; gather evidence; select; merge.

After arXiv 2510.17314 ("Auto-Rubric"), reimplemented from its description. Two differences: a rubric that reproduces the label of
its own example is not trusted yet, since a noisy judge lets wrong ones pass, but is tried on other examples first; and the
coding rate is the textbook's, weighted by the results on these (see `selection`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from attrs import define, field, frozen

from astuner.shared.clients import LLMClient, LLMFailed
from astuner_judges.embedding import Embedding
from astuner_judges.rubrics.evidence import Evidence, choose_others, evidence_order
from astuner_judges.rubrics.examples import Example
from astuner_judges.rubrics.grading import Grader, agreement
from astuner_judges.rubrics.merging import merge_rubrics
from astuner_judges.rubrics.options import RubricsOptions
from astuner_judges.rubrics.refining import FATES, Refiner, VerifiedRubric
from astuner_judges.rubrics.rubric import Theme, build_themes
from astuner_judges.rubrics.samples import Samples
from astuner_judges.rubrics.selection import Candidate, Selection
from astuner_judges.rubrics.storage import LearntRubric

ROOM_TO_WRITE = 4
"""Writing rubrics may take this many times the tokens of a verdict."""

Say = Callable[[str], None]


@frozen(kw_only=True)
class Outcome:
    """What was learnt, and what happened to the rest."""

    themes: tuple[Theme, ...]
    rubrics: tuple[LearntRubric, ...]
    counts: dict[str, int]


@define(eq=False, kw_only=True)
class Learner:
    """Learns rubrics once. The client's cache answers repeated questions, so nothing is paid for twice."""

    options: RubricsOptions
    client: LLMClient
    grader: Grader
    embedding: Embedding
    seed: int
    max_tokens: int
    say: Say
    _sources: dict[str, list[Example]] = field(factory=dict, init=False)
    _evidence: dict[str, Evidence] = field(factory=dict, init=False)

    async def learn(self, samples: Samples) -> Outcome:
        """Return rubrics; raises `LLMFailed` if there are none, and `LLMBudgetSpent` if a limit is reached."""
        options = self.options
        room = self.max_tokens * ROOM_TO_WRITE
        refiner = Refiner(client=self.client, grader=self.grader, options=options, max_tokens=room)
        selection = Selection(
            per_round=options.mcr_batch_size, most=options.max_total_rubrics, min_increment=options.min_increment_threshold
        )
        todo = [samples.learning[place] for place in evidence_order(samples.learning, self.seed)]
        used = idle = 0
        for _ in range(options.max_iterations):
            batch_end = used + options.batch_size if options.sampling_mode == "smart_sampling" else len(todo)
            while used < min(batch_end, len(todo)):
                some = todo[used : min(used + options.batch_size, batch_end)]
                await self._gather(await refiner.refine(some), samples)
                used += len(some)
                self.say(f"{used} of {len(todo)} examples, {len(self._evidence)} verified rubrics")
            gain = await self._select(selection)
            idle = 0 if gain >= options.min_increment_threshold and gain > 0 else idle + 1
            everything_seen = used >= len(todo) and idle > 0
            if everything_seen or idle >= options.patience or len(selection.chosen) >= options.max_total_rubrics:
                break
        counts = {"examples": used, **{name: refiner.counts[name] for name in FATES}, **self._counts(selection)}
        if not selection.chosen:
            raise LLMFailed(self._explain_nothing(counts, refiner.first_failure))
        themes = await self._themes([one.text for one in selection.chosen])
        return Outcome(themes=themes, rubrics=tuple(map(self._describe_learnt, selection.chosen)), counts=counts)

    async def _gather(self, verified: Sequence[VerifiedRubric], samples: Samples) -> None:
        """Try new rubrics on examples that they were not made from."""
        order = evidence_order(samples.evidence, self.seed)
        new = dict.fromkeys(one.text for one in verified if one.text not in self._evidence)
        for one in verified:
            self._sources.setdefault(one.text, []).append(one.example)

        async def try_on(text: str, example: Example) -> float | None:
            try:
                graded = await self.grader.grade(build_themes([text]), example.query, example.answers)
            except LLMFailed:
                return None
            return agreement(self.options.grader_mode, self.options.success_threshold, example.labels, graded.scores[0])

        async def gather_evidence(text: str) -> Evidence:
            # A rubric proposed for several examples was made to fit the first; the others confirm it.
            own = self._sources[text][0].digests
            places = choose_others(order, samples.evidence, own, self.options.evidence_samples)
            shown = [samples.evidence[place] for place in places]
            shares = await asyncio.gather(*(try_on(text, example) for example in shown))
            known = [(example, share) for example, share in zip(shown, shares, strict=True) if share is not None]
            return Evidence(
                good=tuple(share for example, share in known if example.is_good),
                bad=tuple(share for example, share in known if not example.is_good),
                failed=len(shares) - len(known),
            )

        for text, found in zip(new, await asyncio.gather(*map(gather_evidence, new)), strict=True):
            self._evidence[text] = found

    async def _select(self, selection: Selection) -> float:
        pool = [Candidate(text=text, evidence=found) for text, found in self._evidence.items() if self._is_trusted(found)]
        if not pool:
            return 0.0
        return selection.add(pool, await self.embedding.vectors([one.text for one in pool]))

    def _is_trusted(self, evidence: Evidence) -> bool:
        return evidence.count > evidence.failed and evidence.agreement >= self.options.min_agreement

    async def _themes(self, rubrics: Sequence[str]) -> tuple[Theme, ...]:
        if self.options.aggregation_mode == "keep_all" or len(rubrics) < 2:
            return build_themes(rubrics)
        found = await merge_rubrics(rubrics, self.options, self.client, self.embedding, self.max_tokens * ROOM_TO_WRITE)
        if found.problem:
            self.say(
                f"the rubrics are put together by how alike they are spelled, since the LLM named no themes: {found.problem}"
            )
        return found.themes

    def _counts(self, selection: Selection) -> dict[str, int]:
        trusted = sum(self._is_trusted(found) for found in self._evidence.values())
        return {
            "different": len(self._evidence),
            "unconfirmed": len(self._evidence) - trusted,
            "redundant": trusted - len(selection.chosen),
            "chosen": len(selection.chosen),
        }

    def _describe_learnt(self, one: Candidate) -> LearntRubric:
        return LearntRubric(
            rubric=one.text,
            examples=tuple(dict.fromkeys(example.place for example in self._sources[one.text])),
            agreement=round(one.evidence.agreement, 4),
            verdicts=one.evidence.count,
            failed=one.evidence.failed,
        )

    def _explain_nothing(self, counts: dict[str, int], first_failure: str) -> str:
        best = max((found.agreement for found in self._evidence.values()), default=None)
        told = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing"
        why = f"; the first failure: {first_failure}" if first_failure else ""
        most = "" if best is None else f"; the best agrees with {best:.0%} of the labels of other examples"
        return (
            f"no rubric was learnt ({told}){most}{why}. Look at the labels, raise generate_number, max_epochs or "
            "num_reference_samples, or lower min_agreement"
        )
