"""Propose, evaluate, revise: rubrics with which the judge reproduces the label of one example."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from attrs import define, field, frozen

from astuner.shared.clients import LLMClient, LLMFailed, ask_for_json, fence, fill_prompt
from astuner_judges.rubrics.examples import Example
from astuner_judges.rubrics.grading import PACKAGE, Grader, agreement, system_message
from astuner_judges.rubrics.options import RubricsOptions
from astuner_judges.rubrics.rubric import build_themes, to_one_line
from astuner_judges.rubrics.shapes import Proposals, Revision

FATES = ("proposed", "revised", "verified", "refuted", "failed")
"""What happens to proposals: `revised` were rewritten at least once, `failed` got no verdict from the LLM."""


@frozen(kw_only=True)
class VerifiedRubric:
    """A rubric that reproduces the label of the example that it was made from."""

    text: str
    example: Example


@frozen(kw_only=True)
class RubricTrial:
    """One application of a rubric to its own example."""

    agrees: bool
    got: str
    reason: str


@define(eq=False, kw_only=True)
class Refiner:
    """Makes rubrics from examples, and counts what happened to the proposals."""

    client: LLMClient
    grader: Grader
    options: RubricsOptions
    max_tokens: int
    counts: Counter[str] = field(factory=Counter)
    """By the names of `FATES`."""
    first_failure: str = ""

    async def refine(self, examples: Sequence[Example]) -> list[VerifiedRubric]:
        """Return the verified rubrics of some examples in their order; raises `LLMBudgetSpent`."""
        found = await asyncio.gather(*(self._refine_example(example) for example in examples))
        return [verified for some in found for verified in some]

    async def _refine_example(self, example: Example) -> list[VerifiedRubric]:
        try:
            proposals = await self._propose(example)
        except LLMFailed as failure:
            self._note(failure)
            return []
        self.counts["proposed"] += len(proposals)
        kept = await asyncio.gather(*(self._verify(text, example) for text in proposals))
        return [verified for verified in kept if verified is not None]

    async def _verify(self, text: str, example: Example) -> VerifiedRubric | None:
        """Return the rubric once it reproduces the label; None if it never does."""
        try:
            for left in range(self.options.max_epochs, -1, -1):
                tried = await self._try(text, example)
                if tried.agrees:
                    self.counts["verified"] += 1
                    return VerifiedRubric(text=text, example=example)
                if left:
                    self.counts["revised"] += left == self.options.max_epochs
                    text = await self._revise(text, example, tried)
        except LLMFailed as failure:
            self._note(failure)
            return None
        self.counts["refuted"] += 1
        return None

    async def _propose(self, example: Example) -> list[str]:
        options = self.options
        told = self._describe_example(example)
        if options.grader_mode == "pointwise":
            asked = fill_prompt(
                PACKAGE,
                "propose_pointwise",
                options.language,
                question=fence(example.query, "question"),
                answer=told,
                label=f"{example.labels[0]:g}",
                low=f"{options.min_score:g}",
                high=f"{options.max_score:g}",
                threshold=f"{options.success_threshold:g}",
                count=str(options.generate_number),
            )
        else:
            asked = fill_prompt(
                PACKAGE,
                "propose_listwise",
                options.language,
                question=fence(example.query, "question"),
                answers=told,
                label=_format_order(example.labels),
                count=str(options.generate_number),
            )
        messages = [system_message(options.language), {"role": "user", "content": asked}]
        found, _ = await ask_for_json(self.client, messages, Proposals, max_tokens=self.max_tokens)
        texts = dict.fromkeys(to_one_line(text) for text in found.rubrics)
        return [text for text in texts if text][: options.generate_number]

    async def _try(self, text: str, example: Example) -> RubricTrial:
        graded = await self.grader.grade(build_themes([text]), example.query, example.answers)
        scores, reasons = graded.scores[0], graded.reasons[0]
        mode = self.options.grader_mode
        share = agreement(mode, self.options.success_threshold, example.labels, scores)
        got = f"{scores[0]:g}" if mode == "pointwise" else _format_order(scores)
        return RubricTrial(agrees=share == 1.0, got=got, reason=reasons[0])

    async def _revise(self, text: str, example: Example, tried: RubricTrial) -> str:
        expected = f"{example.labels[0]:g}" if self.options.grader_mode == "pointwise" else _format_order(example.labels)
        asked = fill_prompt(
            PACKAGE,
            "revise",
            self.options.language,
            rubric=text,
            question=fence(example.query, "question"),
            answers=self._describe_example(example),
            label=expected,
            got=tried.got,
            # A reason may quote the answer at length.
            reason=fence(tried.reason, "reason"),
        )
        messages = [system_message(self.options.language), {"role": "user", "content": asked}]
        found, _ = await ask_for_json(self.client, messages, Revision, max_tokens=self.max_tokens)
        return to_one_line(found.rubric) or text

    def _describe_example(self, example: Example) -> str:
        if self.options.grader_mode == "pointwise":
            return fence(example.answers[0], "answer")
        return "\n\n".join(f"[{number}]\n{fence(text, 'answer')}" for number, text in enumerate(example.answers, start=1))

    def _note(self, failure: LLMFailed) -> None:
        self.counts["failed"] += 1
        self.first_failure = self.first_failure or str(failure)


def _format_order(values: Sequence[float]) -> str:
    """Return the numbers of answers from the best to the worst, as in `2 > 1 = 3`."""
    best_first = sorted(range(len(values)), key=lambda place: (-values[place], place))
    text = str(best_first[0] + 1)
    for before, place in pairwise(best_first):
        text += f" {'=' if values[place] == values[before] else '>'} {place + 1}"
    return text
