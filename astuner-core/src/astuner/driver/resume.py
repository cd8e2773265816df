"""What may change between the attempts of one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from astuner.config.core_keys import read_core_keys
from astuner.config.places import ROOT, format_path
from astuner.errors import ConfigError, Problem
from astuner.runs.directory import RunDirectory

if TYPE_CHECKING:
    from astuner.planning.plan import Plan

LENGTH = ("trainer_common.total_epochs", "trainer_common.total_training_steps")
"""Keys that set the length of a run; a finished run continues when one of them has grown."""


def is_same_length(directory: RunDirectory, plan: Plan) -> bool:
    """Whether the configured length of the run is that of its last start."""
    return not any(_remove_root(key) in LENGTH for key, _, _ in _find_changes(*_load_configurations(directory, plan)))


def check_same_run(directory: RunDirectory, plan: Plan) -> None:
    """Raise `ConfigError` naming every key that has another value than when the run was started and may not change."""
    problems = [
        Problem(
            key=key,
            message=f"was {before!r} when {directory.path.name} was started and is {now!r} now; a resumed run "
            "keeps it. Put it back, or start a new run with another experiment_name",
        )
        for key, before, now in sorted(_find_changes(*_load_configurations(directory, plan)), key=itemgetter(0))
        if not _may_change(_remove_root(key))
    ]
    if problems:
        raise ConfigError(problems)


def _remove_root(key: str) -> str:
    return key.removeprefix(f"{ROOT}.")


def _may_change(key: str) -> bool:
    # A rule for a list holds for its items.
    return any(fnmatch(place, may) for may in read_core_keys().may_change for place in (key, key.partition("[")[0]))


def _load_configurations(directory: RunDirectory, plan: Plan) -> tuple[Any, Any]:
    """Return the resolved configuration of the last start and of this one."""
    import yaml

    from astuner.config.show import to_yaml

    now = yaml.safe_load(to_yaml(plan.loaded))
    path = directory.path / "config.yaml"
    # Without the file the last start got no further than its lock.
    return (yaml.safe_load(path.read_text(encoding="utf-8"))["resolved"] if path.exists() else now), now


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
