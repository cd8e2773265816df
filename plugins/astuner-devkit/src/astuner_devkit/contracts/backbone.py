"""The contract of backbones: no key is silently ignored, a stop saves, a resume continues, and nothing is left running."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar
from unittest import SkipTest

from astuner.contract.protocols import BackboneTraits
from astuner.contract.protocols.traits import read_traits
from astuner.contract.schema import CheckpointSaved, StepReport, ValidationReport
from astuner.settings.config.schema_keys import walk_schema
from astuner.settings.planning.key_coverage import find_unaccounted_keys, matches
from astuner.settings.plugins.drivers import load
from astuner_devkit.contracts.base import Contract, self_contained
from astuner_devkit.contracts.leftovers import find_left_running, list_running
from astuner_devkit.contracts.rehearsal import Rehearsal, rehearse
from astuner_devkit.contracts.shape import assert_method, forbid_errors
from astuner_devkit.project import write_project

STEPS = 4
"""Of the run that `conf` writes by default."""

NAME = re.compile(r"[a-z][a-z0-9_]*")


class BackboneContract(Contract):
    """Rules for backbones. Most run a tiny training in this process; override `conf` when the backbone needs a model."""

    kind: ClassVar[str] = "backbone"
    trains: ClassVar[bool] = True
    """Whether it has training steps and checkpoints. False for one that only plays episodes, once."""

    def conf(self, directory: Path) -> Path:
        """Write the YAML of a tiny run of at least 3 steps that saves and has validation tasks, and return its path."""
        target = self.target()
        return write_project(
            directory,
            backbone=f"{target.__module__}:{target.__qualname__}",
            tasks=[{"task_id": f"task-{number}", "main_query": f"{number} + 1?", "answer": "4"} for number in range(STEPS)],
            settings={
                "task_reader": {"dataset_file": {"validation": {"file_path": "project.jsonl"}}},
                "data": {"train_batch_size": 1},
                "trainer_common": {"total_training_steps": STEPS, "logger": ["jsonl"]},
            },
        )

    @self_contained
    def test_it_has_the_methods_of_a_backbone(self) -> None:
        """A backbone has `train`, `evaluate`, `export` and `close`, as `astuner.contract.protocols.Backbone` has."""
        target = self.target()
        run = ("run", "tasks", "recipe")
        assert_method(target, "train", (*run, "control"), blame=self._blame, doc="It yields reports.")
        assert_method(target, "evaluate", (*run, "checkpoint", "control"), blame=self._blame, doc="It yields a ValidationReport.")
        assert_method(target, "close", (), blame=self._blame, doc="It releases everything.")
        assert callable(getattr(target, "export", None)), (
            f"{self._blame} has no method `export`: write `def export(self, checkpoint, out, *, merge_lora, dtype=None)`"
        )

    @self_contained
    def test_it_has_a_name(self) -> None:
        """`name` is what a YAML calls it: lower-case letters, digits and underscores."""
        name = getattr(self.target(), "name", None)
        assert isinstance(name, str), f"{self._blame}: has no name; write `name: ClassVar[str] = ...` in the class"
        assert NAME.fullmatch(name), f"{self._blame}: the name {name!r} does not match [a-z][a-z0-9_]*"

    @self_contained
    def test_each_pattern_means_a_key(self) -> None:
        """Each pattern in `honours`, `inapplicable` and `refuses` means at least one key that exists."""
        keys = walk_schema()
        for place, patterns in _patterns(self.target()).items():
            for pattern in patterns:
                assert _means_a_key(pattern, keys), (
                    f"{self._blame}: '{pattern}' in {place} means no key below `astuner`; `astuner config explain` knows all keys"
                )

    @self_contained
    def test_what_is_left_out_has_a_reason(self) -> None:
        """Each key that has no meaning for it (`inapplicable`), or that it does not support (`refuses`), has a reason."""
        traits = read_traits(self.target(), BackboneTraits)
        for place, reasons in {"inapplicable": traits.inapplicable, "refuses": traits.refuses}.items():
            for pattern, reason in reasons.items():
                assert len(reason.split()) > 1, (
                    f"{self._blame}: '{pattern}' in {place} has the reason {reason!r}; say in a few words why"
                )

    @self_contained
    def test_every_key_is_accounted_for(self) -> None:
        """Each key of the schema is honoured, by core or by it, or left out with a reason: none is ignored in silence."""
        missing = find_unaccounted_keys(self.target())
        assert not missing, (
            f"{self._blame}: says nothing of {', '.join(missing)}; name each in `honours`, or with a reason in `inapplicable` "
            "or `refuses`"
        )

    def test_steps_count_up_from_1(self, tmp_path: Path) -> None:
        """The steps of each clock begin with 1 and increase; the last training step is the one that the run was to have."""
        clocks: dict[str, list[int]] = {}
        with self._attempt(tmp_path) as attempt:
            for event in attempt.train():
                if isinstance(event, StepReport):
                    clocks.setdefault(event.clock, []).append(event.step)
            total = attempt.tasks.total_steps if self.trains else None
        assert clocks, f"{self._blame}: a whole run yielded no StepReport"
        for clock, steps in clocks.items():
            assert steps[0] == 1, f"{self._blame}: the first step of the clock '{clock}' is {steps[0]}; steps count from 1"
            rising = all(one < other for one, other in pairwise(steps))
            assert rising, f"{self._blame}: the steps of the clock '{clock}' are {steps}; each is reported once, in order"
        if total is not None:
            last = clocks.get("trainer", [0])[-1]
            assert last == total, f"{self._blame}: trained up to step {last}, and the run has {total} (tasks.total_steps)"

    def test_closing_in_the_middle_leaves_nothing_running(self, tmp_path: Path) -> None:
        """When the events are closed after the first step and then the backbone, no thread, process or asyncio task is left."""
        left: list[str] = []
        # On the first run, libraries may start helpers that live as long as the process; the second must leave nothing.
        for name in ("first", "second"):
            before, tasks = list_running(), _list_pending_tasks()
            with self._attempt(tmp_path / name) as attempt:
                events = attempt.train()
                next((event for event in events if isinstance(event, StepReport)), None)
                events.close()
            if name == "second":
                left = [*find_left_running(before), *(tasks[1] for tasks in (_list_pending_tasks() - tasks))]
        assert not left, (
            f"{self._blame}: {', '.join(left)} still there after close(); end them in a `finally` of train, or in close()"
        )

    def test_engines_are_closed(self, tmp_path: Path) -> None:
        """Each engine that it makes through the hooks is closed when the events are closed after the first step."""
        with self._attempt(tmp_path) as attempt:
            events = attempt.train()
            next((event for event in events if isinstance(event, StepReport)), None)
            events.close()
        if not attempt.engines.made:
            raise SkipTest(f"{self._blame}: made no engine through the hooks")
        assert not attempt.engines.open, (
            f"{self._blame}: engine {', '.join(attempt.engines.open)} was never closed; await engine.close() in a `finally` "
            "(astuner.episodes.rollout.host.open_rollouts does)"
        )

    def test_a_stop_is_obeyed_and_saved(self, tmp_path: Path) -> None:
        """After `control.stop` at most the step under way is finished; a checkpoint of the last step is saved."""
        with self._attempt(tmp_path) as attempt:
            if not self.trains:
                attempt.control.request_stop()
                steps = [event.step for event in attempt.train() if isinstance(event, StepReport)]
                assert not steps, f"{self._blame}: reported step {steps[:1]} though a stop had been asked for"
                return
            total = attempt.tasks.total_steps
            assert total >= 3, f"{self._blame}: the run of conf() has {total} steps; give it at least 3"
            reported, saved = _train_until_stopped(attempt)
        assert len(reported) <= 2, (
            f"{self._blame}: stopped after step 1, it went on to step {reported[-1]}; look at control.stop after each step"
        )
        assert saved == reported[-1:], (
            f"{self._blame}: stopped after step {reported[-1:]}, and the last checkpoint is of step {saved or 'none'}; "
            "save before returning"
        )

    def test_a_resumed_run_goes_on(self, tmp_path: Path) -> None:
        """A resumed run begins with the step after its checkpoint (`control.resume_step`), and ends with the same last step."""
        if not self.trains:
            raise SkipTest(f"{self._blame}: does not train (`trains` is False)")
        conf = self.conf(tmp_path)
        with self._rehearse(conf) as attempt:
            _, saved = _train_until_stopped(attempt)
        assert saved, f"{self._blame}: saved no checkpoint when it was stopped, so there is nothing to continue from"
        with self._rehearse(conf, resume=True) as attempt:
            resumed = attempt.control.resume_step
            steps = [event.step for event in attempt.train() if isinstance(event, StepReport) and event.clock == "trainer"]
            total = attempt.tasks.total_steps
        expected = list(range(resumed + 1, total + 1))
        assert steps[:1] == expected[:1], (
            f"{self._blame}: resumed from the checkpoint of step {resumed}, it began with step {steps[:1]}; "
            "begin with control.resume_step + 1"
        )
        assert steps[-1:] == expected[-1:], f"{self._blame}: resumed, it ended with step {steps[-1:]} of {total}"

    def test_checkpoints_lie_where_core_looks(self, tmp_path: Path) -> None:
        """A `CheckpointSaved` comes when its directory is complete, `checkpoints/step_N` of the run; the last step is saved."""
        if not self.trains:
            raise SkipTest(f"{self._blame}: does not train (`trains` is False)")
        saved = 0
        with self._attempt(tmp_path) as attempt:
            for event in attempt.train():
                if isinstance(event, CheckpointSaved):
                    saved, path = event.step, Path(event.path)
                    there = path.is_dir() and any(path.iterdir())
                    assert there, f"{self._blame}: says that the checkpoint of step {saved} is in {path}, and nothing is there"
                    own = attempt.directory.checkpoint(saved)
                    assert own.resolve() == path.resolve(), (
                        f"{self._blame}: the checkpoint of step {saved} is in {path}, and --resume looks for {own}; "
                        "astuner.runs.store.checkpoints writes there"
                    )
            total = attempt.tasks.total_steps
        assert saved == total, (
            f"{self._blame}: after {total} steps the last checkpoint is of step {saved or 'none'}; save the last step"
        )

    def test_it_evaluates(self, tmp_path: Path) -> None:
        """`evaluate` yields a `ValidationReport` with numbers, and trains nothing."""
        with self._attempt(tmp_path) as attempt:
            if not attempt.tasks.validation():
                raise SkipTest(f"{self._blame}: the run of conf() has no validation tasks")
            events = list(attempt.evaluate())
        reports = [event for event in events if isinstance(event, ValidationReport)]
        assert reports, f"{self._blame}: evaluate yielded no ValidationReport"
        steps = [event.step for event in events if isinstance(event, StepReport)]
        assert not steps, f"{self._blame}: evaluate reported training step {steps[:1]}; it only plays the validation tasks"
        for name, value in reports[-1].metrics.items():
            assert isinstance(value, int | float), f"{self._blame}: the metric '{name}' is {value!r}; metrics are numbers"

    def test_closing_twice_is_harmless(self, tmp_path: Path) -> None:
        """`close` may be called before anything was trained, and more than once: it is called on every path."""
        backbone = self.make(tmp_path)
        for when in ("before training", "a second time"):
            with forbid_errors(f"{self._blame}: close(), called {when},", "let it do nothing"):
                backbone.close()

    def _attempt(self, directory: Path) -> AbstractContextManager[Rehearsal]:
        directory.mkdir(parents=True, exist_ok=True)
        return self._rehearse(self.conf(directory))

    @contextmanager
    def _rehearse(self, conf: Path, *, resume: bool = False) -> Iterator[Rehearsal]:
        with rehearse(conf, resume=resume) as attempt:
            named = attempt.plan.backbone.candidate
            assert load(named) is self.target(), f"{self._blame}: the YAML of conf() names {named.blame}; name this one"
            yield attempt


def _patterns(target: Any) -> dict[str, Iterable[str]]:
    """Return the key patterns in a backbone's traits, by field."""
    traits = read_traits(target, BackboneTraits)
    return {"honours": traits.honours, "inapplicable": traits.inapplicable, "refuses": traits.refuses}


def _means_a_key(pattern: str, keys: Sequence[str]) -> bool:
    if any(matches(key, pattern) for key in keys):
        return True
    # `rollout.*` covers sections of free names, such as `rollout.local`: a pattern may mean an option in one.
    parts = pattern.split(".")
    section = ".".join(parts[:2])
    free = f"{parts[0]}.*" in keys and len(parts) > 2
    return free and not any(key.startswith(f"{section}.") for key in keys)


def _train_until_stopped(attempt: Rehearsal) -> tuple[list[int], list[int]]:
    """Ask for a stop after the first training step; return the steps reported, and the step of the last checkpoint, if any."""
    reported: list[int] = []
    saved: list[int] = []
    for event in attempt.train():
        if isinstance(event, StepReport) and event.clock == "trainer":
            reported.append(event.step)
            attempt.control.request_stop()
        elif isinstance(event, CheckpointSaved):
            saved = [event.step]
    return reported, saved


def _list_pending_tasks() -> set[tuple[int, str]]:
    gc.collect()
    tasks = [found for found in gc.get_objects() if issubclass(type(found), asyncio.Task)]
    return {(id(task), f"asyncio task {task.get_name()!r}") for task in tasks if not task.done()}
