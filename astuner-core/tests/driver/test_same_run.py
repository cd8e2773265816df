"""Which keys may have another value when a run is resumed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from astuner.config.show import to_yaml
from astuner.driver.resume import check_same_run, is_same_length
from astuner.errors import ConfigError
from astuner.planning.plan import Plan, plan_run
from astuner.runs.directory import RunDirectory

AGENT = "class Agent:\n    async def execute(self, workflow_task, tuner): ...\n"
JUDGE = """\
from typing import Any

from attrs import field, frozen


class Judge:
    @frozen(kw_only=True)
    class Options:
        level: int = 1
        llm: dict[str, Any] = field(factory=dict)
        parts: tuple[dict[str, Any], ...] = ()

    def compute_reward(self, task, output):
        return 1.0
"""
OPENAI = {"base_url": "http://127.0.0.1:1/v1", "model": "none"}
RUN = {
    "model": {"path": "org/name"},
    "rollout": {"user_workflow": "./agent.py:Agent", "name": "openai", "openai": OPENAI},
    "task_reader": {"type": "dataset_file", "dataset_file": {"training": {"file_path": "train.jsonl"}}},
}

Resumed = Callable[[Mapping[str, Any], Mapping[str, Any]], tuple[RunDirectory, Plan]]


@pytest.fixture
def resumed(tmp_path: Path) -> Resumed:
    """Start a run with the one configuration, and plan it with the other."""

    def planned(more: Mapping[str, Any]) -> Plan:
        (tmp_path / "run.yaml").write_text(yaml.safe_dump({"astuner": {**RUN, **more}}))
        return plan_run(tmp_path / "run.yaml", ())

    def of(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[RunDirectory, Plan]:
        (tmp_path / "train.jsonl").write_text('{"main_query": "1 + 1"}\n')
        (tmp_path / "agent.py").write_text(AGENT)
        (tmp_path / "judge.py").write_text(JUDGE)
        directory = RunDirectory(tmp_path / "run")
        directory.path.mkdir()
        directory.write_config(given="", resolved=to_yaml(planned(before).loaded), native={})
        return directory, planned(now)

    return of


def judged(*options: Mapping[str, Any]) -> dict[str, Any]:
    names = "abc"
    judges = [{"judge": "./judge.py:Judge", "name": names[n], "options": dict(one)} for n, one in enumerate(options)]
    return {"task_judge": {"judges": judges}}


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"level": 1, "llm": {"max_cost": 1}}, {"level": 1, "llm": {"max_cost": 2, "concurrency": 4}}),
        ({"level": 1}, {"level": 1, "llm": {"max_cost": 2}}),
        ({"parts": [{"kind": "x", "llm": {"timeout_s": 1}}]}, {"parts": [{"kind": "x", "llm": {"timeout_s": 2}}]}),
    ],
    ids=["another value", "a section that was not there", "in a list of a list"],
)
def test_limits_of_an_llm_may_change_wherever_they_stand_in_a_list(resumed: Resumed, before: Any, now: Any) -> None:
    check_same_run(*resumed(judged({"level": 3}, before), judged({"level": 3}, now)))


def test_what_a_judge_of_a_list_is_asked_may_not_change_and_is_named_with_its_place(resumed: Resumed) -> None:
    before, now = ({"llm": {"max_cost": 1, "model_name": name}} for name in ("one", "other"))
    with pytest.raises(ConfigError) as caught:
        check_same_run(*resumed(judged({"level": 1}, before), judged({"level": 2}, now)))
    assert [problem.key for problem in caught.value.problems] == [
        "astuner.task_judge.judges[0].options.level",
        "astuner.task_judge.judges[1].options.llm.model_name",
    ]
    assert "was 'one' when run was started and is 'other' now" in str(caught.value)


def test_a_list_of_another_length_is_named_as_a_whole(resumed: Resumed) -> None:
    with pytest.raises(ConfigError) as caught:
        check_same_run(*resumed(judged({"level": 1}), judged({"level": 1}, {"level": 2})))
    (problem,) = caught.value.problems
    assert problem.key == "astuner.task_judge.judges"


@pytest.mark.parametrize("now", [["jsonl"], ["console", "jsonl"]], ids=["another one", "more"])
def test_the_loggers_may_change_in_number_and_each_of_them(resumed: Resumed, now: list[str]) -> None:
    check_same_run(*resumed({"trainer_common": {"logger": ["console"]}}, {"trainer_common": {"logger": now}}))


def test_a_run_that_was_made_longer_has_another_length(resumed: Resumed) -> None:
    directory, plan = resumed({"trainer_common": {"total_epochs": 1}}, {"trainer_common": {"total_epochs": 2}})
    check_same_run(directory, plan)
    assert not is_same_length(directory, plan)
