"""No silent no-op: every key that the user set is acted on by core or by the backbone, or is named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from astuner.config.loading import LoadedConfig
from astuner.config.model import Config
from astuner.config.places import ROOT, problem_at
from astuner.config.schema_keys import walk_schema
from astuner.config.structuring import make_converter
from astuner.config.trees import flatten
from astuner.errors import Problem

__all__ = ["CORE_HONOURED", "CORE_INAPPLICABLE", "check_honoured", "matches", "walk_schema"]

CORE_HONOURED: tuple[str, ...] = (
    "project_name",
    "experiment_name",
    "experiment_dir",
    "backbone",
    "seed",
    "model.path",
    "data.*",
    "rollout.user_workflow",
    "rollout.agentscope_disable_toolcalls",
    "rollout.max_env_worker",
    "rollout.max_response_length_in_one_turn",
    "rollout.max_model_len",
    "rollout.multi_turn.max_sample_per_task",
    "rollout.multi_turn.max_steps",
    "rollout.num_repeat",
    "rollout.temperature",
    "rollout.top_p",
    "rollout.top_k",
    "rollout.val_kwargs.*",
    "rollout.seed",
    "rollout.isolation",
    "rollout.episode_timeout_s",
    "rollout.llm_timeout_s",
    "rollout.max_retries",
    "rollout.failure_budget",
    "rollout.[*]",  # the options of engines, as `walk_schema` writes them
    "task_reader.*",
    "task_judge.judge_type",
    "task_judge.judge_protocol",
    "task_judge.judges",
    "task_judge.[*]",
    "context_tracker.context_tracker_type",
    "context_tracker.[*]",
    "trainer_common.logger",
    "trainer_common.total_epochs",
    "trainer_common.total_training_steps",
    "trainer_common.val_pass_n",
    "trainer_common.algorithm.adv_estimator",
    "trainer_common.algorithm.norm_adv_by_std_in_grpo",
    "plugins.*",
    "gateway.*",
)
"""Keys that core itself acts on, whatever the backbone: it reads the tasks, plays and judges the episodes, computes the
advantages and logs. All others (when to validate and save, the optimiser, the loss, the hardware) are the backbone's."""

CORE_INAPPLICABLE: Mapping[str, str] = {
    "execute_test": "reserved for automated tests",
    "execute_testing_lambda": "reserved for automated tests",
    "task_judge.alien_*": "no installed judge asks an LLM; one of your own may read it from `run_info.config`",
    "context_tracker.alien_*": "the trackers timeline and linear ask no LLM",
    "context_tracker.max_env_len": "the trackers timeline and linear shorten nothing",
    "rollout.agent_madness_*": "no detector is switched on (rollout.compute_madness_checklist)",
    "trainer_common.algorithm.task_norm_patch": "advantages are always taken per task and episode",
}
"""Keys that mean nothing to any backbone, with the reason."""


def check_honoured(
    config: LoadedConfig, *, backbone: str, honours: Iterable[str], inapplicable: Mapping[str, str]
) -> tuple[list[Problem], list[str]]:
    """Judge the keys that the user set to something else than the default: return problems and notices.

    `honours` and `inapplicable` are the backbone's own. A pattern that names a section stands for all its keys.
    """
    sections = [f"rollout.{name}" for name in config.config.rollout.sections]
    sections += [f"task_judge.{name}" for name in config.config.task_judge.sections]
    sections += [f"context_tracker.{name}" for name in config.config.context_tracker.sections]
    honoured = (*CORE_HONOURED, *sections, *honours)
    reasons = {**CORE_INAPPLICABLE, **inapplicable}
    if backbone != "debug":
        reasons.setdefault("debug.*", "only the backbone 'debug' reads it")
    values, defaults = flatten(config.resolved), flatten(make_converter().unstructure(Config()))
    problems: list[Problem] = []
    idle: dict[str, list[str]] = {}
    for key in sorted(config.user_keys):
        if key in defaults and values.get(key) == defaults[key]:
            continue
        # Named outright by the backbone, a key is left out even where core would act on it.
        if key not in inapplicable and any(matches(key, pattern) for pattern in honoured):
            continue
        reason = reasons.get(key) or next((reason for pattern, reason in reasons.items() if matches(key, pattern)), None)
        if reason is None:
            message = f"the backbone '{backbone}' does not act on this key. Remove it, or choose a backbone that does."
            problems.append(problem_at(f"{ROOT}.{key}", message, config.locate))
        else:
            idle.setdefault(reason, []).append(key)
    return problems, [
        f"{', '.join(keys)} {'has' if len(keys) == 1 else 'have'} no effect with the backbone '{backbone}': {reason}."
        for reason, keys in idle.items()
    ]


def matches(key: str, pattern: str) -> bool:
    """Whether a dotted key is meant by a shell pattern, or lies in a section that is."""
    return fnmatchcase(key, pattern) or fnmatchcase(key, f"{pattern}.*")
