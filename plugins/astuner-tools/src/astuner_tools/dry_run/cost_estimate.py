"""The estimated cost of a run, before it starts: steps, episodes, bounds on tokens, memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from astuner.contract.errors import SeveralStages
from astuner.contract.protocols import ReaderTraits, read_traits
from astuner.runs.store.episode_store import SPLITS
from astuner.settings.planning.memory_plan import look_at_hardware
from astuner.settings.planning.plan import plan_run
from astuner.settings.planning.service_choice import check_names
from astuner.settings.plugins.drivers import load_with_traits
from astuner_tools.config_memory.memory_table import format_report
from astuner_tools.dry_run.checkpoint_space import describe_checkpoints
from astuner_tools.dry_run.episode_bounds import bound_training_episodes, count_validation_episodes
from astuner_tools.dry_run.run_advice import advise, estimate_time
from astuner_tools.dry_run.time_guess import guess_time

if TYPE_CHECKING:
    from astuner.contract.protocols import Reader
    from astuner.episodes.rollout.sampler import TaskSampler
    from astuner.settings.memory_estimate.parts import Hardware
    from astuner.settings.planning.plan import Plan


def estimate(conf: Path, overrides: Sequence[str] = (), backbone: str | None = None, services: Sequence[str] = ()) -> str:
    """Return the estimate as text. Checks everything that a run checks before it loads a model, the tasks included."""
    from astuner.settings.plugins.hooks import Hooks

    try:
        plan = plan_run(conf, overrides, backbone)
    except SeveralStages as found:
        from astuner_tools.stages.stage_estimates import estimate_stages

        return estimate_stages(found, conf, overrides, backbone, services)
    config = plan.loaded.config
    info = plan.run_info(attempt=0)
    check_names(services, info, plan.catalog)
    hooks = Hooks(plan.catalog, options=config.plugins.options)
    hooks.check_pending()
    reader = hooks.make_reader(plan.reader.candidate, plan.reader.options, info)
    notices: list[str] = []
    if read_traits(reader, ReaderTraits).reports_progress:
        cast("Any", reader).report_to(lambda text, level="warning": notices.append(text))
    pending = _find_pending_generation(reader)
    trains = load_with_traits(plan.backbone.candidate)[1].trains
    tasks = None if pending else plan.sample_tasks(reader)
    rows = [("backbone", f"{info.backbone} ({plan.backbone.candidate.provider})"), ("run directory", str(info.directory))]
    hardware = look_at_hardware()
    rows += _list_training_rows(plan, tasks, info.directory / "metrics.jsonl", hardware) if tasks is not None and trains else []
    memory = plan.plan_memory(hardware)
    if tasks is not None and trains:
        validates = tasks.validation_tasks > 0 and (config.trainer_common.test_freq > 0 or config.trainer_common.val_before_train)
        rows += [("checkpoints", describe_checkpoints(config, memory.shape, tasks.total_steps, validates=validates))]
    rows += [("tasks", text) for text in pending]
    rows += [("services", ", ".join(services))] if services else []
    rows += [(one.key, f"{one.value} ({one.because})") for one in plan.settle_values()]
    rows += [("judges", ", ".join(j.candidate.name for j in plan.recipe.judges) or "the workflow's own rewards")]
    width = max(len(name) for name, _ in rows)
    lines = [*(f"{name:<{width}}  {value}" for name, value in rows), "", *format_report(memory)]
    refused = [str(problem) for problem in memory.problems]
    return "\n".join(
        [*lines, *(["", *refused] if refused else []), *advise(plan.loaded, hardware, trains=trains), *plan.notices, *notices]
    )


def _find_pending_generation(reader: Reader) -> list[str]:
    """Return what a reader would have to generate first: an estimate pays for nothing."""
    if not read_traits(reader, ReaderTraits).may_generate:
        return []
    return [text for split in SPLITS if (text := cast("Any", reader).would_generate(split)) is not None]


def _list_training_rows(plan: Plan, tasks: TaskSampler, metrics: Path, hardware: Hardware) -> list[tuple[str, str]]:
    config, greedy = plan.loaded.config, load_with_traits(plan.recipe.estimator.candidate)[1].wants_greedy
    training = bound_training_episodes(config, tasks, greedy=greedy)
    validation = count_validation_episodes(config, tasks)
    episodes, length = training + validation, config.rollout.max_model_len
    steps, filtering = tasks.total_steps, config.trainer_common.algorithm.filter_groups
    more = " and a greedy one" if greedy else ""
    further = f", at most {filtering.max_num_gen_batches - 1} times further tasks (filter_groups)" if filtering.enable else ""
    time = estimate_time(metrics, episodes)
    if time is None and not hardware.gpus and load_with_traits(plan.backbone.candidate)[1].plans_memory:
        time = guess_time(config, training, validation)
    return [
        ("tasks", f"{tasks.train_tasks} for training, {tasks.validation_tasks} for validation"),
        ("steps", f"{steps} of {config.data.train_batch_size} tasks x {config.rollout.num_repeat} episodes{more}{further}"),
        ("episodes", f"{'at most ' if filtering.enable else ''}{episodes} ({validation} for validation)"),
        ("judged", f"at most {episodes} episodes"),
        ("tokens", f"at most {episodes * length:,} in contexts of {length:,}"),
        *([("time", time)] if time is not None else []),
    ]
