"""What is wrong with a run is told before any code of the user is imported, with the line on which it stands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.planning.plan import Plan, plan_run

YAML = """\
astuner:
  model: {path: org/name}
  rollout: {user_workflow: "./agent.py:Agent", name: openai, openai: {base_url: "http://127.0.0.1:1/v1", model: none}}
  task_reader:
    type: dataset_file
    dataset_file: {training: {file_path: train.jsonl}}
"""
MARK = "from pathlib import Path\nPath(__file__).with_suffix('.imported').touch()\n"
AGENT = MARK + "class Agent:\n    async def execute(self, workflow_task, tuner): ...\n"
JUDGE = f"""\
{MARK}
from attrs import frozen

class Judge:
    @frozen(kw_only=True)
    class Options:
        level: int = 1

    def compute_reward(self, task, output):
        return 1.0
"""

Planned = Callable[..., Plan]


@pytest.fixture
def plan(tmp_path: Path) -> Planned:
    def planned(more: str = "", *overrides: str) -> Plan:
        (tmp_path / "train.jsonl").write_text('{"main_query": "1 + 1"}\n')
        (tmp_path / "agent.py").write_text(AGENT)
        (tmp_path / "judge.py").write_text(JUDGE)
        (tmp_path / "run.yaml").write_text(YAML + more)
        return plan_run(tmp_path / "run.yaml", overrides)

    return planned


@pytest.fixture
def problems(plan: Planned) -> Callable[..., tuple[Problem, ...]]:
    def found(more: str = "", *overrides: str) -> tuple[Problem, ...]:
        with pytest.raises(ConfigError) as caught:
            plan(more, *overrides)
        return caught.value.problems

    return found


def imported(directory: Path) -> set[str]:
    return {path.stem for path in directory.glob("*.imported")}


def test_the_users_code_is_imported_where_nothing_is_wrong(plan: Planned, tmp_path: Path) -> None:
    plan("  task_judge: {judge_protocol: './judge.py:Judge'}\n")
    assert imported(tmp_path) == {"agent", "judge"}


@pytest.mark.parametrize(
    "mistake",
    [
        "backbone=nothing",
        "trainer_common.logger=[nothing]",
        "plugins.required=[nothing]",
        "plugins.options={nothing: {}}",
        "task_judge.judge_protocol=./judge.py:Nothing",
        "rollout.user_workflow=./agent.py:Nothing",
        "task_reader.type=nothing",
    ],
)
def test_the_users_code_is_left_alone_where_something_else_is_wrong(
    mistake: str, problems: Callable[..., tuple[Problem, ...]], tmp_path: Path
) -> None:
    [problem] = problems("  task_judge: {judge_protocol: './judge.py:Judge'}\n", mistake)
    assert str(problem).startswith(f"--set {mistake.partition('=')[0]}")
    assert imported(tmp_path) == set()


def test_wrong_code_and_other_mistakes_are_told_at_once(problems: Callable[..., tuple[Problem, ...]]) -> None:
    found = problems(
        "  task_judge: {judges: [{judge: './judge.py:Jugde'}, {judge: './jugde.py:Judge'}, {judge: nothing}]}\n"
        "  backbone: nothing\n"
    )
    assert {problem.key: problem.suggestion for problem in found} == {
        "astuner.task_judge.judges[0].judge": "./judge.py:Judge",
        "astuner.task_judge.judges[1].judge": "./judge.py:Judge",
        "astuner.task_judge.judges[2].judge": None,
        "astuner.backbone": None,
    }


def test_options_of_a_judge_in_its_own_section_are_placed_there(problems: Callable[..., tuple[Problem, ...]]) -> None:
    more = "  task_judge:\n    judges:\n      - judge: './judge.py:Judge'\n    ./judge.py:Judge:\n      level: high\n"
    [problem] = problems(more)
    assert (problem.line, problem.key) == (11, "astuner.task_judge../judge.py:Judge.level")


def test_options_of_one_of_several_judges_are_placed_there(problems: Callable[..., tuple[Problem, ...]]) -> None:
    more = "  task_judge:\n    judges:\n      - judge: './judge.py:Judge'\n        options:\n          level: high\n"
    [problem] = problems(more)
    assert (problem.line, problem.key) == (11, "astuner.task_judge.judges[0].options.level")


def test_a_logger_is_placed_on_its_own_line(problems: Callable[..., tuple[Problem, ...]]) -> None:
    [problem] = problems("  trainer_common:\n    logger:\n      - console\n      - jsonl: {depth: 1}\n")
    assert (problem.line, problem.key) == (10, "astuner.trainer_common.logger[1].jsonl")


def test_a_disabled_plugin_that_nobody_has_is_a_notice(plan: Planned) -> None:
    notices = plan("  plugins: {disabled: [some-plugin-of-another-machine]}\n").notices
    assert any("'some-plugin-of-another-machine' is not installed" in notice for notice in notices)
