"""Running one rule of a contract by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from astuner_devkit.contracts import Contract, Outcome, list_rules, run_contract


@pytest.fixture
def outcome_of() -> Callable[..., Outcome]:
    """What becomes of one rule: `outcome_of(JudgeContract, "test_…", component=Bad)`; attributes are the author's."""

    def run(contract: type[Contract], rule: str, **attributes: Any) -> Outcome:
        others = {name: None for name in list_rules(contract) if name != rule}
        (outcome,) = run_contract(type("Bad", (contract,), {**others, **attributes}))
        return outcome

    return run
