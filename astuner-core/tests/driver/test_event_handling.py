"""What a run does with the events of a backbone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from astuner import hookimpl
from astuner.config.model import Config
from astuner.config.trainer import TrainerCommon
from astuner.driver.control import RunControl
from astuner.driver.event_handling import STEPS_WITHOUT_SIGNAL, Progress, drive
from astuner.driver.reporting import Loggers, NamedLogger
from astuner.errors import RunFailed
from astuner.plugins.catalog import Catalog
from astuner.plugins.hooks import Hooks
from astuner.runs.checkpoints import begin_checkpoint, finish_checkpoint
from astuner.runs.directory import RunDirectory
from astuner.runs.episode_store import EpisodeFiles
from astuner.schema import CheckpointSaved, Event, Notice, StepReport, ValidationReport
from astuner.testing.episodes import episode, group
from astuner.testing.run_infos import run_info


class Listener:
    def __init__(self) -> None:
        self.heard: list[str] = []

    @hookimpl
    def astuner_episode_finished(self, episode: Any) -> None:
        self.heard.append(f"episode {episode.id}")

    @hookimpl
    def astuner_step_finished(self, report: Any) -> None:
        self.heard.append(f"step {report.step}")

    @hookimpl
    def astuner_checkpoint_saved(self, step: int) -> None:
        self.heard.append(f"checkpoint {step}")


class Log:
    def __init__(self, breaks: bool = False) -> None:
        self.breaks, self.steps, self.closed = breaks, [], False

    def log(self, step: int, metrics: Any) -> None:
        if self.breaks:
            raise OSError("no network")
        self.steps.append(step)

    def log_episodes(self, step: int, groups: Any) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@define(eq=False)
class Stage:
    path: Path
    trainer: TrainerCommon = field(factory=TrainerCommon)
    logs: list[Log] = field(factory=lambda: [Log()])
    listener: Listener = field(factory=Listener)
    told: list[str] = field(factory=list)
    progress: Progress = field(factory=Progress)
    closed: bool = False

    @property
    def directory(self) -> RunDirectory:
        return RunDirectory(self.path)

    def events(self, *events: Event) -> Iterator[Event]:
        try:
            for event in events:
                if isinstance(event, CheckpointSaved):
                    begin_checkpoint(self.directory, event.step)
                    finish_checkpoint(self.directory, event.step)
                yield event
        finally:
            self.closed = True

    def drive(self, *events: Event) -> None:
        directory = self.directory
        directory.open()
        hooks = Hooks(Catalog())
        assert hooks.register(self.listener, "listener")
        store = EpisodeFiles(directory.episodes)
        info = run_info(self.path, directory=self.path, config=Config(trainer_common=self.trainer))
        control = RunControl(
            store=store,
            hooks=hooks,
            resume_step=0,
            notify=lambda text, level: self.told.append(text),
            progress=lambda what, done, total: None,
        )
        loggers = Loggers([NamedLogger(f"log{i}", log) for i, log in enumerate(self.logs)], self.told.append)
        try:
            drive(
                self.events(*events),  # type: ignore[arg-type]
                run_info=info,
                directory=directory,
                loggers=loggers,
                hooks=hooks,
                control=control,
                progress=self.progress,
            )
        finally:
            store.close()
            directory.close()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "run")


def step(number: int, signal: float = 1.0) -> StepReport:
    metrics = {"signal/tokens_nonzero_advantage": signal, "reward/mean": 0.5}
    return StepReport(step=number, metrics=metrics, groups=(group(episode(step=number)),))


def validation(number: int, reward: float) -> ValidationReport:
    groups = (group(episode(step=number, split="validation")),)
    return ValidationReport(step=number, metrics={"val/reward/mean": reward}, groups=groups)


def test_listeners_hear_of_training_and_validation_in_the_order_of_events(stage: Stage):
    stage.drive(validation(0, 0.1), step(1), CheckpointSaved(step=1, path="x"))
    assert stage.listener.heard == ["episode validation/0/t/0", "episode train/1/t/0", "step 1", "checkpoint 1"]


def test_the_first_and_the_last_validation_are_kept(stage: Stage):
    stage.drive(validation(0, 0.1), step(1), validation(1, 0.4), step(2), validation(2, 0.3))
    assert (stage.progress.before["val/reward/mean"], stage.progress.after["val/reward/mean"]) == (0.1, 0.3)


def test_the_best_validated_step_is_remembered(stage: Stage):
    stage.trainer = TrainerCommon(keep_best=True)
    stage.drive(step(1), validation(1, 0.4), step(2), validation(2, 0.9), step(3), validation(3, 0.5))
    assert stage.directory.state["best"] == {"step": 2, "metric": "val/reward/mean", "value": 0.9}


def test_old_checkpoints_are_deleted(stage: Stage):
    stage.trainer = TrainerCommon(max_checkpoints_to_keep=2)
    stage.drive(*(CheckpointSaved(step=n, path="x") for n in (1, 2, 3)))
    assert stage.directory.list_saved_steps() == [2, 3]


def test_a_logger_that_fails_is_named_and_left_out_and_the_run_goes_on(stage: Stage):
    stage.logs = [Log(breaks=True), Log()]
    stage.drive(step(1), step(2))
    assert stage.told == ["logger 'log0' failed and is left out: OSError: no network"]
    assert stage.logs[1].steps == [1, 2]


def test_a_notice_reaches_the_user(stage: Stage):
    stage.drive(Notice(text="look"))
    assert stage.told == ["look"]


def test_too_many_steps_without_signal_end_the_run_and_the_backbone_is_closed(stage: Stage):
    with pytest.raises(RunFailed, match=r"no token had a non-zero advantage in 20 steps in a row.*\(0\.5 on average\)"):
        stage.drive(*(step(n, signal=0.0) for n in range(1, STEPS_WITHOUT_SIGNAL + 5)))
    assert stage.closed
    assert stage.directory.state["step"] == STEPS_WITHOUT_SIGNAL


def test_a_step_with_signal_starts_the_count_anew(stage: Stage):
    stage.drive(*(step(n, signal=float(n % 15 == 0)) for n in range(1, 60)))
    assert stage.directory.state["step"] == 59
