"""From the files of Trinity's processes to the events of a run: steps, validations, checkpoints, in order."""

from __future__ import annotations

import shutil
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attrs import define, field

from astuner.contract.errors import RunFailed
from astuner.contract.protocols import Control, Estimator, RunInfo
from astuner.contract.schema import CheckpointSaved, Event, Group, Split, StepReport, ValidationReport, WeightSpan
from astuner.episodes.judging.advantages import compute_advantages
from astuner.episodes.rollout.metrics import compute_validation_metrics
from astuner.episodes.rollout.runner import check_failure_budget
from astuner.runs.store.directory import RunDirectory
from astuner.settings.config.trees import get
from astuner_trinity.checkpoints import adopt, read_saved_step
from astuner_trinity.followed_stage import FollowedStage
from astuner_trinity.layout import Layout, record_of
from astuner_trinity.native_keys import BATCHES, LOSS
from astuner_trinity.program import DIED, Program, describe_foreign_cluster
from astuner_trinity.reports import explorer_metrics, step_metrics
from astuner_trinity.spool import JudgedGroup, Lines, Notice, PlayedEpisode, SpoolTail, keep

if TYPE_CHECKING:
    from astuner_trinity.schedule import Schedule
    from astuner_trinity.spool import EarlierEpisodes
    from astuner_trinity.token_record import TokenRecord

LOOK_S = 0.2
TELL_S = 15.0
"""Time between two reports on the start."""
LAG_TOLD = 1
"""Steps by which training may lag before a warning, beyond those configured."""
NO_RAY = "Ray is not running"
"""Trinity's message for a cluster that it cannot query, for any reason."""
PLAYING = ("both", "colocate", "explore")
STEPPING = ("both", "colocate", "explore", "train")
TRAINING = ("both", "colocate", "train")


