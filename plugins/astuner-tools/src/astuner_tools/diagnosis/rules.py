"""The rules of the diagnosis, which are data: what is looked for, what it means and what to change."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path

from attrs import field, frozen

from astuner_tools.diagnosis.findings import Evidence, Finding
from astuner_tools.diagnosis.run_record import RunRecord

RULES = Path(__file__).with_name("rules.toml")
PAGE = "docs/why.md"
MOST_EPISODES = 2

Check = Callable[[RunRecord, Mapping[str, float]], Evidence | None]


@frozen(kw_only=True)
class Rule:
    """One symptom; `rules.toml` describes the fields."""

    id: str
    symptom: str
    check: str
    reads: Sequence[str]
    limits: Mapping[str, float]
    message: str
    key: str
    value: str
    advice: str
    section: str
    covers: Sequence[str] = field(converter=tuple)
    of_weights: bool = False

    def apply(self, record: RunRecord) -> Finding | None:
        """Return what the rule finds in a run; None if the run does not have the symptom."""
        evidence = self.load_check()(record, self.limits)
        if evidence is None:
            return None
        return Finding(
            id=self.id,
            symptom=self.symptom,
            message=self.message.format(**evidence.numbers),
            numbers=evidence.numbers,
            episodes=list(dict.fromkeys(evidence.episodes))[:MOST_EPISODES],
            key=evidence.key or self.key,
            value=evidence.value or self.value,
            advice=self.advice,
            metrics=[name for name in self.reads if "/" in name],
            page=f"{PAGE}#{self.section}",
            covers=self.covers,
        )

    def load_check(self) -> Check:
        """Return the function that looks for the symptom."""
        module, _, name = self.check.partition(":")
        check: Check = getattr(import_module(f"astuner_tools.diagnosis.{module}"), name)
        return check


@cache
def list_rules() -> Sequence[Rule]:
    """Return all rules, the most likely cause first."""
    return tuple(Rule(**entry) for entry in tomllib.loads(RULES.read_text(encoding="utf-8"))["rule"])


def diagnose(record: RunRecord) -> list[Finding]:
    """Return what stands out in a run, the most likely cause first; symptoms that another finding explains are left out."""
    rules = [rule for rule in list_rules() if record.trains_weights or not rule.of_weights]
    found = [finding for rule in rules if (finding := rule.apply(record)) is not None]
    covered = {identity for finding in found for identity in finding.covers}
    return [finding for finding in found if finding.id not in covered]
