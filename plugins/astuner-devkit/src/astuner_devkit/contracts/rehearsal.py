"""One attempt of a run in this process up to the backbone's events, set up like `astuner run`, without its loop."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from astuner.contract.hookspecs import hookimpl
from astuner.contract.protocols import Candidate
from astuner.contract.schema import CheckpointSaved, Event, StepReport
from astuner.runs.driver.control import RunControl
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import EpisodeFiles
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.hooks import Hooks

if TYPE_CHECKING:
    from astuner.contract.protocols import Backbone, MakeEngine, RunInfo
    from astuner.episodes.rollout.sampler import TaskSampler
    from astuner.settings.planning.plan import Plan


@frozen(kw_only=True, eq=False)
class Rehearsal:
    """The parts of an attempt."""

    plan: Plan
    info: RunInfo
    tasks: TaskSampler
    control: RunControl
    directory: RunDirectory
    backbone: Backbone
    engines: EngineWatcher
    """The engines that the backbone made through the hooks."""

    def train(self) -> Generator[Event]:
        """Yield the events of training, recording them in the run directory."""
        with closing(self.backbone.train(self.info, self.tasks, self.plan.recipe, self.control)) as events:
            for event in events:
                if isinstance(event, StepReport):
                    self.directory.write_state(step=event.step)
                elif isinstance(event, CheckpointSaved):
                    self.control.store.sync()
                    self.directory.write_state(checkpoint=event.step)
                yield event

    def evaluate(self) -> Generator[Event]:
        """Yield the events of one validation pass with `model.path`."""
        with closing(self.backbone.evaluate(self.info, self.tasks, self.plan.recipe, None, self.control)) as events:
            yield from events


class EngineWatcher:
    """An extension that records which engines are made and which are open."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.open: list[str] = []

    @hookimpl(wrapper=True)
    def astuner_make_engine(self, candidate: Candidate) -> Generator[None, MakeEngine, MakeEngine]:
        """Watch each engine that the factory makes."""
        make = yield
        return lambda: self._watch(make(), f"{candidate.name} #{len(self.made) + 1}")

    def _watch(self, engine: Any, name: str) -> Any:
        close = engine.close

        async def close_and_note() -> None:
            if name in self.open:
                self.open.remove(name)
            await close()

        try:
            engine.close = close_and_note
        except AttributeError:
            return engine  # its class has slots, so it cannot be watched
        self.made.append(name)
        self.open.append(name)
        return engine


@contextmanager
def rehearse(conf: Path, *, resume: bool = False) -> Iterator[Rehearsal]:
    """Open an attempt and close all of it; `resume` continues from the last checkpoint in the run directory.

    The run directory is next to the configuration. Installed extensions are ignored.
    """
    from astuner.settings.planning.plan import plan_run

    plan = plan_run(conf)
    with ExitStack() as stack:
        directory = RunDirectory(conf.resolve().parent / "contract_run")
        directory.open()
        stack.callback(directory.close)
        step = [0, *directory.list_saved_steps()][-1] if resume else 0
        store = EpisodeFiles(directory.episodes, replay_after=(step or -1) if resume else None)
        stack.callback(store.close)
        hooks = Hooks(Catalog())
        engines = EngineWatcher()
        hooks.register(engines, "the contract of backbones")
        info = evolve(plan.run_info(attempt=directory.attempts + 1), directory=directory.path)
        tasks = plan.sample_tasks(hooks.make_reader(plan.reader.candidate, plan.reader.options, info))
        directory.write_run({"backbone": plan.backbone.candidate.name})
        backbone = hooks.make_backbone(plan.backbone.candidate, plan.backbone.options, info)
        stack.callback(backbone.close)
        control = RunControl(
            store=store,
            hooks=hooks,
            resume_step=step,
            notify=lambda text, level: None,
            progress=lambda what, done, total: None,
        )
        yield Rehearsal(
            plan=plan, info=info, tasks=tasks, control=control, directory=directory, backbone=backbone, engines=engines
        )
