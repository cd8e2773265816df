"""The judge `rubrics_auto_grader`: grades by given rubrics, or learns them from labelled examples."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from attrs import evolve

from astuner.contract.protocols import Judge, JudgeTraits, RunInfo
from astuner.contract.schema import Episode, Group, Task, Unjudged, Verdict
from astuner.model.reasoning import split_thought
from astuner.shared.clients import Budget, LLMBudgetSpent, LLMClient, LLMFailed
from astuner_judges.asking import NO_ANSWER, explain_failure, explain_missing_answer, write_totals
from astuner_judges.evaluation.labelled import read_query, to_text
from astuner_judges.rubrics.grading import make_grader
from astuner_judges.rubrics.options import RubricsOptions
from astuner_judges.rubrics.rubric import POSITION_BIAS
from astuner_judges.rubrics.shared_learning import SavedRubrics, load_or_learn
from astuner_judges.rubrics.storage import RubricFile
from astuner_judges.rubrics.theme_grading import Grade, Panels


class RubricsAutoGrader(Judge):
    """Asks an LLM to score an answer by each of some themes; the median of the scores is the reward.

    Pointwise, each answer is graded on its own. Listwise, the different answers of a group are ranked against each other, in two
    orders; the score is the share of the others that an answer beats, so one without a sibling is not judged.
    """

    Options = RubricsOptions
    traits = JudgeTraits(honours=("task_judge.alien_llm_response_length",), asks_service=True)

    def __init__(self, options: RubricsOptions, rubrics: RubricFile, client: LLMClient, run_info: RunInfo) -> None:
        self._options = options
        self.traits = evolve(self.traits, compares_siblings=options.grader_mode == "listwise")
        self._client = client
        self._rubrics = rubrics
        self._run_info = run_info
        self._panels = Panels(
            grader=make_grader(options, client, run_info.config.task_judge.alien_llm_response_length),
            themes=rubrics.rubrics,
            requests=options.requests_per_answer,
            combine=options.combine,
        )

    @classmethod
    def from_run(cls, options: RubricsOptions, run_info: RunInfo) -> RubricsAutoGrader:
        """Make the judge of a process. If a run has no rubrics yet, the first process learns them and the others wait."""
        client = options.client(run_info.config_dir)
        try:
            kept = load_or_learn(options, run_info, client.budget)
        except BaseException:
            _end(client, run_info)
            raise
        return cls(options, kept.held, client, run_info)

    @classmethod
    def learn(cls, options: RubricsOptions, run_info: RunInfo, *, again: bool = False) -> SavedRubrics:
        """Learn the rubrics of a run without judging; `again` replaces existing ones."""
        return load_or_learn(options, run_info, again=again, by_hand=True)

    @property
    def budget(self) -> Budget:
        """What this process has spent so far, including learning."""
        return self._client.budget

    @property
    def learnt_from(self) -> frozenset[str]:
        """Digests of the examples that the rubrics were learnt from."""
        return frozenset(self._rubrics.learnt.examples if self._rubrics.learnt else ())

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        """Return for each completed episode a verdict, or the reason for not giving one."""
        completed = [episode for episode in group.episodes if episode.completed]
        if self._options.grader_mode == "pointwise":
            return await asyncio.gather(*map(self._judge_pointwise, completed))
        return await self._judge_listwise(completed)

    async def close(self) -> None:
        """Close the cache of answers, and log the usage, including learning, with the run."""
        _end(self._client, self._run_info)

    async def _judge_pointwise(self, episode: Episode) -> Verdict | Unjudged:
        answer = self._answer(episode)
        if isinstance(answer, Unjudged):
            return answer
        if answer is None:
            return self._verdict(self._make_even_grade(self._options.min_score, NO_ANSWER))
        try:
            (grade,) = await self._panels.grade(read_query(episode.task, self._options.query_field), [answer])
        except (LLMFailed, LLMBudgetSpent) as error:
            return explain_failure(error)
        return self._verdict(grade)

    async def _judge_listwise(self, episodes: Sequence[Episode]) -> Sequence[Verdict | Unjudged]:
        answers = [self._answer(episode) for episode in episodes]
        there = [answer for answer in answers if not isinstance(answer, Unjudged)]
        found: Mapping[str | None, Verdict | Unjudged]
        if len(there) < 2:
            alone = Unjudged(
                reason="no_siblings", detail="grader_mode: listwise ranks answers, and there is no other to rank it with"
            )
            found = dict.fromkeys(there, alone)
        else:
            try:
                found = await self._rank_answers(episodes[0].task, there)
            except (LLMFailed, LLMBudgetSpent) as error:
                found = dict.fromkeys(there, explain_failure(error))
        return [answer if isinstance(answer, Unjudged) else found[answer] for answer in answers]

    async def _rank_answers(self, task: Task, answers: Sequence[str | None]) -> Mapping[str | None, Verdict]:
        """Return the verdict on each different answer; an empty one is last, without asking."""
        low, high = self._options.min_score, self._options.max_score
        # Independent of the order of the siblings; equal answers are shown once, and get the same verdict.
        texts = sorted({answer for answer in answers if answer is not None})
        if len({*answers}) == 1:
            return {answers[0]: self._verdict(self._make_even_grade((low + high) / 2, "the answers are the same"))}
        if len(texts) == 1:
            grades = [self._make_even_grade(high, "no other answer was given")]
        else:
            grades = await self._panels.grade(read_query(task, self._options.query_field), texts)
            if None in answers:
                grades = [grade.raise_above_one_more(low, high, len(texts)) for grade in grades]
        verdicts = map(self._verdict, [*grades, self._make_even_grade(low, NO_ANSWER)])
        return dict(zip([*texts, None], verdicts, strict=True))

    def _answer(self, episode: Episode) -> str | Unjudged | None:
        """Return the answer without the reasoning before it; None if it is empty, which differs from a wrong key."""
        metadata = episode.output.metadata if episode.output is not None else {}
        name = self._options.answer_field
        if name not in metadata:
            return explain_missing_answer(name, metadata, option="answer_field")
        value = metadata[name]
        text = "" if value is None else to_text(split_thought(value)[1] if isinstance(value, str) else value)
        return text if text.strip() else None

    def _make_even_grade(self, score: float, why: str) -> Grade:
        """Return the same score by each theme, for answers that need no LLM."""
        return Grade(score=score, by_theme={theme.name: score for theme in self._rubrics.rubrics}, reasons={"all": why})

    def _verdict(self, grade: Grade) -> Verdict:
        bias = {} if grade.position_bias is None else {POSITION_BIAS: grade.position_bias}
        return Verdict(
            grade.score,
            grade.score >= self._options.success_threshold,
            components={**grade.by_theme, **bias},
            rationale="\n".join(f"{name}: {reason}" for name, reason in grade.reasons.items() if reason) or None,
        )


def _end(client: LLMClient, run_info: RunInfo) -> None:
    client.close()
    write_totals(client, run_info, judge="rubrics_auto_grader")
