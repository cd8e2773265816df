"""The judge `rubrics_auto_grader`: grades by rubrics that it learns from labelled examples, or that are given."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from astuner.clients.llm import LLMClient, LLMFailed
from astuner.clients.llm_budget import Budget, LLMBudgetSpent
from astuner.protocols import Judge, RunInfo
from astuner.schema import Episode, Group, Unjudged, Verdict
from astuner_judges.asking import no_verdict
from astuner_judges.evaluation.labelled import query_of, text_of
from astuner_judges.rubrics.grading import make_grader
from astuner_judges.rubrics.keeping import Kept, kept_or_learnt
from astuner_judges.rubrics.options import RubricsOptions
from astuner_judges.rubrics.panels import Grade, Panels
from astuner_judges.rubrics.storage import RubricFile


class RubricsAutoGrader(Judge):
    """Asks an LLM what an answer is worth by each of some themes; the median of the scores is the reward.

    Pointwise, each answer is graded by itself. Listwise, the different answers of a group are ranked against each other, in two
    orders; the score says which share of the others an answer beats, so that one without a sibling is not judged.
    """

    Options = RubricsOptions
    honours: ClassVar[tuple[str, ...]] = ("task_judge.alien_llm_response_length",)

    def __init__(self, options: RubricsOptions, rubrics: RubricFile, client: LLMClient, max_tokens: int = 512) -> None:
        self._options = options
        self._client = client
        self._rubrics = rubrics
        self._panels = Panels(
            grader=make_grader(options, client, max_tokens),
            themes=rubrics.rubrics,
            requests=options.requests_per_answer,
            combine=options.combine,
        )

    @classmethod
    def from_run(cls, options: RubricsOptions, run_info: RunInfo) -> RubricsAutoGrader:
        """Make the judge of a process. Where a run has no rubrics yet, the first process learns them and the others wait."""
        client = options.client(run_info.config_dir)
        try:
            kept = kept_or_learnt(options, run_info, client.budget)
        except BaseException:
            client.close()
            raise
        return cls(options, kept.held, client, run_info.config.task_judge.alien_llm_response_length)

    @classmethod
    def learn(cls, options: RubricsOptions, run_info: RunInfo, *, again: bool = False) -> Kept:
        """Learn the rubrics of a run without judging anything; `again` also where there are some."""
        return kept_or_learnt(options, run_info, again=again)

    @property
    def budget(self) -> Budget:
        """What this process has spent so far, on learning too."""
        return self._client.budget

    @property
    def learnt_from(self) -> frozenset[str]:
        """Digests of the examples that the rubrics were learnt from."""
        return frozenset(self._rubrics.learnt.examples if self._rubrics.learnt else ())

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        """Return a verdict per completed episode, or why there is none."""
        completed = [episode for episode in group.episodes if episode.completed]
        if self._options.grader_mode == "pointwise":
            return await asyncio.gather(*map(self._pointwise, completed))
        return await self._listwise(completed)

    async def close(self) -> None:
        """Close the cache of answers."""
        self._client.close()

    async def _pointwise(self, episode: Episode) -> Verdict | Unjudged:
        answer = self._answer(episode)
        if isinstance(answer, Unjudged):
            return answer
        try:
            (grade,) = await self._panels.grades(query_of(episode.task, self._options.query_field), [answer])
        except (LLMFailed, LLMBudgetSpent) as error:
            return no_verdict(error)
        return self._verdict(grade)

    async def _listwise(self, episodes: Sequence[Episode]) -> Sequence[Verdict | Unjudged]:
        answers = [self._answer(episode) for episode in episodes]
        texts = [answer for answer in answers if isinstance(answer, str)]
        if len(texts) < 2:
            alone = Unjudged(
                reason="no_siblings", detail="grader_mode: listwise ranks answers, and there is no other to rank it with"
            )
            return [alone if isinstance(answer, str) else answer for answer in answers]
        # The same whatever the order of the siblings; equal answers are shown once, and get the same.
        different = sorted(set(texts))
        if len(different) == 1:
            middle = (self._options.min_score + self._options.max_score) / 2
            themes = {theme.name: middle for theme in self._rubrics.rubrics}
            equal = self._verdict(Grade(score=middle, by_theme=themes, reasons={"all": "the answers are the same"}))
            return [equal if isinstance(answer, str) else answer for answer in answers]
        try:
            grades = await self._panels.grades(query_of(episodes[0].task, self._options.query_field), different)
        except (LLMFailed, LLMBudgetSpent) as error:
            return [no_verdict(error) if isinstance(answer, str) else answer for answer in answers]
        of_text = dict(zip(different, map(self._verdict, grades), strict=True))
        return [of_text[answer] if isinstance(answer, str) else answer for answer in answers]

    def _answer(self, episode: Episode) -> str | Unjudged:
        metadata = episode.output.metadata if episode.output is not None else {}
        name = self._options.answer_field
        if metadata.get(name) is not None:
            return text_of(metadata[name])
        told = f"the output of the workflow has no metadata['{name}'] (there is: {', '.join(metadata) or 'nothing'})"
        return Unjudged(reason="no_answer", detail=f"{told}; put the answer there, or set answer_field")

    def _verdict(self, grade: Grade) -> Verdict:
        return Verdict(
            grade.score,
            grade.score >= self._options.success_threshold,
            components=grade.by_theme,
            rationale="\n".join(f"{name}: {reason}" for name, reason in grade.reasons.items() if reason) or None,
        )
