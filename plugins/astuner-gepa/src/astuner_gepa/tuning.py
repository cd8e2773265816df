"""A whole run, top to bottom: validate the workflow's own prompts, answer GEPA's questions by episodes, save what it found.

A step is one evaluation on the tasks of a batch, `data.train_batch_size` tasks with `rollout.num_repeat` episodes each: as many
episodes as a training step of weights. GEPA evaluates prompts on a batch, asks for better ones, and evaluates these on the same
tasks in the next step. If they are better, they are validated.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import attrs

from astuner.contract.errors import ConfigError, Problem, RunFailed
from astuner.contract.protocols import Control, RunInfo, TaskSource
from astuner.contract.schema import CheckpointSaved, Event, Group, StepReport, Task, ValidationReport
from astuner.episodes.rollout.metrics import compute_rollout_metrics, compute_validation_metrics
from astuner.runs.store.checkpoints import begin_checkpoint, finish_checkpoint, is_best_validation, mark_as_best_only
from astuner.runs.store.directory import RunDirectory
from astuner.runs.training.rollouts import Rollouts
from astuner.settings.config.places import ROOT
from astuner.settings.config.secrets import Secrets
from astuner.settings.config.structuring import get_converter
from astuner.shared.clients import LLMBudgetSpent
from astuner_gepa.answers import AnswerLog, Key, make_evaluation_key, make_reflection_key
from astuner_gepa.prompts import Candidate, Prompt, PromptLearner, PromptRewriter, count_missed, find_prompts
from astuner_gepa.reflection import ReflectionLLM, format_question, make_records, read_text
from astuner_gepa.results import FILE, Candidates, Validated
from astuner_gepa.search import Evaluation, Proposal, Scores, Search

if TYPE_CHECKING:
    from astuner.episodes.rollout.recipe import Recipe
    from astuner_gepa.options import Options

START = ("start", "prompts", 0)
"""The key of the record with the prompts that are tuned."""

SHOWN = 200
"""Characters of a useless answer that a notice shows."""

OF_WEIGHTS = (
    "signal/samples",
    "signal/tokens_trainable",
    "signal/tokens_nonzero_advantage",
    "signal/groups_without_signal",
    "signal/branches",
    "signal/lost/nothing_to_train",
)
"""Metrics of a step that say what weights are trained on; those of `signal/lost/tokens_` are left out too."""


def tune_prompts(run: RunInfo, tasks: TaskSource, recipe: Recipe, control: Control, options: Options) -> Generator[Event]:
    """Yield a report per step, and validations and checkpoints as they are due; a stop saves the last complete step."""
    validation = tasks.validation()
    _check(run, validation, options)
    llm = ReflectionLLM(options.reflection.make_reflection_client(run.config_dir), options.reflection, control)
    learner = PromptLearner()
    with closing(llm), closing(Rollouts(run, recipe, control, learner)) as rollouts:  # type: ignore[arg-type]  # it has no weights
        yield from _Tuning(run, tasks, validation, control, options, llm, learner, rollouts).run()


def _check(run: RunInfo, validation: Sequence[Task], options: Options) -> None:
    if not validation:
        message = "there are no validation tasks, and GEPA chooses the prompts by them. Name a validation split, such as "
        example = "task_reader.dataset_file.validation.file_path."
        raise ConfigError([Problem(key="astuner.task_reader", message=message + example)])
    first = len(validation) * run.config.trainer_common.val_pass_n
    if options.max_episodes is not None and options.max_episodes < first:
        message = (
            f"{options.max_episodes} episodes are less than the first validation takes, {first}. Raise it, or validate less."
        )
        raise ConfigError([Problem(key="gepa.max_episodes", message=message)])


class _Tuning:
    def __init__(
        self,
        run: RunInfo,
        tasks: TaskSource,
        validation: Sequence[Task],
        control: Control,
        options: Options,
        llm: ReflectionLLM,
        learner: PromptLearner,
        rollouts: Rollouts,
    ) -> None:
        self._run, self._tasks, self._validation, self._control, self._options = run, tasks, validation, control, options
        self._llm, self._learner, self._rollouts = llm, learner, rollouts
        self._directory, self._log, self._version = RunDirectory(run.directory), AnswerLog(run.directory), version("gepa")
        self._resumed_at = self._saved = control.resume_step
        self._step = 0
        tree = {ROOT: get_converter().unstructure(run.config)}
        self._secrets = Secrets.of(tree, run.native, from_environment=run.from_environment)
        self._episodes = 0
        """Played for the answers so far, by this attempt or an earlier one."""
        self._found = Candidates([])
        self._proposals = self._useless = 0
        self._missing: set[str] = set()
        """Agents of which a notice has said that their text was not found."""
        self._reported = time.perf_counter()

    def run(self) -> Generator[Event]:
        """Answer until the steps or the budget are used up, nothing can become better, or the user stops the run."""
        prompts = yield from self._find_prompts()
        if prompts is None:
            return
        self._found.prompts = prompts
        seeds = {prompt.agent: prompt.seed for prompt in prompts}
        with closing(Search(seeds, self._tasks, self._validation, self._options, self._run.seed)) as search:
            for question in search:
                answer: Scores | str | None
                if isinstance(question, Proposal):
                    answer = self._propose(question)
                else:
                    answer = yield from self._evaluate(question)
                if answer is None:
                    break
                search.answer(answer)
        yield from self._finish()

    def _find_prompts(self) -> Generator[Event, None, Sequence[Prompt] | None]:
        """Validate the workflow as it is, and find what it sends; None when the user has stopped the run."""
        if self._resumed_at:
            return [Prompt(**row) for row in self._log.get(START, self._version)["prompts"]]
        groups = self._rollouts.validate(self._validation, 0)
        if groups is None:
            return None
        prompts, notices = find_prompts(groups, self._options.prompts)
        for text in notices:
            self._control.notify(text)
        self._log.add(START, prompts=[attrs.asdict(prompt) for prompt in prompts], version=self._version)
        seeds = {prompt.agent: prompt.seed for prompt in prompts}
        metrics, first = compute_validation_metrics(groups), self._make_key("validation", 0, self._validation, seeds)
        self._log.add(first, scores=compute_scores(groups), records={}, metrics=metrics)
        yield ValidationReport(step=0, metrics=metrics, groups=tuple(groups))
        return prompts

    def _evaluate(self, question: Evaluation) -> Generator[Event, None, Scores | None]:
        """Return the scores of some prompts; None if the search is over."""
        trains = question.split == "train"
        if trains:
            yield from self._save_if_due()
            if question.step > self._tasks.total_steps or self._is_perfect():
                return None
        key = self._make_key(question.split, question.step, question.tasks, question.texts)
        found = self._recall(question, key)
        if found is None:
            if not self._affords(question):
                return None
            found = yield from self._play(question, key)
            if found is None:
                return None
        self._step = question.step
        self._episodes += self._count_episodes(question)
        scores = found["scores"]
        if not trains:
            self._add_candidate(question, scores, found["metrics"])
        return None if self._control.stop else Scores(scores=scores, records=found["records"])

    def _recall(self, question: Evaluation, key: Key) -> Mapping[str, Any] | None:
        """Return what the checkpoint has behind it; None for what is to be played, which may be in the store."""
        if question.step > self._resumed_at and question.step > 0:
            return None
        if question.split == "validation" and question.step == self._resumed_at > 0:
            # A stop may have cut the validation short.
            return self._log.find(key)
        return self._log.get(key, self._version)

    def _play(self, question: Evaluation, key: Key) -> Generator[Event, None, Mapping[str, Any] | None]:
        """Play the episodes and report them; None when the user has stopped the run."""
        self._learner.rewriter = PromptRewriter(prompts=tuple(self._found.prompts), texts=question.texts)
        trains, began = question.split == "train", time.perf_counter()
        play = self._rollouts.train if trains else self._rollouts.validate
        groups = play(question.tasks, question.step)
        if groups is None:
            return None
        ended = time.perf_counter()
        self._warn_of_missed(groups, question.texts)
        records = make_records(groups, list(question.texts), self._options.reflection, self._secrets.hide) if trains else {}
        metrics = _compute_step_metrics(groups) if trains else compute_validation_metrics(groups)
        found = {"scores": compute_scores(groups), "records": records, "metrics": metrics}
        self._log.add(key, **found)
        if trains:
            played = self._episodes + self._count_episodes(question)
            own = {"gepa/candidates": float(len(self._found.validated)), "gepa/episodes": float(played)}
            times = {"time/rollout_s": ended - began, "time/step_s": time.perf_counter() - self._reported}
            self._reported = time.perf_counter()
            best = {"gepa/best_validation": self._found.best.mean}
            yield StepReport(step=question.step, metrics=metrics | own | times | best, groups=tuple(groups))
        else:
            yield ValidationReport(step=question.step, metrics=metrics, groups=tuple(groups))
        return found

    def _propose(self, proposal: Proposal) -> str | None:
        """Return a better text, empty if the LLM has none; None if the search is over."""
        question = format_question(proposal)
        key = make_reflection_key(proposal.step, proposal.agent, question)
        if (known := self._log.find(key)) is None:
            try:
                answer = self._llm.ask(question)
            except LLMBudgetSpent as spent:
                self._control.notify(f"gepa.reflection: {spent}; the search ends")
                return None
            if answer is None:
                return None
            known = {"answer": answer}
            self._log.add(key, answer=answer)
        text = read_text(known["answer"])
        self._proposals += 1
        if text and text != proposal.text:
            return text
        self._useless += 1
        if self._useless == 1:
            self._control.notify(
                f"step {proposal.step}: the reflection LLM was asked for a better prompt of the agent '{proposal.agent}', in "
                f"three backticks, and proposed {'the same one' if text else 'none'}: {known['answer'][:SHOWN]!r}"
            )
        return ""

    def _add_candidate(self, question: Evaluation, scores: Sequence[float], metrics: Mapping[str, float]) -> None:
        before = self._found.best.mean if self._found.validated else None
        found = Validated(step=question.step, texts=question.texts, scores=scores, metrics=metrics)
        self._found.validated.append(found)
        self._found.write(self._run.directory)
        if before is not None and question.step > self._resumed_at:
            how = "better than" if found.mean > before else "not better than"
            worth = f"have {found.mean:g} in validation, {how} {before:g}"
            self._control.notify(f"step {question.step}: new prompts were better on the batch, and {worth}", "info")

    def _is_perfect(self) -> bool:
        perfect = self._options.perfect_score
        return perfect is not None and all(score >= perfect for score in self._found.best.scores)

    def _affords(self, question: Evaluation) -> bool:
        limit, wanted = self._options.max_episodes, self._count_episodes(question)
        if limit is None or self._episodes + wanted <= limit:
            return True
        left = f"{self._episodes} episodes were played, and the next evaluation takes {wanted}"
        self._control.notify(f"gepa.max_episodes is {limit}: {left}, so the search ends", "info")
        return False

    def _count_episodes(self, question: Evaluation) -> int:
        config = self._run.config
        repeats = config.rollout.num_repeat if question.split == "train" else config.trainer_common.val_pass_n
        return len(question.tasks) * repeats

    def _warn_of_missed(self, groups: Sequence[Group], texts: Candidate) -> None:
        for agent, count in count_missed(groups, self._found.prompts, texts).items():
            if agent not in self._missing:
                self._missing.add(agent)
                self._control.notify(
                    f"{count} conversations of the agent '{agent}' ({groups[0].split}, step {groups[0].step}) had another system "
                    "message than the one that is tuned, and were played with it as it is. To tune a part that is always the "
                    f"same, write it in gepa.prompts.{agent}"
                )

    def _save_if_due(self) -> Generator[Event]:
        """Save the last step once it is over, with its validation."""
        step, settings = self._step, self._run.config.trainer_common
        if step <= self._saved:
            return
        due = self._control.take_save() or (settings.save_freq > 0 and step % settings.save_freq == 0)
        if due or (settings.keep_best is not False and is_best_validation(self._directory, step)):
            yield self._save(best_only=not due)

    def _save(self, *, best_only: bool = False) -> CheckpointSaved:
        self._saved = step = self._step
        mark_as_best_only(self._directory, step, best_only)
        self._found.write(begin_checkpoint(self._directory, step))
        return CheckpointSaved(step=step, path=str(finish_checkpoint(self._directory, step)))

    def _finish(self) -> Generator[Event]:
        """Save the last step; if the search is over, report what the best prompts are worth."""
        if not self._control.stop and self._found.validated:
            first, best = self._found.validated[0], self._found.best
            if self._step > best.step:
                # The prompts that the run ends with.
                yield ValidationReport(step=self._step, metrics=best.metrics)
            if self._useless:
                self._control.notify(
                    f"{self._useless} of {self._proposals} answers of the reflection LLM proposed no other prompt"
                )
            what = (
                f"the best prompts, of step {best.step}, have {best.mean:g} in validation; the workflow's own had {first.mean:g}"
            )
            none = f"no prompts were better in validation than the workflow's own, {first.mean:g}"
            self._control.notify(f"{what if best is not first else none}: {self._run.directory / FILE}", "info")
        if self._step > self._saved:
            yield self._save()

    @staticmethod
    def _make_key(split: str, step: int, tasks: Sequence[Task], texts: Candidate) -> Key:
        return make_evaluation_key(split, step, texts, [task.task_id for task in tasks])


def compute_scores(groups: Sequence[Group]) -> list[float]:
    """Return the mean reward of each task. A task without any has that of the others, which favours no prompt.

    Raises `RunFailed` if no episode at all has a reward.
    """
    means = [_average([one.reward for one in group.episodes if one.reward is not None]) for group in groups]
    known = [mean for mean in means if mean is not None]
    if not known:
        raise RunFailed(f"no episode of step {groups[0].step} ({groups[0].split}) has a reward, so prompts cannot be compared")
    return [sum(known) / len(known) if mean is None else mean for mean in means]


def _average(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _compute_step_metrics(groups: Sequence[Group]) -> dict[str, float]:
    metrics = compute_rollout_metrics(groups, [])
    return {
        name: value for name, value in metrics.items() if name not in OF_WEIGHTS and not name.startswith("signal/lost/tokens_")
    }
