"""GEPA in a thread of its own, as a sequence of questions: how good some prompts are, and which would be better.

`gepa.optimize` calls its adapter and returns when all is over, while a backbone yields events as they happen. So the search runs
in a thread that waits for each answer, and never while the run's own thread works.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.contract.schema import Split, Task
from astuner_gepa.prompts import Candidate

if TYPE_CHECKING:
    from gepa.core.adapter import EvaluationBatch

    from astuner.contract.protocols import TaskSource
    from astuner_gepa.options import Options

log = logging.getLogger(__name__)

Record = Mapping[str, Any]
"""What the reflection LLM is shown of an episode."""


@frozen(kw_only=True)
class Evaluation:
    """How good are these texts on these tasks? Answered by `Scores`."""

    split: Split
    step: int
    """The number of evaluations on training tasks, with this one if it is one of them."""
    tasks: Sequence[Task]
    texts: Candidate


@frozen(kw_only=True)
class Scores:
    """The mean reward of each task."""

    scores: Sequence[float]
    records: Mapping[str, Sequence[Record]]
    """By agent, what it did in the episodes; empty for validation tasks."""


@frozen(kw_only=True)
class Proposal:
    """What is a better text for this agent? Answered by the text; an empty one proposes nothing."""

    step: int
    agent: str
    text: str
    records: Sequence[Record]


@frozen
class _Example:
    """A task as GEPA passes it on."""

    split: Split
    task: Task


class _Ended(BaseException):
    """Unwinds the thread; not an `Exception`, which GEPA would catch."""


class Search:
    """Iterating over it starts GEPA and yields its questions; each is answered before the next one comes."""

    def __init__(self, seeds: Candidate, tasks: TaskSource, validation: Sequence[Task], options: Options, seed: int) -> None:
        """Start nothing yet."""
        self._seeds, self._tasks, self._options, self._seed = dict(seeds), tasks, options, seed
        self._validation = [_Example("validation", task) for task in validation]
        self._questions: SimpleQueue[Evaluation | Proposal | None] = SimpleQueue()
        self._answers: SimpleQueue[Any] = SimpleQueue()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="gepa", daemon=True)
        self._step = 0

    def __iter__(self) -> Iterator[Evaluation | Proposal]:
        """Yield the questions; raises what GEPA raised."""
        self._thread.start()
        while (question := self._questions.get()) is not None:
            yield question
        if self._error is not None:
            raise self._error

    def answer(self, answer: Scores | str) -> None:
        """Answer the last question."""
        self._answers.put(answer)

    def close(self) -> None:
        """End the thread, which waits for an answer or is over."""
        self._answers.put(_Ended())
        with suppress(RuntimeError):  # it was never started
            self._thread.join()

    def _run(self) -> None:
        try:
            self._optimize()
        except _Ended:
            pass
        except BaseException as error:  # noqa: BLE001  # it is raised again in the run's own thread
            self._error = error
        finally:
            self._questions.put(None)

    def _optimize(self) -> None:
        import gepa

        options, perfect = self._options, self._options.perfect_score
        gepa.optimize(
            seed_candidate=self._seeds,
            trainset=_Batches(self._tasks),
            valset=self._validation,
            adapter=_Adapter(self),
            batch_sampler=_NextBatch(),
            candidate_selection_strategy=options.selection,
            module_selector=options.components,
            acceptance_criterion=options.acceptance,
            skip_perfect_score=perfect is not None,
            perfect_score=1.0 if perfect is None else perfect,
            # Whoever answers ends it.
            stop_callbacks=lambda state: False,
            track_best_outputs=False,
            logger=_Log(),
            seed=self._seed,
        )

    def evaluate(self, batch: Sequence[_Example], texts: Candidate) -> Scores:
        """Ask from the thread."""
        split = batch[0].split
        self._step += split == "train"
        tasks = [example.task for example in batch]
        found: Scores = self._ask(Evaluation(split=split, step=self._step, tasks=tasks, texts=dict(texts)))
        return found

    def propose(self, agent: str, text: str, records: Sequence[Record]) -> str:
        """Ask from the thread."""
        found: str = self._ask(Proposal(step=self._step, agent=agent, text=text, records=records))
        return found

    def _ask(self, question: Evaluation | Proposal) -> Any:
        self._questions.put(question)
        answer = self._answers.get()
        if isinstance(answer, _Ended):
            raise answer
        return answer


class _Adapter:
    """GEPA's `GEPAAdapter`."""

    def __init__(self, search: Search) -> None:
        self._search = search

    def evaluate(
        self, batch: list[_Example], candidate: dict[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[Any, Any]:
        from gepa.core.adapter import EvaluationBatch

        found = self._search.evaluate(batch, candidate)
        scores = list(found.scores)
        # One trajectory per task, as GEPA wants them; all records are in the first.
        trajectories: list[Any] = [found.records, *({} for _ in scores[1:])]
        return EvaluationBatch(outputs=[None] * len(scores), scores=scores, trajectories=trajectories if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: EvaluationBatch[Any, Any], components_to_update: list[str]
    ) -> Mapping[str, Sequence[Record]]:
        records: Mapping[str, Sequence[Record]] = (eval_batch.trajectories or [{}])[0]
        return {agent: records.get(agent, ()) for agent in components_to_update}

    def propose_new_texts(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Record]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        proposed = {
            agent: self._search.propose(agent, candidate[agent], reflective_dataset[agent])
            for agent in components_to_update
            if reflective_dataset.get(agent)
        }
        return {agent: text for agent, text in proposed.items() if text}


class _Batches:
    """GEPA's `DataLoader` over the batches of tasks, numbered from 1 in the order in which weights are trained on them."""

    def __init__(self, tasks: TaskSource) -> None:
        self._tasks = tasks

    def all_ids(self) -> Sequence[int]:
        return range(1, len(self) + 1)

    def fetch(self, ids: Sequence[int]) -> list[_Example]:
        """Return the tasks of the batches."""
        return [_Example("train", task) for number in ids for task in self._tasks.batch(number)]

    def __len__(self) -> int:
        return self._tasks.total_steps


class _NextBatch:
    """GEPA's `BatchSampler`: one batch after the other, none twice before all had their turn."""

    def __init__(self) -> None:
        self._number = 0

    def next_minibatch_ids(self, loader: _Batches, state: Any) -> list[int]:
        self._number += 1
        return [self._number]


class _Log:
    """GEPA's logger."""

    def log(self, message: str) -> None:
        log.debug("%s", message)
