"""Python, astuner-core, the distributions that offer components, extensions, and the packages that engines need."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution, version
from itertools import groupby
from typing import Any

from packaging.specifiers import SpecifierSet

from astuner.contract.protocols import Candidate
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.compat import find_incompatibility
from astuner.settings.plugins.requirements import Installed
from astuner.shared.install_hints import install_command
from astuner.shared.known_packages import CORE, read_known_packages
from astuner_tools.doctor.rows import Row
from astuner_tools.import_check import try_imports


def python_rows() -> Iterator[Row]:
    """Yield the interpreter and the machine."""
    system = f"{platform.system()} {platform.machine()}, {platform.python_implementation()} at {sys.executable}"
    yield Row(area="python", what=f"Python {platform.python_version()}", detail=system)


def distribution_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield astuner-core and every distribution with components: its version, range of core, and what it lacks."""
    installed = Installed()
    yield _requirements_row(CORE, installed, "the core")
    if lacks := installed.find_unmet(installed.get_facts(distribution(CORE)), ("rollout",)):
        needs = f"lacks {', '.join(lacks)}, which every rollout needs"
        remedy = install_command(f"{CORE}[rollout]")
        yield Row(area="plugins", what=f"{CORE}[rollout]", status="missing", detail=needs, remedy=remedy)

    def by_dist(candidate: Candidate) -> str:
        return candidate.dist or ""

    offered = sorted((c for c in catalog.all() if c.dist not in (None, CORE)), key=by_dist)
    for name, group in groupby(offered, by_dist):
        candidates = list(group)
        if reason := find_incompatibility(candidates[0]):
            newer = install_command(name).replace("install", "install --upgrade", 1)
            yield Row(area="plugins", what=candidates[0].provider, status="broken", detail=reason, remedy=newer)
        else:
            yield _requirements_row(name, installed, _describe_offer(candidates))
        yield from _extras_rows(candidates)
    yield from _import_rows(catalog)
    yield from _ambiguous_rows(catalog)


def engine_rows() -> Iterator[Row]:
    """Yield which of the engines' packages are installed, and what the installed packages that drive them want."""
    # Ray comes with what needs it.
    brought: dict[str, str | None] = {"transformers": f"{CORE}[rollout]", **read_known_packages().libraries, "ray": None}
    for name, brings in brought.items():
        found = _find_version(name) or _find_version(f"{name}-cpu")
        if found is None:
            remedy = install_command(brings) if brings else ""
            detail = "not installed; only some backbones need it"
            yield Row(area="engines", what=name, status="missing", detail=detail, remedy=remedy)
            continue
        windows = {
            package: libraries[name]
            for package, libraries in read_known_packages().windows.items()
            if name in libraries and _find_version(package)
        }
        outside = {package: window for package, window in windows.items() if not SpecifierSet(window).contains(found, True)}
        yield Row(
            area="engines",
            what=name,
            status="ok" if not outside else "broken" if len(outside) == len(windows) else "warning",
            detail="; ".join([found, *(f"{package} drives {name}{window}" for package, window in outside.items())]),
            remedy=" or ".join(f"pip install '{name}{window}'" for window in outside.values()),
        )


def _find_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _requirements_row(name: str, installed: Installed, offer: str) -> Row:
    facts = installed.get_facts(distribution(name))
    what, missing = f"{facts.name} {facts.version}", installed.find_unmet(facts)
    if missing:
        lacks = f"lacks {', '.join(missing)}"
        return Row(area="plugins", what=what, status="broken", detail=lacks, remedy=install_command(name))
    return Row(area="plugins", what=what, detail=offer)


def _describe_offer(candidates: Sequence[Candidate]) -> str:
    made_for = candidates[0].core_requirement
    offer = ", ".join(f"{c.kind} {c.name}" for c in candidates)
    return f"{offer}; made for {f'{CORE}{made_for}' if made_for else f'any {CORE}'}"


def _extras_rows(candidates: Sequence[Candidate]) -> Iterator[Row]:
    """Yield the components that lack more than their whole distribution lacks."""
    installed = Installed()
    common = set(installed.find_unmet(installed.get_facts(distribution(candidates[0].dist or ""))))
    for candidate in candidates:
        lacks = [text for text in candidate.missing if text not in common]
        if lacks:
            yield Row(
                area="plugins",
                what=f"{candidate.kind} {candidate.name}",
                status="missing",
                detail=f"lacks {', '.join(lacks)}",
                remedy=candidate.remedy or "",
            )


def _import_rows(catalog: Catalog) -> Iterator[Row]:
    tried = [each for each in catalog.all() if not each.missing and find_incompatibility(each) is None]
    results = zip(tried, try_imports([each.target for each in tried]), strict=True)
    for candidate, error in ((candidate, result.error) for candidate, result in results if result.error):
        yield Row(
            area="plugins",
            what=f"{candidate.kind} {candidate.name}",
            status="broken",
            detail=f"cannot be imported from {candidate.provider}: {error}",
            remedy=f"mend, upgrade or uninstall {candidate.dist}",
        )


def _ambiguous_rows(catalog: Catalog) -> Iterator[Row]:
    def by_name(candidate: Candidate) -> tuple[str, str]:
        return candidate.kind, candidate.name

    for (kind, name), group in groupby(sorted(catalog.all(), key=by_name), by_name):
        candidates = list(group)
        if len(candidates) > 1:
            yield Row(
                area="plugins",
                what=f"{kind} {name}",
                status="warning",
                detail=f"offered by {', '.join(c.provider for c in candidates)}",
                remedy=f"write {' or '.join(f'{c.dist}/{c.name}' for c in candidates)}",
            )


def extension_rows(catalog: Catalog, options: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    """Yield whether all extensions load as in a run, or the problem of each that does not."""
    from astuner.settings.plugins.hooks import Hooks

    found = catalog.candidates("hook")
    problems = Hooks(catalog, on_listener_error=lambda _: None, options=options).problems
    remedy = "fix or uninstall it, or list it in plugins.disabled"
    for problem in problems:
        yield Row(area="extensions", what=problem.key or "hook", status="broken", detail=str(problem), remedy=remedy)
    if not problems:
        listed = ", ".join(f"{candidate.name} ({candidate.provider})" for candidate in found)
        yield Row(area="extensions", what="hooks", detail=listed or "none installed")
