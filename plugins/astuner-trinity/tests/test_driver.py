"""What the driver makes of what Trinity's processes write, however long it was busy elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve, field

from astuner.contract.errors import RunFailed
from astuner.contract.schema import Episode, Event, Group, Split, StepReport, Task, ValidationReport, Verdict, WorkflowOutput
from astuner.episodes.judging.estimators import Grpo
from astuner.runs.inspection.metric_names import list_metric_names
from astuner.runs.store.episode_store import EpisodeFiles, StoredEpisodes
from astuner.runs.training.signal import TOKEN_SUMS
from astuner.settings.config.loading import load_config
from astuner_devkit.run_infos import run_info
from astuner_trinity.driver import Driver
from astuner_trinity.layout import Layout, record_of
from astuner_trinity.native_configuration import Wanted, finish_configuration
from astuner_trinity.process_environment import Machine
from astuner_trinity.rows import MEASURED
from astuner_trinity.schedule import Schedule
from astuner_trinity.spool import Spool

STAGE = "project/name"
GROUPS = 2


@define
class Asked:
    """What the driver asks of its run."""

    store: Any
    resume_step: int = 0
    stop: bool = False
    told: list[str] = field(factory=list)

    def take_save(self) -> bool:
        return False

    def notify(self, text: str, level: str = "warning") -> None:
        self.told.append(text)

    def progress(self, what: str, done: int, total: int) -> None:
        pass


@define
class Running:
    """A program of which the test says when it ends and what it logs."""

    status: int | None = None
    faults: list[str] = field(factory=list)

    def poll(self) -> int | None:
        return self.status

    def find_fault(self) -> str | None:
        return self.faults.pop(0) if self.faults else None

    def read_last_lines(self) -> str:
        return ""


@define
class Trinity:
    """The processes under a driver: what they write, by hand."""

    layout: Layout
    spool: Spool
    driver: Driver
    program: Running

    def enters(self, mode: str, token_parts: Path | None = None) -> None:
        parts = None if token_parts is None else str(token_parts)
        self._record("launch.jsonl", stage=STAGE, mode=mode, job=str(self.layout.home / "job"), token_parts=parts)

    def plays(self, step: int, split: Split = "train", groups: int = GROUPS) -> None:
        for number in range(groups):
            task = Task(main_query="?", task_id=f"t{number}")
            episodes = []
            for repeat in range(2):
                name = f"{split}/{step}/t{number}/{repeat}"
                made = Episode(id=name, task=task, step=step, repeat=repeat, split=split, output=WorkflowOutput())
                self.spool.add_episode(made)
                episodes.append(made.with_verdict(Verdict(reward=float(repeat))))
            group = Group(task=task, step=step, split=split, episodes=tuple(episodes))
            self.spool.add_verdicts(group)
            self.spool.add_group(group, began=time.time() - 60 * (number + 1))

    def finalizes(self, step: int) -> None:
        self._measures("explorer", step, **{"rollout/finished_task_count": float(GROUPS)})

    def trains(self, step: int, **measured: float) -> None:
        self._measures("trainer", step, **{"actor/grad_norm": 1.0, **measured})

    def ends(self) -> None:
        self._record("launch.jsonl", ended=STAGE)
        self.program.status = 0

    def _measures(self, role: str, step: int, **metrics: float) -> None:
        self._record(record_of(self.layout.records, STAGE, role).name, step=step, at=float(step), metrics=metrics)

    def _record(self, name: str, **content: Any) -> None:
        self.layout.records.mkdir(parents=True, exist_ok=True)
        with (self.layout.records / name).open("a") as file:
            file.write(json.dumps(content) + "\n")


@pytest.fixture
def trinity(tmp_path: Path, tree: Callable[..., dict[str, Any]]) -> Iterator[Callable[..., Trinity]]:
    """Return a function from the text of a section `trinity` to a run under a driver."""
    stores = []

    def made(text: str = "") -> Trinity:
        overrides = (f"data.train_batch_size={GROUPS}", "rollout.num_repeat=2")
        native = tree(*overrides, text=text)
        layout = Layout(tmp_path / "run")
        wanted = Wanted(layout=layout, model="/model", total_steps=2, loss_agg_mode="token-mean")
        run = evolve(run_info(tmp_path), config=load_config(tmp_path / "run.yaml", overrides).config)
        earlier = StoredEpisodes(run.directory / "episodes", replay_after=None)
        store = EpisodeFiles(run.directory / "episodes")
        stores.append(store)
        driver = Driver(
            run=run,
            control=Asked(store),  # type: ignore[arg-type]  # as much as it asks of
            layout=layout,
            native=finish_configuration(native, Machine(gpus=0, stand_in="a stand-in"), wanted),
            estimator=Grpo.from_run(None, run),
            schedule=Schedule(total=2, every=1, before=True),
            earlier=earlier,
            tasks=GROUPS,
        )
        spool = Spool(layout.played / "a.jsonl", earlier)
        return Trinity(layout, spool, driver, Running())

    yield made
    for store in stores:
        store.close()


def followed(trinity: Trinity) -> Iterator[Event]:
    program: Any = trinity.program
    yield from trinity.driver.follow(program)


def test_whoever_takes_long_over_an_event_ends_no_healthy_run(trinity: Callable[..., Trinity]) -> None:
    """A logger that hangs for a while: by the time it is done, steps were played and trained."""
    one = trinity()
    one.enters("both")
    one.plays(0, "validation")
    events = followed(one)
    assert isinstance(next(events), ValidationReport)
    for step in (1, 2):
        one.plays(step)
        one.finalizes(step)
        one.trains(step)
    one.program.status = 0
    reports = [event for event in events if isinstance(event, StepReport)]
    assert [(report.step, len(report.groups)) for report in reports] == [(1, GROUPS), (2, GROUPS)]


@pytest.mark.parametrize("mode", ["both", "explore"])
def test_groups_that_are_missing_from_a_step_end_the_run(trinity: Callable[..., Trinity], mode: str) -> None:
    one = trinity()
    one.enters(mode)
    one.plays(1, groups=GROUPS - 1)
    one.finalizes(1)
    one.program.faults.append("explorer: KeyError: 'no such task'")
    one.program.status = 0
    with pytest.raises(RunFailed, match=r"1 of the 2 groups of step 1 were played.*KeyError: 'no such task'"):
        list(followed(one))


def test_a_step_may_lack_groups_where_the_user_asked_for_it_but_not_all(trinity: Callable[..., Trinity]) -> None:
    one = trinity("trinity: {explorer: {dynamic_timeout: {enable: true}}}")
    one.enters("both")
    one.plays(1, groups=1)
    one.finalizes(1)
    one.trains(1)
    events = followed(one)
    assert isinstance(report := next(events), StepReport)
    assert len(report.groups) == 1
    one.finalizes(2)
    one.program.status = 0
    with pytest.raises(RunFailed, match="0 of the 2 groups of step 2 were played"):
        next(events)


def test_a_task_that_trinity_forgot_ends_the_run(trinity: Callable[..., Trinity]) -> None:
    one = trinity()
    one.enters("both")
    one.program.faults.append("explorer_rollout_coordinator: Task 0 failed: The actor died unexpectedly")
    one.program.status = 0
    with pytest.raises(RunFailed, match=r"a process of Trinity died: .*Task 0 failed"):
        list(followed(one))


@pytest.mark.parametrize("measured", [True, False])
def test_a_bench_that_measured_nothing_has_failed(trinity: Callable[..., Trinity], measured: bool) -> None:
    one = trinity()
    one.enters("bench")
    if measured:
        one.plays(0, "validation")
    one.ends()
    if measured:
        assert [type(event) for event in followed(one)] == [ValidationReport]
        return
    with pytest.raises(RunFailed, match="has measured nothing, of 2 validation task"):
        list(followed(one))


def test_a_step_was_played_from_its_first_group_to_its_last(trinity: Callable[..., Trinity]) -> None:
    """As long as the wall clock, not the sum over groups, and without what the other steps took."""
    one = trinity()
    one.enters("both")
    for step in (1, 2):
        one.plays(step)
        one.finalizes(step)
        one.trains(step)
    one.ends()
    steps = [event for event in followed(one) if isinstance(event, StepReport)]
    # The earlier group of each step began two minutes before it ended.
    assert [round(step.metrics["time/rollout_s"] / 60) for step in steps] == [2, 2]
    assert [step.metrics["signal/groups_filtered"] for step in steps] == [0, 0]


def test_a_step_has_the_metrics_that_all_backbones_share(trinity: Callable[..., Trinity]) -> None:
    one = trinity()
    one.enters("both")
    sums = dict.fromkeys((*TOKEN_SUMS, "drift", "update_ratio", "abs_max", "tokens_computed", "rate"), 1.0)
    for step in (1, 2):
        one.plays(step)
        one.finalizes(step)
        one.trains(step, **{f"actor/{MEASURED}{name}": value for name, value in sums.items()})
    one.ends()
    steps = [event for event in followed(one) if isinstance(event, StepReport)]
    shared = {metric.name for metric in list_metric_names() if metric.shared}
    assert [shared - set(step.metrics) for step in steps] == [set(), set()]


@define
class Recorded:
    """What the driver asks to be recorded."""

    steps: list[tuple[int, int, int]] = field(factory=list)

    def take(self, directory: Path, step: int, groups: Any, rows: Any, *, named: int, is_stale: bool) -> dict[str, float]:
        self.steps.append((step, len(groups), named))
        return {"mismatch/seq_kl_max": 0.1, "reward/mean": 99.0}


@pytest.mark.parametrize("parts", [True, False])
def test_the_tokens_of_a_step_are_recorded_before_it_is_reported(trinity: Callable[..., Trinity], parts: bool) -> None:
    one = trinity()
    recorded = one.driver.token_record = Recorded()  # type: ignore[assignment]  # as much as it asks of
    one.enters("both", one.layout.token_parts if parts else None)
    for step in (1, 2):
        one.plays(step)
        one.finalizes(step)
        one.trains(step)
    one.ends()
    reported = [(list(recorded.steps), event.metrics) for event in followed(one) if isinstance(event, StepReport)]
    expected = [(1, GROUPS, 1), (2, GROUPS, 2)] if parts else []
    assert [steps for steps, _ in reported] == [expected[:1], expected]
    # What is known exactly is not taken from the record, which is of half precision.
    assert [(metrics.get("mismatch/seq_kl_max"), metrics["reward/mean"] < 99) for _, metrics in reported] == [
        (0.1 if parts else None, True)
    ] * 2


def test_a_later_stage_reports_the_episodes_that_its_processes_name_by_the_steps_of_the_run(
    trinity: Callable[..., Trinity],
) -> None:
    one = trinity()
    recorded = one.driver.token_record = Recorded()  # type: ignore[assignment]  # as much as it asks of
    one.driver.offsets = {"before": (0, 10), "name": (10, 2)}
    one.enters("both", one.layout.token_parts)
    one.plays(10, "validation")
    for step in (1, 2):
        one.plays(10 + step)
        one.plays(10 + step, "validation")
        one.finalizes(step)
        one.trains(step)
    one.ends()
    events = [event for event in followed(one) if isinstance(event, (StepReport, ValidationReport))]
    assert [(type(event), event.step) for event in events] == [
        (ValidationReport, 10),
        (StepReport, 11),
        (ValidationReport, 11),
        (StepReport, 12),
        (ValidationReport, 12),
    ]
    assert [{group.step for group in event.groups} for event in events] == [{event.step} for event in events]
    assert recorded.steps == [(1, GROUPS, 11), (2, GROUPS, 12)]


def test_a_slow_start_is_counted_until_an_episode_is_played(
    trinity: Callable[..., Trinity], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("astuner_trinity.driver.LOOK_S", 0.0)
    monkeypatch.setattr("astuner_trinity.driver.TELL_S", 0.001)
    running, polled, counts = trinity(), 0, []

    def poll() -> int | None:
        nonlocal polled
        polled += 1
        time.sleep(0.01)
        told = running.driver.control.told  # type: ignore[attr-defined]
        counts.append(sum(text.startswith("Trinity: starting, ") for text in told))
        if polled == 4:
            running.enters("both")
            running.plays(1)
        elif polled == 8:
            running.program.status = 1
        return running.program.status

    monkeypatch.setattr(Running, "poll", lambda self: poll())
    with pytest.raises(RunFailed):
        list(running.driver.follow(running.program))  # type: ignore[arg-type]
    assert counts == [0, 1, 2, 3, 3, 3, 3, 3]
