"""What may change between the attempts of one run."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatch
from functools import partial
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.contract.errors import ConfigError, Problem
from astuner.runs.driver.stored_configuration import StoredConfig
from astuner.runs.store.directory import RunDirectory
from astuner.runs.training.schedule import compute_learning_rate
from astuner.settings.config.places import ROOT, format_path
from astuner.settings.config.schema_keys import read_core_keys
from astuner.settings.config.trees import get

if TYPE_CHECKING:
    from pathlib import Path

    from astuner.episodes.rollout.sampler import TaskSampler
    from astuner.runs.store.episode_store import EpisodeFiles
    from astuner.settings.planning.plan import Plan

LENGTH = ("trainer_common.total_epochs", "trainer_common.total_training_steps")
"""Keys that set the length of a run; a finished run continues when one of them has grown."""
_PUT_BACK = "Put it back, or start a new run with another experiment_name"


def is_same_length(directory: RunDirectory, plan: Plan) -> bool:
    """Whether the configured length of the run is that of its last start."""
    changed = chain(_find_changed_keys(directory, plan), _find_changed_variables(directory, plan))
    return not any(_remove_root(key) in LENGTH for key, *_ in changed)


def drop_episodes_of_other_rates(
    directory: RunDirectory, plan: Plan, store: EpisodeFiles, tasks: TaskSampler, resume_step: int
) -> str | None:
    """Drop the stored episodes of weights that this start will not have, since its length changes the learning rate.

    Returns the notice for the user; None if no rate of a later step differs from that of the last start.
    """
    optim = plan.loaded.config.trainer_common.optim
    now = _count_steps(plan.loaded.resolved, tasks)
    stored = _load_configurations(directory, plan)[0][ROOT]
    # A number from the environment is not stored, only whether it is another one.
    hidden = {key: get(plan.loaded.resolved, key) for key in LENGTH if isinstance(get(stored, key), str)}
    before = 1 if hidden and not is_same_length(directory, plan) else _count_steps(stored, tasks, hidden)
    schedule = partial(compute_learning_rate, lr=optim.lr, warmup_steps=optim.lr_warmup_steps, schedule=optim.lr_scheduler_type)
    for step in range(resume_step + 1, now + 1):
        was, becomes = schedule(step, total_steps=before), schedule(step, total_steps=now)
        if was != becomes:
            dropped = store.cut_after(step)
            played_again = f" {dropped} stored episodes of later weights are dropped and played again." if dropped else ""
            return (
                f"the run had {before} steps and has {now} now, so with lr_scheduler_type '{optim.lr_scheduler_type}' the "
                f"learning rate of step {step} is {becomes:.3g}; it was {was:.3g}.{played_again}"
            )
    return None


@frozen(kw_only=True)
class ChangesOfVersions:
    """What another version of astuner, and not the user, has changed about the configuration of a run."""

    defaults: tuple[str, ...] = ()
    """Keys whose value changed although nobody set them, and keys that were set and no longer exist."""
    gone: tuple[str, ...] = ()
    """Other keys that no longer exist, with the values that they had."""


def check_same_run(
    directory: RunDirectory, plan: Plan, *, apart_from: Collection[str] = (), accepted: Collection[str] | None = None
) -> ChangesOfVersions:
    """Raise `ConfigError` naming every key that has another value than when the run was started and may not change.

    `apart_from` are keys and sections, without the root, that may have another value too. Returns what another version changed;
    its `defaults` are an error too unless "defaults" is `accepted`; None for a command that accepts nothing.
    """
    name, stored = directory.path.name, StoredConfig.read(directory)
    known, user_keys, defaults, problems = stored.given, plan.loaded.user_keys, list[str](), list[Problem]()

    def may(key: str) -> bool:
        return _may_change(key) or _is_in(key, apart_from)

    def add_default(key: str, change: str, *ways: str) -> None:
        defaults.append(f"{key} {change}")
        if "defaults" not in (accepted or ()):
            flag = () if accepted is None else ("--accept-changes defaults accepts it",)
            problems.append(Problem(key=key, message="; ".join([change, *ways, *flag])))

    for key, before, now in sorted(_find_changed_keys(directory, plan), key=itemgetter(0)):
        short, was = _remove_root(key), f"was {_format(before)} when {name} was started and is {_format(now)} now"
        if may(short):
            continue
        if short != key and not _is_in(short, known) and not _is_in(short, user_keys):
            add_default(key, f"{was}, by default", f"set it to {json.dumps(before, default=str)} to continue as before")
        else:
            problems.append(Problem(key=key, message=f"{was}; a resumed run keeps it. {_PUT_BACK}"))
    for key, value in stored.gone.items():
        if _is_in(key, known) and not may(key):
            add_default(f"{ROOT}.{key}", f"was {value!r} when {name} was started, and there is no such key any more")
    for key, written in _find_changed_variables(directory, plan):
        if not may(_remove_root(key)):
            text = f"the value of {written} is another one than when {name} was started"
            problems.append(Problem(key=key, message=f"{text}; a resumed run keeps it. {_PUT_BACK}"))
    if problems:
        raise ConfigError(problems)
    gone = (f"{key} (was {value!r})" for key, value in stored.gone.items() if may(key) or not _is_in(key, known))
    return ChangesOfVersions(defaults=tuple(defaults), gone=tuple(gone))


def _count_steps(resolved: Mapping[str, Any], tasks: TaskSampler, instead: Mapping[str, Any] = MappingProxyType({})) -> int:
    epochs, total = (instead.get(key, get(resolved, key)) for key in LENGTH)
    return tasks.count_steps(epochs) if total is None else total


def _remove_root(key: str) -> str:
    return key.removeprefix(f"{ROOT}.")


def _is_in(key: str, sections: Collection[str]) -> bool:
    return any(key == section or key.startswith((f"{section}.", f"{section}[")) for section in sections)


def _may_change(key: str) -> bool:
    # A rule for a list holds for its items.
    return any(fnmatch(place, may) for may in read_core_keys().may_change for place in (key, key.partition("[")[0]))


def _format(value: Any) -> str:
    return "not set" if value is None else repr(value)


def _load_configurations(directory: RunDirectory, plan: Plan) -> tuple[Any, Any]:
    """Return the resolved configuration of the last start, with a value for each present key, and that of this one."""
    import yaml

    from astuner.settings.config.show import to_yaml

    now = yaml.safe_load(to_yaml(plan.loaded))
    return StoredConfig.read(directory).tree or now, now


def _find_changed_variables(directory: RunDirectory, plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield each key that takes another value from the environment than at the last start, with how it is written."""
    from astuner.settings.config.show import sign_variables

    before = (directory.read_config() or {}).get("environment") or {}
    for key, signature in sign_variables(plan.loaded).items():
        if before.get(key, signature) != signature:
            yield key, plan.loaded.from_environment[key]


