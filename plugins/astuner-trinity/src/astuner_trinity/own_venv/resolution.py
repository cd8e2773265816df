"""One version of every package of an environment: the lock's where the user's packages accept it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from attrs import evolve, frozen
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from astuner.contract.errors import UsageError
from astuner_trinity.own_venv.examination import find_system_problem
from astuner_trinity.own_venv.lock_conflicts import LockConflict, explain_conflicts, find_conflicts
from astuner_trinity.own_venv.locked_venv import LockedVenv
from astuner_trinity.own_venv.pins import read_pins, read_requirements
from astuner_trinity.own_venv.request import SetupPlan, SetupRequest, plan_setup
from astuner_trinity.own_venv.uv import resolve


@frozen(kw_only=True)
class Resolution:
    """Everything that an environment consists of."""

    plan: SetupPlan
    left_out: tuple[str, ...]
    """Plugins that cannot share an environment with the backbone."""
    pins: Path
    """A requirements file with every package in its version."""

    @property
    def packages(self) -> list[str]:
        """Every package in its version, without the hashes of its files."""
        lines = self.pins.read_text(encoding="utf-8").splitlines()
        return [line.rstrip(" \\") for line in lines if line.strip() and not line.startswith(("#", " "))]


def resolve_setup(backbone: str, own: LockedVenv, request: SetupRequest, work: Path, say: Callable[[str], object]) -> Resolution:
    """Choose every version; the result is in the directory `work`, and nothing is installed.

    Plugins that do not fit are left out: a run with this backbone could not use them. Raises `UsageError` with every requirement
    of the user that excludes the backbone's, or with uv's reason if it is not as simple.
    """
    if (problem := find_system_problem(own)) is not None:
        raise UsageError(f"the backbone '{backbone}' has its own virtual environment, {problem}")
    plan = plan_setup(backbone, own, request)
    suspects = list(find_conflicts(plan.packages, request.requirements, plan.pins))
    foreign = {one.package.name: one for one in suspects if one.package and one.package.is_ours and _excludes_backbone(plan, one)}
    for conflict in foreign.values():
        say(f"left out: {conflict.describe(backbone)}. Runs with another backbone use it from this environment")
    plan = evolve(plan, packages=tuple(package for package in plan.packages if package.name not in foreign))
    others = [one for one in suspects if one.package is None or not one.package.is_ours]
    # The overrides of the backbone hold for everything, so the resolver would not notice these.
    if certain := [one for one in others if one.name in _list_overridden(own)]:
        raise UsageError(explain_conflicts(backbone, certain))
    say(f"choosing versions for the backbone '{backbone}' and {len(plan.packages)} packages of this environment")
    try:
        pins = _choose(plan, [f"-r {file}" for file in request.requirements] + [*plan.ours, *plan.others], work)
    except UsageError:
        if culprits := [one for one in others if _excludes_backbone(plan, one)]:
            raise UsageError(explain_conflicts(backbone, culprits)) from None
        raise
    if moved := _describe_moved(plan, pins):
        say(f"to suit your requirements, not in the versions that were tried: {moved}")
    return Resolution(plan=plan, left_out=tuple(sorted(foreign)), pins=pins)


def _excludes_backbone(plan: SetupPlan, conflict: LockConflict) -> bool:
    """Whether a requirement cannot be met together with those of the backbone alone."""
    if conflict.name in _list_overridden(plan.own):
        return True
    with tempfile.TemporaryDirectory() as work:
        try:
            _choose(plan, [conflict.asks], Path(work))
        except UsageError:
            return True
    return False


def _choose(plan: SetupPlan, lines: Iterable[str], work: Path) -> Path:
    """Resolve the backbone's requirements with some lines; the lock's versions are preferred."""
    wanted, pins = work / "wanted.txt", work / "pins.txt"
    wanted.write_text("\n".join([f"-r {plan.own.requirements}", *lines]) + "\n", encoding="utf-8")
    # uv keeps the versions of an existing result where it can.
    shutil.copyfile(plan.own.lock, pins)
    resolve(wanted, pins, sys.executable, _write_overrides(plan, work))
    return pins


def _write_overrides(plan: SetupPlan, work: Path) -> Sequence[str | Path]:
    """Return the options for the overrides: the user's, and those of the backbone that they do not replace."""
    replaced = {canonicalize_name(one.name) for file in plan.request.overrides for _, one in read_requirements(file)}
    lines = [str(one) for _, one in read_requirements(plan.own.overrides)] if plan.own.overrides else []
    kept = work / "overrides.txt"
    kept.write_text("".join(f"{line}\n" for line in lines if canonicalize_name(Requirement(line).name) not in replaced))
    return [word for file in (kept, *plan.request.overrides) for word in ("--overrides", file)]


def _list_overridden(own: LockedVenv) -> set[str]:
    return {canonicalize_name(one.name) for _, one in read_requirements(own.overrides)} if own.overrides else set()


def _describe_moved(plan: SetupPlan, pins: Path) -> str:
    chosen = read_pins(pins)
    moved = {name: (chosen[name], version) for name, version in plan.pins.items() if chosen.get(name, version) != version}
    return ", ".join(f"{name} {new} (tried: {old})" for name, (new, old) in sorted(moved.items()))