@define(eq=False, kw_only=True)
class Driver:
    """Follows one run of Trinity."""

    run: RunInfo
    control: Control
    layout: Layout
    native: Mapping[str, Any]
    estimator: Estimator
    schedule: Schedule
    earlier: EarlierEpisodes
    tasks: int
    """In a validation pass."""
    offsets: Mapping[str, tuple[int, int]] = field(factory=dict)
    """For each stage, the run's step before it and its number of steps."""
    token_record: TokenRecord | None = None
    """None if no trained token is recorded."""
    reported: frozenset[int] = frozenset()
    """Validations that an earlier attempt of the run has reported."""
    _groups: dict[tuple[Split, int], list[Group]] = field(factory=dict, init=False)
    """By the run's step, like the groups themselves."""
    _played: dict[int, tuple[float, float]] = field(factory=dict, init=False)
    """When the first group of a training step of the run was begun and the last ended, in seconds since the epoch."""
    _stage: FollowedStage | None = field(default=None, init=False)
    _tail: SpoolTail | None = field(default=None, init=False)
    _done: int = field(default=0, init=False)
    """Episodes of the step under way."""
    _told: set[str] = field(factory=set, init=False)
    _fault: str | None = field(default=None, init=False)

    def follow(self, program: Program) -> Generator[Event]:
        """Yield events until Trinity has ended; raises `RunFailed` with the reason if it failed."""
        tail = self._tail = SpoolTail(self.layout.played, self.earlier)
        launched = Lines(self.layout.records / "launch.jsonl")
        began, reports = time.monotonic(), 0
        while True:
            status = program.poll()
            if self.control.stop and not self.layout.stop.exists():
                self.layout.stop.touch()
            if self.control.take_save():
                self._warn_once("Trinity saves after every trainer_common.save_freq steps and at its end; it cannot be asked to")
            self._take(tail)
            for record in launched.new():
                yield from self._enter_stage(record, program)
            # Logged before the step that it affects is recorded.
            fault = None if self.control.stop else program.find_fault()
            self._fault = self._fault or fault
            yield from self._collect_events(program)
            if fault is not None:
                self.control.notify(f"Trinity: {fault}")
                if DIED.search(fault):
                    raise RunFailed(
                        f"a process of Trinity died: {fault.rstrip('.')}. Finished episodes are kept: continue with --resume"
                        f"{program.read_last_lines()}",
                        resumable=True,
                    )
            if status is None and self.control.stop and (self._stage is None or self._stage.mode == "serve"):
                return  # nothing was played yet, or it would keep serving
            if status is not None:
                break
            if not self._has_begun() and time.monotonic() - began >= TELL_S * (reports + 1):
                reports += 1
                self.control.notify(f"Trinity: starting, {time.monotonic() - began:.0f} s", "info")
            time.sleep(LOOK_S)
        self._take(tail)
        for record in launched.new():
            yield from self._enter_stage(record, program)
        yield from self._collect_events(program, last=True)
        self._conclude(status, program)

    def finish(self) -> None:
        """Store episodes that finished while Trinity ended, and remove their files."""
        if self._tail is not None:
            self._take(self._tail)
        for directory in (self.layout.played, self.layout.token_parts):
            shutil.rmtree(directory, ignore_errors=True)

    def _has_begun(self) -> bool:
        """Whether an episode was played, or a step made."""
        stage = self._stage
        return bool(self._done or self._groups or (stage and (stage.mode == "serve" or stage.measured or stage.at)))

    def _conclude(self, status: int, program: Program) -> None:
        """Raise `RunFailed` if the run is incomplete."""
        if self.control.stop:
            return
        stage = self._stage
        if status == 0 and stage is not None and stage.mode in STEPPING and self._stage_length(stage) <= stage.step:
            return  # earlier faults were reported and recovered from
        kept = "Finished episodes and checkpoints are kept: continue with --resume"
        if self._fault is not None and NO_RAY in self._fault:
            raise RunFailed(describe_foreign_cluster())
        if self._fault is not None:
            raise RunFailed(f"Trinity failed: {self._fault}. {kept}{program.read_last_lines()}", resumable=True)
        if status != 0 or stage is None:
            raise RunFailed(f"Trinity ended with exit status {status}. {kept}{program.read_last_lines()}", resumable=True)
        if stage.mode in STEPPING:
            raise RunFailed(
                f"Trinity ended after step {stage.step} of {self._stage_length(stage)}: rows stopped coming. {kept}"
                f"{program.read_last_lines()}",
                resumable=True,
            )

    def _stage_length(self, stage: FollowedStage) -> int:
        """Return how many steps a stage has."""
        _, own = self.offsets.get(stage.name.rpartition("/")[2], (0, 0)) if self.offsets else (0, 0)
        return own or self.schedule.total

    def _enter_stage(self, record: Mapping[str, Any], program: Program) -> Iterator[Event]:
        if "failed" in record:
            if self._fault is None and not self.control.stop:
                self._fault = record["failed"]
        elif "stage" in record:
            offset, _ = self.offsets.get(record["stage"].rpartition("/")[2], (0, 0)) if self.offsets else (0, 0)
            name, job, records = record["stage"], Path(record["job"]), self.layout.records
            roles = self.native["trainer"]["name"], self.native["explorer"]["name"]
            self._stage = FollowedStage(
                name=name,
                mode=record["mode"],
                job=job,
                trainer=Lines(record_of(records, name, roles[0])),
                explorer=Lines(record_of(records, name, "benchmark" if record["mode"] == "bench" else roles[1])),
                offset=offset,
                token_parts=Path(record["token_parts"]) if record.get("token_parts") else None,
                step=max(0, self.control.resume_step - offset),
                saved=read_saved_step(job),
            )
            if self.native["stages"]:
                self.control.notify(f"stage {name.rpartition('/')[2]} ({record['mode']})", "info")
        elif "ended" in record:
            yield from self._collect_events(program, last=True)
            if (stage := self._stage) is not None and stage.mode == "bench" and not stage.validated and not self.control.stop:
                raise RunFailed(
                    f"{stage.name} ended and has measured nothing, of {self.tasks} validation task(s): task_reader has none, or "
                    f"Trinity played none{program.read_last_lines()}"
                )

    def _take(self, tail: SpoolTail) -> None:
        """Store finished episodes, and keep complete groups."""
        for one in tail.new():
            keep(one, self.control.store)
            match one:
                case PlayedEpisode(episode):
                    if episode.split == "train":
                        self._done += 1
                        total = self.run.config.data.train_batch_size * self.run.config.rollout.num_repeat
                        self.control.progress("rollout", self._done % total or total, total)
                case JudgedGroup(group, _, began, ended):
                    self._groups.setdefault((group.split, group.step), []).append(group)
                    if group.split == "train":
                        first, last = self._played.get(group.step, (began, ended))
                        self._played[group.step] = min(first, began), max(last, ended)
                case Notice(text, level):
                    if text not in self._told:
                        self._told.add(text)
                        self.control.notify(text, level)

    def _collect_events(self, program: Program, *, last: bool = False) -> Iterator[Event]:
        stage = self._stage
        if stage is None:
            return
        # The episodes of a step are on disk before the step is recorded: after reading the records, all of them can
        # be read.
        trained, explored = stage.trainer.new() if stage.mode in TRAINING else [], stage.explorer.new()
        if self._tail is not None:
            self._take(self._tail)
        for record in explored:
            if stage.mode in PLAYING and record["step"] > stage.step and "rollout/finished_task_count" in record["metrics"]:
                self._check_complete(stage, record["step"], at_least=1 if self._may_lack_groups else None)
            stage.measured[record["step"]] = {**stage.measured.get(record["step"], {}), **record["metrics"]}
        if stage.mode == "explore":
            yield from self._report_exploration(stage)
        address = stage.job / f"{self.native['explorer']['name']}_server_url.txt"
        if stage.mode == "serve" and address.exists():
            program.lift_limit()
            told, listens = address.read_text(encoding="utf-8").strip(), self.native["explorer"]["listen_address"]
            if listens not in ("0.0.0.0", "::"):
                told = f"http://{listens}:{told.rpartition(':')[2]}"
            self._warn_once(f"serving at {told}/v1; its API key is in {self.layout.config}; Ctrl-C ends it", "info")
        if stage.mode in TRAINING:
            yield from self._report_validation(stage, stage.step)
            for record in trained:
                yield from self._report_training(stage, record["step"], record["metrics"], record["at"])
            yield from self._report_checkpoint(stage)
        else:
            yield from self._report_bench(stage, last=last)
        if last:
            yield from self._report_validation(stage, stage.step)

    def _report_training(self, stage: FollowedStage, step: int, trainer: Mapping[str, float], at: float) -> Iterator[Event]:
        if step <= stage.step:
            # The save after the last step is recorded twice.
            return
        yield from self._report_validation(stage, step - 1)
        if stage.mode != "train" and not self._may_lack_groups:
            self._check_complete(stage, step)
        named = stage.offset + step
        groups = self._take_complete("train", named) if stage.mode != "train" else []
        if groups:
            check_failure_budget(groups, self.run.config.rollout.failure_budget)
        by_agent = self.run.config.trainer_common.algorithm.norm_adv_by_agent
        rows = compute_advantages(groups, self.estimator, by_agent=by_agent) if groups else []
        keys = {"kl_in_loss": f"{LOSS}.kl_loss_coef", "every_row": f"{BATCHES}.every_row"}
        in_loss = {name: bool(get(self.native, key)) for name, key in keys.items()}
        metrics = step_metrics(groups, rows, trainer, stage.measured.pop(step, {}), **in_loss)
        if self.token_record is not None and stage.token_parts is not None:
            is_stale = metrics.get("staleness/max", 0) > 0
            # The trainer's own figures are exact; those of the record are of half precision.
            metrics = self.token_record.take(stage.token_parts, step, groups, rows, named=named, is_stale=is_stale) | metrics
        # The first step of an attempt begins with its first group.
        began = (
            stage.at if stage.at is not None else min((self._played[of][0] for of in self._played if of <= named), default=None)
        )
        metrics |= self._take_rollout_time(named)
        if began is not None:
            metrics["time/step_s"] = at - began
            if "tokens/generated" in metrics:
                metrics["tokens/per_s"] = metrics["tokens/generated"] / max(metrics["time/step_s"], 1e-9)
        self._warn_of_lag(metrics)
        stage.step, stage.at, self._done = step, at, 0
        yield StepReport(step=named, metrics=metrics, groups=tuple(groups))
        yield from self._report_checkpoint(stage)

    def _report_exploration(self, stage: FollowedStage) -> Iterator[Event]:
        """Only an explorer: its steps are those of the run, on its own clock."""
        while stage.step + 1 in stage.measured:
            step = stage.step + 1
            named = stage.offset + step
            groups = self._take_complete("train", named)
            if not groups:
                return
            check_failure_budget(groups, self.run.config.rollout.failure_budget)
            by_agent = self.run.config.trainer_common.algorithm.norm_adv_by_agent
            metrics = explorer_metrics(groups, stage.measured.pop(step), self.estimator, by_agent=by_agent)
            metrics |= self._take_rollout_time(named)
            yield from self._report_validation(stage, step - 1)
            stage.step, self._done = step, 0
            yield StepReport(step=named, metrics=metrics, groups=tuple(groups), clock="explorer")

    def _report_validation(self, stage: FollowedStage, step: int) -> Iterator[Event]:
        """Report the validation of the weights after a step, once it is complete."""
        due = sorted(of for split, of in self._groups if split == "validation" and of <= stage.offset + step)
        for of in due:
            groups = self._groups["validation", of]
            if len(groups) < self.tasks:
                continue
            del self._groups["validation", of]
            # The actual age of the weights: an explorer that does not wait may lack those that were due.
            weights = min((span.version for span in list_spans(groups)), default=of)
            check_failure_budget(groups, self.run.config.rollout.failure_budget)
            if weights not in self.reported and weights not in stage.validated:
                stage.validated.add(weights)
                yield ValidationReport(step=weights, metrics=compute_validation_metrics(groups), groups=tuple(groups))

    def _report_bench(self, stage: FollowedStage, *, last: bool) -> Iterator[Event]:
        """Report a bench's validation of each checkpoint; that of the initial model as step 0."""
        for split, step in sorted(self._groups):
            groups = self._groups[split, step]
            if split == "validation" and (len(groups) >= self.tasks or last):
                del self._groups[split, step]
                if len(groups) < self.tasks and not self.control.stop:
                    raise RunFailed(
                        f"{len(groups)} of the {self.tasks} validation tasks were played: a process that plays episodes failed, "
                        "or was lost"
                    )
                check_failure_budget(groups, self.run.config.rollout.failure_budget)
                stage.validated.add(step)
                yield ValidationReport(step=step, metrics=compute_validation_metrics(groups), groups=tuple(groups))

    def _report_checkpoint(self, stage: FollowedStage) -> Iterator[Event]:
        step = read_saved_step(stage.job)
        if step <= stage.saved or step > stage.step:
            return
        number = stage.offset + step
        path = adopt(RunDirectory(self.run.directory), stage.job, step, named=number)
        if path is None:
            self._warn_once(
                f"{stage.job / f'global_step_{step}'}: Trinity's checkpoint is not on this machine; share the run directory"
            )
            return
        stage.saved = step
        yield CheckpointSaved(step=number, path=str(path))

    def _take_complete(self, split: Split, step: int) -> list[Group]:
        """Take the groups up to a step of the run: with a replay buffer, it trains on rows of earlier ones too."""
        found = [self._groups.pop(key) for key in sorted(self._groups) if key[0] == split and key[1] <= step]
        return [group for groups in found for group in groups]

    def _take_rollout_time(self, step: int) -> dict[str, float]:
        """Return how long the episodes of the run's steps up to this one were played, in seconds, whatever else ran meanwhile."""
        played = [self._played.pop(of) for of in sorted(self._played) if of <= step]
        return {"time/rollout_s": sum(ended - began for began, ended in played)} if played else {}

    def _check_complete(self, stage: FollowedStage, step: int, *, at_least: int | None = None) -> None:
        """Raise `RunFailed` if a finished explorer step lacks groups: the trainer would wait for them."""
        named = stage.offset + step
        asked, found = self.run.config.data.train_batch_size, len(self._groups.get(("train", named), ()))
        if step > self._stage_length(stage) or found >= (at_least or asked) or self.control.stop:
            return
        why = f" ({self._fault})" if self._fault else ""
        raise RunFailed(
            f"{found} of the {asked} groups of step {named} were played: a process that plays episodes failed or was lost{why}. "
            "Finished episodes are kept: continue with --resume",
            resumable=True,
        )

    @property
    def _may_lack_groups(self) -> bool:
        """Whether the user allows steps without some groups, or with rows of other steps."""
        buffer = self.native["buffer"]["trainer_input"]["experience_buffer"] or {}
        explorer = self.native["explorer"]
        return bool(
            explorer["over_rollout"]["ratio"]
            or explorer["dynamic_timeout"]["enable"]
            or (buffer.get("replay_buffer") or {}).get("enable")
        )

    def _warn_of_lag(self, metrics: Mapping[str, float]) -> None:
        synchronizer = self.native["synchronizer"]
        asked = synchronizer["sync_interval"] - 1 + synchronizer["sync_offset"]
        lag = metrics.get("staleness/max", 0.0)
        if lag > asked + LAG_TOLD:
            self._warn_once(
                f"training lies {lag:g} steps behind the weights that played its rows, where the configuration asks for {asked}: "
                "the explorer is ahead of the trainer. If the rows come from a buffer of another run, raise "
                "rollout.multi_turn.expected_steps to the samples that an episode gives; else choose the sync_style fixed. "
                "staleness/… in the metrics shows it"
            )

    def _warn_once(self, text: str, level: Literal["info", "warning"] = "warning") -> None:
        if text.partition(":")[0] not in self._told:
            self._told.add(text.partition(":")[0])
            self.control.notify(text, level)


def list_spans(groups: list[Group]) -> Iterator[WeightSpan]:
    """Yield the weight spans of all calls."""
    for group in groups:
        for episode in group.episodes:
            for call in episode.calls:
                yield from call.weights
