"""Backbones for the tests of their contract: one that keeps every rule, and others that do one thing wrong each."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any, ClassVar

from attrs import evolve

from astuner.contract.protocols import BackboneTraits, Candidate
from astuner.contract.schema import CheckpointSaved, Event, StepReport, ValidationReport
from astuner.runs.store.checkpoints import begin_checkpoint, finish_checkpoint
from astuner.runs.store.directory import RunDirectory


class Counting:
    """Counts its steps, and saves the count."""

    name: ClassVar[Any] = "counting"
    traits = BackboneTraits(honours=("model", "data", "trainer_common.*", "rollout.*"))

    def train(self, run: Any, tasks: Any, recipe: Any, control: Any) -> Generator[Event]:
        for step in range(self.first(control), tasks.total_steps + 1):
            yield StepReport(step=step, metrics={"reward/mean": 0.5})
            if control.stop or step == tasks.total_steps:
                yield self.save(run, step)
            if control.stop:
                return

    def first(self, control: Any) -> int:
        return control.resume_step + 1

    def save(self, run: Any, step: int) -> CheckpointSaved:
        directory = RunDirectory(run.directory)
        (begin_checkpoint(directory, step) / "count").write_text(str(step))
        return CheckpointSaved(step=step, path=str(finish_checkpoint(directory, step)))

    def evaluate(self, run: Any, tasks: Any, recipe: Any, checkpoint: Any, control: Any) -> Generator[Event]:
        yield ValidationReport(step=0, metrics={"val/reward/mean": 0.5})

    def export(self, checkpoint: Path, out: Path, *, merge_lora: bool, dtype: str | None = None) -> None: ...

    def close(self) -> None: ...


class TakesTooLittle(Counting):
    def evaluate(self, run: Any, tasks: Any, recipe: Any) -> Generator[Event]:  # type: ignore[override]
        yield from ()


class CannotExport(Counting):
    export: Any = None


class Nameless(Counting):
    name = None


class CapitalName(Counting):
    name = "Counting-2"


class UnknownKey(Counting):
    traits = evolve(Counting.traits, honours=("trainer_common.learning_rate",))


class UnknownKeyOfASection(Counting):
    traits = evolve(Counting.traits, honours=("rollout.multi_turn.max_stepps",))


class OptionOfAnEngine(Counting):
    traits = evolve(Counting.traits, honours=("rollout.local.kv_tokens",))


class UnknownRefusal(Counting):
    traits = evolve(Counting.traits, refuses={"rolout.*": "not supported yet"})


class NoReason(Counting):
    traits = evolve(Counting.traits, inapplicable={"debug.*": ""})


class Silent(Counting):
    traits = BackboneTraits(honours=("model", "data", "rollout.*"))


class CountsFromZero(Counting):
    def first(self, control: Any) -> int:
        return control.resume_step


class ReportsTwice(Counting):
    def train(self, *arguments: Any) -> Generator[Event]:
        for event in super().train(*arguments):
            yield event
            yield event


class EndsEarly(Counting):
    def train(self, *arguments: Any) -> Generator[Event]:
        yield StepReport(step=1, metrics={})


class SaysNothing(Counting):
    def train(self, *arguments: Any) -> Generator[Event]:
        yield from ()


class LeavesAThread(Counting):
    def train(self, *arguments: Any) -> Generator[Event]:
        threading.Thread(target=threading.Event().wait, name="left-behind", daemon=True).start()
        yield from super().train(*arguments)


class LeavesAProcess(Counting):
    processes: ClassVar[list[Any]] = []

    def train(self, *arguments: Any) -> Generator[Event]:
        self.processes.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        yield from super().train(*arguments)


class LeavesATask(Counting):
    loops: ClassVar[list[Any]] = []

    def train(self, *arguments: Any) -> Generator[Event]:
        loop = asyncio.new_event_loop()
        task = loop.create_task(asyncio.sleep(3600), name="left-behind")
        loop.run_until_complete(asyncio.sleep(0))
        self.loops.append((loop, task))
        yield from super().train(*arguments)


class Quiet:
    """As much of an engine as is closed."""

    async def close(self) -> None: ...


QUIET = Candidate(kind="engine", name="quiet", target=f"{__name__}:Quiet", source="path")


class ClosesItsEngine(Counting):
    closes = True

    def train(self, run: Any, tasks: Any, recipe: Any, control: Any) -> Generator[Event]:
        engine = control.hooks.make_engine(QUIET, None, run)()
        try:
            yield from super().train(run, tasks, recipe, control)
        finally:
            if self.closes:
                asyncio.run(engine.close())


class LeavesItsEngine(ClosesItsEngine):
    closes = False


class IgnoresStops(Counting):
    def train(self, run: Any, tasks: Any, recipe: Any, control: Any) -> Generator[Event]:
        for step in range(self.first(control), tasks.total_steps + 1):
            yield StepReport(step=step, metrics={})
            yield self.save(run, step)


class SavesNothingWhenStopped(Counting):
    def train(self, run: Any, tasks: Any, recipe: Any, control: Any) -> Generator[Event]:
        for event in super().train(run, tasks, recipe, control):
            if not (isinstance(event, CheckpointSaved) and control.stop):
                yield event


class StartsOver(Counting):
    def first(self, control: Any) -> int:
        return 1


class ForgetsTheRest(Counting):
    def train(self, run: Any, tasks: Any, recipe: Any, control: Any) -> Generator[Event]:
        for event in super().train(run, tasks, recipe, control):
            yield event
            if control.resume_step:
                return


class SavesElsewhere(Counting):
    def save(self, run: Any, step: int) -> CheckpointSaved:
        path = run.directory / f"global_step_{step}"
        path.mkdir(exist_ok=True)
        (path / "count").write_text(str(step))
        return CheckpointSaved(step=step, path=str(path))


class SavesNothing(Counting):
    def save(self, run: Any, step: int) -> CheckpointSaved:
        return CheckpointSaved(step=step, path=str(run.directory / "checkpoints" / f"step_{step}"))


class NeverSavesTheLast(Counting):
    def train(self, *arguments: Any) -> Generator[Event]:
        return (event for event in super().train(*arguments) if not isinstance(event, CheckpointSaved))  # type: ignore[return-value]


class EvaluatesNothing(Counting):
    def evaluate(self, *arguments: Any) -> Generator[Event]:  # type: ignore[override]
        yield from ()


class TrainsWhenEvaluating(Counting):
    def evaluate(self, run: Any, tasks: Any, recipe: Any, checkpoint: Any, control: Any) -> Generator[Event]:
        yield StepReport(step=1, metrics={})
        yield from super().evaluate(run, tasks, recipe, checkpoint, control)


class WordsForNumbers(Counting):
    def evaluate(self, *arguments: Any) -> Generator[Event]:  # type: ignore[override]
        yield ValidationReport(step=0, metrics={"val/reward/mean": "high"})  # type: ignore[dict-item]


class ClosesOnce(Counting):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("already closed")
        self.closed = True


class PlaysOnAfterAStop(Counting):
    """Trains nothing, and does not look whether a stop was asked for."""

    def train(self, *arguments: Any) -> Generator[Event]:
        yield StepReport(step=1, metrics={})
