"""What a run does with the events of a backbone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from astuner import hookimpl
from astuner.contract.errors import RunFailed, UsageError
from astuner.contract.schema import GREEDY, CheckpointSaved, Episode, Event, Notice, StepReport, ValidationReport
from astuner.runs.driver.control import RunControl
from astuner.runs.driver.episode_faults import EpisodeFaults
from astuner.runs.driver.event_handling import STEPS_WITHOUT_SIGNAL, Progress, drive
from astuner.runs.driver.replayed_steps import ReplayedSteps, read_step_times
from astuner.runs.driver.reporting import Loggers, NamedLogger
from astuner.runs.store.checkpoints import begin_checkpoint, find_checkpoint, finish_checkpoint
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import EpisodeFiles
from astuner.settings.config.model import Config
from astuner.settings.config.trainer import TrainerCommon
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.hooks import Hooks
from astuner_devkit.episodes import episode, group
from astuner_devkit.run_infos import run_info


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
        self.metrics = metrics

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
    progress: Progress = field(factory=lambda: Progress(faults=EpisodeFaults(Path("run"))))
    times: dict[int, dict[str, float]] = field(factory=dict)
    played_now: list[Episode] = field(factory=list)
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
        store = EpisodeFiles(directory.episodes, replay_after=0)
        for one in self.played_now:
            store.add_episode(one)
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
                replayed=ReplayedSteps(store=store, times=self.times),
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
    stage.drive(
        *(validation(1, 0.4), CheckpointSaved(step=1, path="x")),
        *(validation(2, 0.9), CheckpointSaved(step=2, path="x")),
        *(validation(3, 0.5), CheckpointSaved(step=3, path="x")),
    )
    assert find_checkpoint(stage.directory, "best").name == "step_2"


def test_no_validation_is_remembered_where_the_best_is_not_wanted(stage: Stage):
    stage.trainer = TrainerCommon(keep_best=False)
    stage.drive(validation(1, 0.4), CheckpointSaved(step=1, path="x"))
    with pytest.raises(UsageError, match="no best checkpoint is known"):
        find_checkpoint(stage.directory, "best")


def test_a_better_step_that_was_never_saved_does_not_cost_the_best_checkpoint(stage: Stage):
    stage.trainer = TrainerCommon(max_checkpoints_to_keep=1)
    stage.drive(validation(2, 0.5), CheckpointSaved(step=2, path="x"), validation(4, 0.9))
    stage.drive(validation(6, 0.4), CheckpointSaved(step=6, path="x"))
    assert stage.directory.list_saved_steps() == [2, 6]


def test_old_checkpoints_are_deleted(stage: Stage):
    stage.trainer = TrainerCommon(max_checkpoints_to_keep=2)
    stage.drive(*(CheckpointSaved(step=n, path="x") for n in (1, 2, 3)))
    assert stage.directory.list_saved_steps() == [2, 3]


def test_a_logger_that_fails_is_named_and_left_out_and_the_run_goes_on(stage: Stage):
    stage.logs = [Log(breaks=True), Log()]
    stage.drive(step(1), step(2))
    assert stage.told == ["logger 'log0' failed and is left out: OSError: no network"]
    assert stage.logs[1].steps == [1, 2]


def timed_step(*repeats: int) -> StepReport:
    times = {"time/rollout_s": 0.1, "time/engine_s": 0.0, "time/update_s": 2.0, "time/step_s": 2.1, "tokens/per_s": 9999.0}
    return StepReport(step=1, metrics={"reward/mean": 0.5, **times}, groups=(group(*map(episode, repeats)),))


@pytest.fixture
def stored(stage: Stage) -> Stage:
    """The stage of a resumed run, whose store has the first of the step's episodes."""
    store = EpisodeFiles(stage.directory.episodes)
    store.add_episode(episode(0))
    store.close()
    return stage


def test_a_step_of_stored_episodes_has_the_times_of_the_attempt_that_played_them(stored: Stage):
    stored.times = {1: {"time/rollout_s": 8.0, "time/step_s": 10.0, "tokens/per_s": 150.0}}
    stored.drive(timed_step(0))
    assert stored.logs[0].metrics == {
        "reward/mean": 0.5,
        "time/rollout_s": 8.0,
        "time/update_s": 2.0,
        "time/step_s": 10.0,
        "tokens/per_s": 150.0,
        "time/episodes_replayed": 1.0,
    }


