"""Which backbones could run a configuration, and why the others could not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from attrs import frozen

from astuner.contract.errors import AstunerError, ConfigError, Problem
from astuner.settings.plugins.catalog import Catalog
from astuner.shared import install_hints
from astuner.shared.known_packages import read_known_packages
from astuner_tools.doctor.rows import Row, Status


@frozen(kw_only=True)
class Trial:
    """The outcome of planning a run with one backbone."""

    backbone: str
    problems: tuple[Problem, ...]
    command: str | None = None
    """What installs it, if it is one of our backbones and missing."""


def try_backbones(conf: Path, catalog: Catalog, chosen: str | None) -> tuple[Trial, ...]:
    """Plan the run with every backbone that is installed or known, and with the one that the configuration names."""
    installed = dict.fromkeys(candidate.name for candidate in catalog.candidates("backbone"))
    names = dict.fromkeys([*installed, *read_known_packages().names("backbone"), *([chosen] if chosen else [])])
    return tuple(
        Trial(
            backbone=name,
            problems=_plan_with(conf, name),
            command=None if name in installed else install_hints.command_for("backbone", name),
        )
        for name in names
    )


def find_common_problems(trials: Sequence[Trial]) -> tuple[Problem, ...]:
    """Return the problems that every backbone has: those of the configuration itself."""
    first, *others = trials
    return tuple(problem for problem in first.problems if all(problem in other.problems for other in others))


def backbone_rows(trials: Sequence[Trial], chosen: str | None, reported: Collection[Problem]) -> Iterator[Row]:
    """Yield each backbone; those that cannot run the configuration with every reason that is not `reported` above."""
    for trial in trials:
        what = f"{trial.backbone} (chosen)" if trial.backbone == chosen else trial.backbone
        if not trial.problems:
            yield Row(area="backbones", what=what, detail="can run this configuration")
            continue
        reasons = ["not installed"] if trial.command else []
        reasons += ["the configuration has problems that are listed above"] if set(reported).intersection(trial.problems) else []
        reasons += [str(problem) for problem in trial.problems if problem not in reported and not _is_absence(problem, trial)]
        status: Status = "broken" if trial.backbone == chosen else "missing" if trial.command else "warning"
        yield Row(area="backbones", what=what, status=status, detail="\n".join(reasons), remedy=trial.command or "")


def _is_absence(problem: Problem, trial: Trial) -> bool:
    return trial.command is not None and problem.key == "astuner.backbone"


def _plan_with(conf: Path, backbone: str) -> tuple[Problem, ...]:
    from astuner.settings.planning.plan import plan_run

    try:
        plan_run(conf, backbone=backbone)
    except ConfigError as error:
        return error.problems
    except AstunerError as error:
        return (Problem(message=str(error)),)
    return ()
