"""The program that Trinity runs in: `trinity run`, with an exit status that shows failures.

Trinity's own command always exits with 0, waits up to an hour for a trainer whose explorer has failed, and ends an explorer
during the last validation.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from trinity.cli import launcher
from trinity.common.config import Config
from trinity.common.constants import SyncMethod, SyncStyle

from astuner.shared.services.ray import ADDRESS
from astuner_trinity.checkpoints import read_saved_step
from astuner_trinity.layout import Layout

SHUTDOWN_S = 60.0
TRAINING = ("both", "colocate", "train")
PLAYING = ("both", "colocate")
LOOK_S = 1.0


def run_both(config: Config) -> launcher.StageStatus:
    """Run explorer and trainer until both have ended; raises what one of them raises."""
    from trinity.explorer.explorer import Explorer
    from trinity.manager.synchronizer import Synchronizer
    from trinity.trainer.trainer import Trainer

    began = time.perf_counter()
    explorer, trainer = Explorer.get_actor(config), Trainer.get_actor(config)
    between_gpus, grouped = config.synchronizer.sync_method == SyncMethod.NCCL, None
    try:
        ray.get([explorer.__ray_ready__.remote(), trainer.__ray_ready__.remote()])
        ray.get([explorer.prepare.remote(), trainer.prepare.remote()])
        synchronizer = Synchronizer.get_actor(namespace=config.ray_namespace)
        if between_gpus:
            grouped = synchronizer
            ray.get(synchronizer.coordinate_weight_sync_setup.remote())
        if config.synchronizer.sync_style == SyncStyle.FULLY_ASYNC:
            ray.get(trainer.sync_weight.remote())
            _await_weights(explorer, synchronizer, config.synchronizer.sync_timeout)
        elif between_gpus:
            ray.get([explorer.sync_weight.remote(), trainer.sync_weight.remote()])
        else:
            # Otherwise an explorer may play with the initial weights before the trainer of a resumed run hands over its own.
            ray.get(trainer.sync_weight.remote())
            ray.get(explorer.sync_weight.remote())
        working = {explorer.explore.remote(): "explorer", trainer.train.remote(): "trainer"}
        while working:
            ended, _ = ray.wait(list(working), num_returns=1, timeout=LOOK_S)
            for one in ended:
                ray.get(one)
                if working.pop(one) == "trainer":
                    _mark_trained(config)
                else:
                    # Ends the wait for rows: a failed explorer does not notify the trainer.
                    ray.get(explorer.shutdown.remote(), timeout=SHUTDOWN_S)
        return launcher.StageStatus(stage="both", success=True, total_time_sec=time.perf_counter() - began)
    finally:
        if grouped is not None:
            _call_quietly(lambda: ray.get(grouped.coordinate_weight_sync_teardown.remote(), timeout=SHUTDOWN_S))
        _call_quietly(
            lambda: ray.wait([explorer.shutdown.remote(), trainer.shutdown.remote()], timeout=SHUTDOWN_S, num_returns=2)
        )


def run(path: Path, layout: Layout) -> int:
    """Run a configuration, stage by stage, and return the exit status; errors are recorded."""
    launcher.MODE_MAP["both"] = launcher.MODE_MAP["colocate"] = run_both
    Config.check_and_update = wrap_check(Config.check_and_update)
    Config.get_envs = wrap_variables(Config.get_envs)
    run_stage = launcher.run_stage

    def run_recorded(config: Config) -> launcher.StageStatus:
        if layout.stop.exists():
            raise StageFailed("the run is being stopped")
        _settle(config)
        parts = (config.algorithm.sample_strategy_args or {}).get("token_parts")
        _record(layout, stage=config.name, mode=config.mode, job=config.checkpoint_job_dir, token_parts=parts)
        layout.trained.unlink(missing_ok=True)
        status = run_stage(config)
        if not status.success:
            error = status.error
            raise StageFailed(f"{error.type_name}: {error.message}" if error else f"{status.stage} failed")
        trained, wanted = read_saved_step(Path(config.checkpoint_job_dir)), config.trainer.total_steps
        if config.mode in TRAINING and wanted and trained < wanted:
            # Trinity would start the next stage regardless.
            raise StageFailed(f"{config.name} ended after step {trained} of {wanted}")
        _record(layout, ended=config.name)
        return status

    launcher.run_stage = run_recorded
    try:
        launcher.run(config=str(path), dlc=False, plugin_dir=None)
    except Exception as error:
        _record(layout, failed=str(error) if isinstance(error, StageFailed) else f"{type(error).__name__}: {error}")
        raise
    return 0


class StageFailed(RuntimeError):
    """A stage of Trinity failed."""


def wrap_variables(get_envs: Callable[[Config], dict[str, str]]) -> Callable[[Config], dict[str, str]]:
    """Wrap Trinity's choice of variables for its actors: they get the address of their cluster, and send no statistics.

    vLLM's workers are processes of an engine's actor and not Ray's own. They ask the cluster for the weights, and without its
    address Ray would start them another one.
    """

    @functools.wraps(get_envs)
    def get(self: Config) -> dict[str, str]:
        address = os.environ.get(ADDRESS)
        return {**get_envs(self), "VLLM_NO_USAGE_STATS": "1", **({ADDRESS: address} if address else {})}

    return get


def wrap_check(check_and_update: Callable[[Config], Config]) -> Callable[[Config], Config]:
    """Wrap Trinity's own check of a stage."""

    @functools.wraps(check_and_update)
    def check(config: Config) -> Config:
        asked = config.mode
        if asked == "bench":
            # A stage has the style of its run, and Trinity measures only in this one.
            config.synchronizer.sync_style = SyncStyle.FIXED
        found = check_and_update(config)
        if config.mode != asked:
            raise StageFailed(
                f"{config.name}: the mode is {asked}, and Trinity takes {config.mode}, since it finds one GPU. Set "
                "trainer_common.nnodes and n_gpus_per_node"
            )
        return found

    return check


