"""The contract of each kind of component: what every one of them keeps, as tests that its author runs."""

from __future__ import annotations

from collections.abc import Mapping

from astuner.testing.contracts.base import Contract, self_contained
from astuner.testing.contracts.running import Outcome, rules_of, run_contract

__all__ = ["CONTRACTS", "Contract", "Outcome", "rules_of", "run_contract", "self_contained"]

CONTRACTS: Mapping[str, type[Contract]] = {}
"""By kind, as in `astuner.plugins.kinds`."""