def _find_changed_keys(directory: RunDirectory, plan: Plan) -> Iterator[tuple[str, Any, Any]]:
    """Yield each key with another value than at the last start, with both.

    Paths are the same if they lead to the same place seen from the YAML: the project may have been moved, or copied.
    """
    then = (directory.read_config() or {}).get("relative_to") or os.path.dirname(directory.run.get("conf") or "")
    for key, before, now in _find_changes(*_load_configurations(directory, plan)):
        if not then or not _is_same_place(before, then, now, plan.loaded.directory):
            yield key, before, now


def _is_same_place(before: Any, before_from: str, now: Any, now_from: Path) -> bool:
    if not (isinstance(before, str) and isinstance(now, str) and os.path.isabs(before) and os.path.isabs(now)):
        return False
    return os.path.relpath(before, before_from) == os.path.relpath(now, now_from)


def _find_changes(before: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield each key that has another value, with both, recursing into sections and into lists of unchanged length."""
    if isinstance(before, Mapping | None) and isinstance(now, Mapping | None):
        # A missing section has no keys.
        old, new = before or {}, now or {}
        for key in old.keys() | new.keys():
            yield from _find_changes(old.get(key), new.get(key), format_path([key], path))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for position, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _find_changes(one, other, format_path([position], path))
    elif before != now:
        yield path, before, now
