"""Each rule finds its symptom first in a run that has it, and nothing in one that comes near it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sick_runs import HEALTHY, SICK

from astuner.settings.config.schema_keys import walk_schema
from astuner_tools.diagnosis.rules import PAGE, diagnose, list_rules
from astuner_tools.diagnosis.run_record import RunRecord

CHECKOUT = Path(__file__).resolve().parents[4]
RECORDED = Path(__file__).with_name("recorded")


@pytest.mark.parametrize("name", SICK)
def test_a_sick_run_is_told_its_disease_first(name: str):
    record = SICK[name]()
    found = diagnose(record)
    assert [one.id for one in found][:1] == [name]
    assert found[0].key
    assert found[0].value
    assert len(found[0].episodes) == 2 or not record.late


@pytest.mark.parametrize("name", HEALTHY)
def test_a_run_that_comes_near_a_disease_has_none(name: str):
    assert [f"{one.id}: {one.message}" for one in diagnose(HEALTHY[name]())] == []


def test_every_rule_has_a_sick_and_a_healthy_run():
    rules = [rule.id for rule in list_rules()]
    assert sorted(SICK) == sorted(HEALTHY) == sorted(rules)


def test_no_rule_explains_one_that_explains_it():
    covers = {rule.id: set(rule.covers) for rule in list_rules()}

    def follow(name: str) -> set[str]:
        found: set[str] = set()
        left = {name}
        while left:
            left = {other for one in left for other in covers[one]} - found
            found |= left
        return found

    assert [name for name in covers if name in follow(name)] == []
    assert {other for found in covers.values() for other in found} <= set(covers)


def test_every_key_to_change_exists():
    known = walk_schema()
    keys = {key for name in SICK for one in diagnose(SICK[name]()) if (key := one.key)} | {
        rule.key for rule in list_rules() if rule.key
    }
    assert [key for key in keys if not any(other == key or other.startswith(f"{key}.") for other in known)] == []


def test_every_rule_is_explained_where_it_says():
    text = (CHECKOUT / PAGE).read_text(encoding="utf-8")
    sections = {re.sub(r"[^a-z0-9 -]", "", line[3:].lower()).replace(" ", "-") for line in text.splitlines() if line[:3] == "## "}
    assert {rule.section for rule in list_rules()} <= sections


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.jsonl")), ids=lambda path: path.stem)
def test_recorded_metrics_are_read_as_the_runs_were(path: Path):
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    expected = None if path.stem.startswith(("healthy", "rising")) else path.stem.partition("-")[0]
    settings = json.loads(path.with_suffix(".json").read_text(encoding="utf-8")) if path.with_suffix(".json").exists() else {}
    found = [one.id for one in diagnose(RunRecord(name=path.stem, rows=rows, config=settings))]
    assert found[:1] == ([expected] if expected else [])


@pytest.mark.parametrize("path", sorted(RECORDED.glob("healthy*.jsonl")), ids=lambda path: path.stem)
def test_a_healthy_run_is_not_suspected_after_any_step(path: Path):
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    alarms = {step: diagnose(RunRecord(name="run", rows=rows[:step])) for step in range(len(rows) + 1)}
    assert {step: [one.id for one in found] for step, found in alarms.items() if found} == {}
