"""Checks an installed distribution against the contracts, as far as that needs nothing from its author."""

from __future__ import annotations

import difflib
from importlib.metadata import PackageNotFoundError, distribution, distributions

from attrs import frozen
from packaging.utils import canonicalize_name

from astuner.contract.errors import PluginError, Problem, UsageError
from astuner.contract.protocols import Candidate
from astuner.settings.plugins.catalog import Catalog
from astuner_devkit.contracts import CONTRACTS, Outcome, PackageContract, list_rules, run_contract

IMPORTED = "test_it_is_imported"
"""The first rule that is run for every component."""


@frozen(kw_only=True)
class ComponentCheck:
    """Results for one component."""

    candidate: Candidate
    contract: str | None
    """The name of its contract; None for a kind that has none."""
    outcomes: tuple[Outcome, ...]
    waiting: tuple[str, ...]
    """The rules that need the author's data or options: they run in the plugin's own tests."""


@frozen(kw_only=True)
class DistributionCheck:
    """Results for a distribution."""

    distribution: str
    version: str
    package: tuple[Outcome, ...]
    """The rules for the distribution as a whole."""
    components: tuple[ComponentCheck, ...]

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """All of them."""
        return (*self.package, *(outcome for component in self.components for outcome in component.outcomes))

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return all(outcome.status != "failed" for outcome in self.outcomes)


def check_distribution(name: str) -> DistributionCheck:
    """Check a distribution and each component that it offers; raises `UsageError` for one that is not installed."""
    try:
        found = distribution(name)
    except PackageNotFoundError as error:
        raise UsageError(_describe_unknown(name)) from error
    official = found.metadata["Name"]
    whole = type("TestPackage", (PackageContract,), {"distribution": official})
    offered = [c for c in Catalog.discover().all() if canonicalize_name(c.dist or "") == canonicalize_name(official)]
    return DistributionCheck(
        distribution=official,
        version=found.version,
        package=run_contract(whole, only_self_contained=True),
        components=tuple(_check_component(candidate) for candidate in offered),
    )


def _check_component(candidate: Candidate) -> ComponentCheck:
    from astuner.settings.plugins.drivers import load

    contract = CONTRACTS.get(candidate.kind)
    named = contract.__name__ if contract is not None else None
    meaning = "It can be imported, by this core."
    try:
        target = load(candidate)
    except PluginError as error:
        broken = Outcome(rule=IMPORTED, meaning=meaning, status="failed", message=str(error))
        return ComponentCheck(candidate=candidate, contract=named, outcomes=(broken,), waiting=())
    imported = Outcome(rule=IMPORTED, meaning=meaning, status="passed")
    if contract is None:
        return ComponentCheck(candidate=candidate, contract=None, outcomes=(imported,), waiting=())
    # A class may be offered under several names: messages carry the one that is being checked.
    mine = type(f"Test{named}", (contract,), {"component": target, "candidate": classmethod(lambda cls: candidate)})
    outcomes = run_contract(mine, only_self_contained=True)
    done = tuple(outcome for outcome in outcomes if outcome.status != "skipped")
    return ComponentCheck(
        candidate=candidate,
        contract=named,
        outcomes=(imported, *done),
        waiting=tuple(rule for rule in list_rules(contract) if rule not in {outcome.rule for outcome in done}),
    )


def _describe_unknown(name: str) -> str:
    plugins = sorted({candidate.dist for candidate in Catalog.discover().all() if candidate.dist})
    everything = {str(found.metadata["Name"]) for found in distributions()}
    close = difflib.get_close_matches(name, plugins, n=1) or difflib.get_close_matches(name, everything, n=1)
    message = f"plugin check: no distribution '{name}' is installed; those with plugins: {', '.join(plugins)}."
    return str(Problem(message=message, suggestion=close[0] if close else None))