def _await_weights(explorer: Any, synchronizer: Any, timeout: float) -> None:
    """Wait for an explorer that fetches new weights itself; a second request might make it wait for another version."""
    handed_over = ray.get(synchronizer.get_latest_model_version.remote())
    until = time.monotonic() + timeout
    while ray.get(explorer.__ray_call__.remote(_model_version)) < handed_over:
        if time.monotonic() > until:
            raise StageFailed(f"the explorer had no weights of the trainer's after {timeout:.0f} s (synchronizer.sync_timeout)")
        time.sleep(LOOK_S)


def _model_version(explorer: Any) -> int:
    return int(explorer.model_version)


def _settle(config: Config) -> None:
    """Report what Trinity found out about the cluster, and what its stages change in the configuration."""
    if config.mode in TRAINING:
        config.trainer.save_hf_checkpoint = "always"
        arguments = config.algorithm.sample_strategy_args
        if arguments is not None and "plan" in arguments:
            arguments["workers"] = max(1, config.cluster.trainer_gpu_num // config.trainer.ulysses_sequence_parallel_size)
        _open_token_parts(config)


def _open_token_parts(config: Config) -> None:
    """Give a stage a directory for what it computes of trained tokens, if the run records them.

    A stage that only trains has no episodes of this run.
    """
    loss, batches = config.algorithm.policy_loss_fn_args or {}, config.algorithm.sample_strategy_args or {}
    if not loss.get("token_parts"):
        return
    directory = None
    if config.mode in PLAYING and "plan" in batches:
        directory = Path(loss["token_parts"]) / config.name.replace("/", "_")
        directory.mkdir(parents=True, exist_ok=True)
    loss["token_parts"] = batches["token_parts"] = None if directory is None else str(directory)


def _mark_trained(config: Config) -> None:
    plan = (config.algorithm.sample_strategy_args or {}).get("plan")
    if plan:
        Layout.of_plan(plan).trained.touch()


def _record(layout: Layout, **content: Any) -> None:
    layout.records.mkdir(parents=True, exist_ok=True)
    with (layout.records / "launch.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(content) + "\n")


def _call_quietly(call: Any) -> None:
    try:
        call()
    except Exception as error:  # noqa: BLE001  # what is asked of actors that may be gone; the reason why the run ends is reported elsewhere
        print(f"at the end: {type(error).__name__}: {error}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), Layout(Path(sys.argv[2]))))
