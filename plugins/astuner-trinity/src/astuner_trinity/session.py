"""One run of Trinity, from a plan to its end: files written before the start and removed afterwards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from attrs import asdict, define, evolve

from astuner.contract.errors import ConfigError, Problem, UsageError
from astuner.contract.protocols import Control, Estimator, EstimatorTraits, RunInfo, TaskSource, read_traits
from astuner.contract.schema import Event
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.episode_store import StoredEpisodes
from astuner.runs.store.metric_rows import read_metric_rows
from astuner.runs.training import MismatchWatch, check_whole_model
from astuner.runs.training.token_recorder import TokenRecorder
from astuner.settings.config.adapters import ADAPTER_FILE
from astuner.settings.planning.replan import write_plan
from astuner_trinity.alignment import groups_at_once
from astuner_trinity.checkpoints import start_over, turn_back
from astuner_trinity.defaults import drop_defaults, trinity_defaults
from astuner_trinity.driver import Driver
from astuner_trinity.layout import Layout
from astuner_trinity.native_configuration import Wanted, finish_configuration
from astuner_trinity.process_environment import Machine, silence_s
from astuner_trinity.program import open_cluster, start_program
from astuner_trinity.schedule import Schedule
from astuner_trinity.spool import store_leftovers
from astuner_trinity.stages import STAGES, check_buffers, last_begun_stage, name_steps_before, stage_after, stage_offsets
from astuner_trinity.token_record import TokenRecord

if TYPE_CHECKING:
    from astuner.episodes.rollout.recipe import Recipe

LOST = (
    "rows that were waiting in Trinity's buffer are gone, and the order of a replay buffer with them; the trainer's weights and "
    "optimizer, the explorer's place among the tasks, and every finished episode are not: those of later steps are taken from "
    "the run store in place of being played again"
)


@define(kw_only=True)
class Session:
    """Plays and trains one run."""

    run: RunInfo
    tasks: TaskSource
    recipe: Recipe
    control: Control

    def train(self) -> Generator[Event]:
        """Run the mode, or the stages, of the configuration."""
        check_whole_model(self.run.config.model.path, "the backbone 'trinity'")
        # The trainer's workers make their own: what is wrong with it shows before anything starts.
        self.recipe.make_loss(self.run, self.control.hooks)
        common = self.run.config.trainer_common
        schedule = Schedule(total=self.tasks.total_steps, every=common.test_freq, before=common.val_before_train)
        if self.run.native["mode"] == "explore" and not self.run.native["stages"]:
            # Its weights never change: there are no events to follow.
            schedule = Schedule(total=self.tasks.total_steps, every=0, before=False)
        yield from self._run(dict(self.run.native), schedule, self.run.config.model.path)

    def evaluate(self, checkpoint: Path | None) -> Generator[Event]:
        """Play the validation tasks once, with the weights of a checkpoint or of `model.path`.

        With `trinity: {mode: bench}` and no checkpoint named, once with `model.path` and with each checkpoint of the run.
        """
        if checkpoint is not None and (checkpoint / ADAPTER_FILE).is_file():
            raise UsageError(
                f"{checkpoint}: holds adapters, and Trinity evaluates whole models: merge them first (astuner export RUN "
                "--merge-lora --out DIRECTORY), or evaluate with the backbone 'verl' or 'local'"
            )
        if checkpoint is None:
            check_whole_model(self.run.config.model.path, "the backbone 'trinity'")
        native = dict(self.run.native) | {"stages": []}
        every = checkpoint is None and native["mode"] == "bench"
        model = self.run.config.model.path if checkpoint is None else str(checkpoint)
        checkpoints = Path(self.run.config.experiment_dir) if every else None
        yield from self._run(native | {"mode": "bench"}, Schedule(total=1, every=0, before=True), model, checkpoints)

    def _run(self, native: dict[str, Any], schedule: Schedule, model: str, checkpoints: Path | None = None) -> Generator[Event]:
        """Run Trinity; `checkpoints` is the directory of the run whose checkpoints a bench plays."""
        control, run = self.control, self.run
        layout, estimator = Layout(run.directory), self.recipe.make_estimator(run, control.hooks)
        if native["mode"] != "bench":
            check_estimator(estimator, run.config.trainer_common.algorithm.adv_estimator)
        if run.config.rollout.top_p < 1 or run.config.rollout.top_k > 0:
            control.notify(
                "the sampler leaves out a part of the vocabulary (top_p, top_k), and Trinity's trainer computes over all of it"
            )
        with open_cluster(run, control) as machine:
            rollout = run.config.rollout
            wanted = Wanted(
                layout=layout,
                model=model,
                total_steps=schedule.total,
                loss_agg_mode=read_traits(estimator, EstimatorTraits).default_loss_agg_mode,
                streams=read_traits(estimator, EstimatorTraits).beyond_advantages,
                rollout=rollout,
                groups_at_once=groups_at_once(rollout.max_env_worker, rollout.num_repeat, run.config.data.train_batch_size),
            )
            tree = finish_configuration(native, machine, wanted)
            offsets = stage_offsets(tree)
            name_steps_before(tree, offsets)
            self._check(tree, schedule, layout, offsets)
            if checkpoints is not None:
                tree["checkpoint_root_dir"] = str(Layout(checkpoints).home)
            replay_after = self._prepare(layout, tree, offsets)
            layout.make_private()
            layout.config.write_text(_write_text(tree), encoding="utf-8")
            runners = tree["explorer"]["runner_per_model"] * tree["explorer"]["rollout_model"]["engine_num"]
            facts = {
                "schedule": asdict(schedule),
                "synchronizer": tree["synchronizer"],
                "in_flight": tree["explorer"]["max_inflight_batches"],
                "replay_after": replay_after,
                "model": model,
                "runners": runners,
            }
            write_plan(evolve(run, directory=run.directory), layout.plan, **facts)
            self._announce(tree, machine)
            driver = Driver(
                run=run,
                control=control,
                layout=layout,
                native=tree,
                estimator=estimator,
                schedule=schedule,
                earlier=StoredEpisodes(run.directory / "episodes", replay_after=replay_after),
                tasks=len(self.tasks.validation()),
                reported=_read_reported_steps(RunDirectory(run.directory)),
                offsets=offsets,
                token_record=self._open_token_record(tree),
            )
            try:
                with start_program(layout, Path(tree["checkpoint_root_dir"]), silence_s(rollout)) as program:
                    yield from driver.follow(program)
            finally:
                driver.finish()
                # A separate run of `trinity.yaml` starts without them.
                layout.clear_signs()

    def _prepare(self, layout: Layout, tree: dict[str, Any], offsets: dict[str, tuple[int, int]]) -> int | None:
        """Remove the files of an earlier attempt, and reset Trinity to the checkpoint that the run continues from.

        Returns the step after which finished episodes are taken from the run store; None if it has none.
        """
        step = self.control.resume_step
        if layout.played.is_dir():
            store_leftovers(layout.played, self.run.directory / "episodes", self.control.store)
        layout.clear_signs()
        for directory in (layout.records, layout.token_parts):
            shutil.rmtree(directory, ignore_errors=True)
        roles = {"explorer": tree["explorer"]["name"], "trainer": tree["trainer"]["name"]}
        if tree["mode"] != "bench":
            for stage, (offset, length) in (offsets or {"": (0, step + 1)}).items():
                own = min(step - offset, length)
                if own > 0 and (own < length or not stage):
                    turn_back(layout.job_directory(tree, stage), own, **roles)
                elif own <= 0:
                    # The run has no checkpoint yet: an unfinished one of Trinity's would be taken for one.
                    start_over(layout.job_directory(tree, stage))
        if step:
            self.control.notify(f"going on from step {step}: {LOST}", "info")
        if tree["stages"]:
            # Trinity counts a stage as done as soon as the next one has started, or would have.
            layout.job_directory(tree).mkdir(parents=True, exist_ok=True)
            latest = stage_after(step, offsets)
            (layout.job_directory(tree) / STAGES).write_text(json.dumps({"latest_stage": latest}), encoding="utf-8")
        for part in (layout.home, layout.played, layout.records):
            part.mkdir(parents=True, exist_ok=True)
        if self.run.attempt < 2 or tree["stages"]:
            # The last validation of a stage and the first of the next one have the same ids.
            return None
        return step or -1

    def _open_token_record(self, tree: dict[str, Any]) -> TokenRecord | None:
        directory, options = RunDirectory(self.run.directory), self.run.config.trainer_common.token_record
        recorder = TokenRecorder.open(directory, options, self.control.notify)
        if recorder is None:
            return None
        loss = tree["algorithm"]["policy_loss_fn_args"] or {}
        if not loss.get("token_parts") and tree["mode"] in ("both", "colocate"):
            self.control.notify(
                "trained tokens are not recorded: Trinity's own algorithms leave no values of single tokens", "info"
            )
        watch = MismatchWatch(
            warn=self.control.notify, sampled_by=f"Trinity's vLLM, in the template of {self.run.config.model.path}"
        )
        return TokenRecord(recorder=recorder, warn=self.control.notify, watch=watch)

    def _check(self, tree: dict[str, Any], schedule: Schedule, layout: Layout, offsets: dict[str, tuple[int, int]]) -> None:
        """Raise for contradictory options, and report surprising ones."""
        if self.run.attempt > 1:
            check_buffers(
                tree, stage_after(self.control.resume_step, offsets), last_begun_stage(layout.job_directory(tree) / STAGES)
            )
        if tree["explorer"]["over_rollout"]["ratio"] and any(map(schedule.validates, range(schedule.total + 1))):
            message = (
                "a step that does not wait for all of its tasks would cut the validation off that is played with them. Set "
                "trainer_common.test_freq to 0 and val_before_train to false, and measure the checkpoints with `astuner eval`."
            )
            raise ConfigError([Problem(key="trinity.explorer.over_rollout.ratio", message=message)])
        last = schedule.last_weights(tree["synchronizer"])
        if tree["mode"] in ("both", "colocate") and schedule.validates(schedule.total) and last < schedule.total:
            self.control.notify(
                f"the last validation measures the weights after step {last}: Trinity hands over those of every "
                f"{tree['synchronizer']['sync_interval']} steps, and {schedule.total} is not a multiple of that; `astuner eval` "
                "measures the last"
            )

    def _announce(self, tree: dict[str, Any], machine: Machine) -> None:
        engine, cluster = tree["explorer"]["rollout_model"], tree["cluster"]
        where = f"on the CPU ({machine.stand_in} stands in for GPUs and vLLM)" if machine.stand_in else "on GPUs"
        what = (
            f"stages {', '.join(stage['stage_name'] for stage in tree['stages'])}" if tree["stages"] else f"mode {tree['mode']}"
        )
        style = tree["synchronizer"]
        self.control.notify(
            f"Trinity {where}: {what}, {engine['engine_num']} engine(s), {tree['explorer']['runner_per_model']} runner(s) each, "
            f"{cluster['gpu_per_node'] or 'all'} GPU(s) per node; weights by {style['sync_method']}, {style['sync_style']} every "
            f"{style['sync_interval']} step(s); starting takes a minute or more",
            "info",
        )


def _write_text(tree: dict[str, Any]) -> str:
    """Return the configuration for `trinity run --config`, without Trinity's defaults."""
    return yaml.safe_dump(drop_defaults(tree, trinity_defaults()), sort_keys=False, allow_unicode=True)


def _read_reported_steps(directory: RunDirectory) -> frozenset[int]:
    """Return the steps whose validation an earlier attempt has reported and recorded."""
    return frozenset(row["step"] for row in read_metric_rows(directory.metrics).rows if "val/episodes" in row)


def check_estimator(estimator: Estimator, name: str) -> None:
    """Raise `ConfigError` for one that needs more than Trinity's explorers know: no other model, and no step before."""
    traits = read_traits(estimator, EstimatorTraits)
    lacks = {
        "loads no model that scores (opd takes the address of a vLLM server as its teacher)": bool(traits.scored_by),
        "keeps no state of an estimator, which each of its explorers would have": traits.keeps_state,
        "plays no greedy episode to compare with": traits.wants_greedy,
    }
    if found := [lack for lack, needed in lacks.items() if needed]:
        message = f"{name!r} needs more than the episodes of a step, and the backbone 'trinity' {found[0]}. Choose another one."
        raise ConfigError([Problem(key="astuner.trainer_common.algorithm.adv_estimator", message=message)])
