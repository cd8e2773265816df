"""Running a contract without pytest: for `astuner plugin check`, and for the tests of the contracts themselves."""

from __future__ import annotations

import inspect
import tempfile
from pathlib import Path
from typing import Literal
from unittest import SkipTest

from attrs import frozen

from astuner_devkit.contracts.base import SELF_CONTAINED, Rules


@frozen(kw_only=True)
class Outcome:
    """The outcome of one rule."""

    rule: str
    """The name of the method."""
    meaning: str
    """The first sentence of its docstring."""
    status: Literal["passed", "failed", "skipped"]
    message: str = ""
    """Why it failed or was skipped."""


def list_rules(contract: type[Rules], *, only_self_contained: bool = False) -> tuple[str, ...]:
    """Return the names of a contract's rules, those of every kind first."""
    names = [name for base in reversed(contract.__mro__) for name in vars(base) if name.startswith("test_")]
    chosen = [name for name in dict.fromkeys(names) if callable(getattr(contract, name, None))]
    return tuple(name for name in chosen if not only_self_contained or getattr(getattr(contract, name), SELF_CONTAINED, False))


def run_contract(contract: type[Rules], *, only_self_contained: bool = False) -> tuple[Outcome, ...]:
    """Run the rules of a contract, each on a fresh instance and with its own empty directory."""
    return tuple(_run_rule(contract, rule) for rule in list_rules(contract, only_self_contained=only_self_contained))


def _run_rule(contract: type[Rules], name: str) -> Outcome:
    rule = getattr(contract(), name)
    meaning = " ".join((rule.__doc__ or name).strip().split("\n\n")[0].split())
    with tempfile.TemporaryDirectory(prefix="astuner-contract-") as directory:
        arguments = {"tmp_path": Path(directory)} if "tmp_path" in inspect.signature(rule).parameters else {}
        try:
            rule(**arguments)
        except SkipTest as reason:
            return Outcome(rule=name, meaning=meaning, status="skipped", message=str(reason))
        except Exception as error:  # noqa: BLE001  # any error of a component is a failure of the rule
            text = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
            return Outcome(rule=name, meaning=meaning, status="failed", message=text)
    return Outcome(rule=name, meaning=meaning, status="passed")
