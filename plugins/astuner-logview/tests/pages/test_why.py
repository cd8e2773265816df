"""The page that says what holds a run back: what `astuner why` says."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve

from astuner.contract.schema import Group, Unjudged
from astuner_tools.diagnosis.rules import list_rules

Ask = Callable[..., dict[str, Any]]


def test_a_finding_has_what_the_command_says_and_two_episodes(
    ask: Ask, record: Path, groups: Sequence[Group], store: Callable[[Path, Sequence[Group]], None]
) -> None:
    unjudged = Unjudged(reason="judge_error", detail="KeyError: 'steps'", place="judge.py:3 in score")
    first = groups[0].episodes[0]
    siblings = [evolve(first, id=f"train/5/a/{n}", step=5, repeat=n, verdict=unjudged) for n in range(8)]
    store(record / "first", [Group(task=first.task, step=5, split="train", episodes=tuple(siblings))])
    with (record / "first" / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 5, "kind": "train", "reward/mean": 0.0}) + "\n")
    answer = ask("/why")
    assert answer["findings"][0]["id"] == "failing_judge"
    assert "judge_error at judge.py:3 in score: KeyError: 'steps'" in answer["findings"][0]["message"]
    assert answer["findings"][0]["change"] == "task_judge: a judge that handles every answer"
    assert answer["findings"][0]["episodes"][0] == "train/5/a/0"
    assert answer["findings"][0]["curves"] == {}


def test_a_run_without_symptoms_says_how_much_was_looked_at(ask: Ask, record: Path) -> None:
    for tokenizer in record.rglob("tokenizer.json"):
        tokenizer.unlink()  # the ids of this run were made up
    answer = ask("/why")
    assert (answer["findings"], answer["steps"], answer["rules"]) == ([], 1, len(list_rules()))