def test_a_step_that_is_replayed_in_part_has_no_throughput(stored: Stage):
    stored.times = {1: {"tokens/per_s": 150.0}}
    stored.played_now = [episode(1)]
    stored.drive(timed_step(0, 1))
    assert stored.logs[0].metrics == {
        "reward/mean": 0.5,
        "time/update_s": 2.0,
        "time/step_s": 2.1,
        "time/episodes_replayed": 1.0,
    }


def test_greedy_siblings_are_replayed_too(stored: Stage):
    stored.times = {1: {"tokens/per_s": 150.0}}
    stored.played_now = [episode(GREEDY)]
    stored.drive(timed_step(0, GREEDY))
    # Its sibling is of an earlier attempt, and it is of this one.
    assert stored.logs[0].metrics["time/episodes_replayed"] == 1.0
    assert "tokens/per_s" not in stored.logs[0].metrics


def test_a_step_that_was_played_now_keeps_its_times(stored: Stage):
    stored.played_now = [episode(0)]
    stored.drive(timed_step(0))
    assert stored.logs[0].metrics == timed_step(0).metrics


def test_the_times_of_repeated_steps_are_read_from_the_metrics_of_the_earlier_attempt(tmp_path: Path):
    rows = [
        '{"step": 1, "kind": "train", "time/step_s": 1.0}',
        '{"step": 2, "kind": "train", "time/step_s": 2.0, "tokens/per_s": null, "reward/mean": 0.5}',
        '{"step": 2, "kind": "validation", "val/reward/mean": 0.5}',
        '{"step": 3, "kind": "tra',
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows))
    assert read_step_times(tmp_path / "metrics.jsonl", after=1) == {2: {"time/step_s": 2.0}}


def test_a_notice_reaches_the_user(stage: Stage):
    stage.drive(Notice(text="look"))
    assert stage.told == ["look"]


def test_too_many_steps_without_signal_end_the_run_and_the_backbone_is_closed(stage: Stage):
    with pytest.raises(RunFailed, match="no token had a non-zero advantage in 20 steps in a row"):
        stage.drive(*(step(n, signal=0.0) for n in range(1, STEPS_WITHOUT_SIGNAL + 5)))
    assert stage.closed
    assert stage.directory.state["step"] == STEPS_WITHOUT_SIGNAL


def offer(monkeypatch: pytest.MonkeyPatch, describe: Any) -> None:
    """As if a package offered, or did not offer, to say what holds a run back."""
    monkeypatch.setattr("astuner.runs.driver.run_story.find_function", lambda name: describe)


def fail(path: Path, name: str) -> str:
    raise KeyError("reward/mean")


@pytest.mark.parametrize(
    ("describe", "says"),
    [
        (lambda path, name: f"the answers have collapsed in {path.name}", "the answers have collapsed in run"),
        (lambda path, name: None, "no token has an advantage. Siblings of a task get the same reward"),
        (None, "no token has an advantage. Siblings of a task get the same reward"),
        (fail, "what holds this run back cannot be said: KeyError: 'reward/mean'"),
    ],
)
def test_a_run_that_learns_nothing_says_why_once(stage: Stage, monkeypatch: pytest.MonkeyPatch, describe: Any, says: str):
    offer(monkeypatch, describe)
    stage.drive(*(step(number, signal=0.0) for number in range(1, 8)))
    assert len(stage.told) == 1
    assert stage.told[0].startswith(f"nothing was learnt in 3 steps in a row: {says}")


def test_a_run_is_looked_at_after_ten_steps_and_whenever_it_is_twice_as_long(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    offer(monkeypatch, lambda path, name: f"after {RunDirectory(path).state['step']}")
    stage.drive(*(step(number) for number in range(1, 90)))
    assert stage.told == ["after 10", "after 20", "after 40", "after 80"]


def test_after_its_last_step_the_end_of_a_run_is_looked_at(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    offer(monkeypatch, lambda path, name: "slow")
    stage.trainer = TrainerCommon(total_training_steps=10)
    stage.drive(*(step(number) for number in range(1, 11)))
    assert stage.told == []


def test_two_steps_without_signal_are_no_news(stage: Stage):
    stage.drive(step(1, 0.0), step(2, 0.0), step(3), step(4, 0.0), step(5, 0.0))
    assert stage.told == []


def test_a_step_with_signal_starts_the_count_anew(stage: Stage):
    stage.drive(*(step(n, signal=float(n % 15 == 0)) for n in range(1, 60)))
    assert stage.directory.state["step"] == 59
