"""Reward functions of verl and TRL are called as they are, and what cannot be called is refused when it is loaded."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from astuner.contract.errors import PluginError
from astuner.contract.schema import Group, Unjudged, Verdict, WorkflowOutput, WorkflowTask
from astuner.contract.user_values.named_arguments import check_methods
from astuner.episodes.judging.failures import collect_verdicts
from astuner.episodes.judging.simple_judges import make_judge
from astuner.shared.tabular.task_rows import Row, make_tasks
from astuner_devkit.command_line import run_command
from astuner_devkit.episodes import episode, group
from astuner_devkit.project import write_project

MESSAGES = [{"role": "user", "content": "What is 2 + 2?"}]
VERL_ROW = {
    "data_source": "openai/gsm8k",
    "prompt": MESSAGES,
    "reward_model": {"style": "rule", "ground_truth": "4"},
    "extra_info": {"split": "train", "index": 7},
}


def play(row: dict[str, Any], reply: str) -> Group:
    [task] = make_tasks(lambda: iter([Row("row 1", row)]))
    blank = episode(0, None)
    call = evolve(blank.calls[0], reply={"role": "assistant", "content": reply}, output_ids=np.arange(6, dtype=np.int32))
    output = WorkflowOutput(metadata={"final_answer": "not this"})
    played = evolve(blank, task=task, calls=(call,), output=output, verdict=None)
    return evolve(group(played), task=task)


def judge(function: Any, row: dict[str, Any], reply: str) -> Verdict | Unjudged:
    (found,) = asyncio.run(collect_verdicts(make_judge(function, blame="judge 'j'"), play(row, reply)))
    return found


def read_official(module: str) -> Any:
    """TRL's own file: importing the package needs all of its dependencies."""
    file = Path(str(distribution("trl").locate_file(f"trl/rewards/{module}.py")))
    spec = importlib.util.spec_from_file_location(f"official_{module}", file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_verls_function_gets_the_columns_of_verls_row() -> None:
    seen: dict[str, Any] = {}

    def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None) -> float:
        seen.update(data_source=data_source, solution_str=solution_str, ground_truth=ground_truth, extra_info=extra_info)
        return 0.5

    assert judge(compute_score, VERL_ROW, "It is #### 4") == Verdict(0.5)
    assert seen == {
        "data_source": "openai/gsm8k",
        "solution_str": "It is #### 4",
        "ground_truth": "4",
        "extra_info": {"split": "train", "index": 7},
    }


@pytest.mark.parametrize(
    "compute_score",
    [
        lambda solution_str, ground_truth, method="strict", format_score=0.0, score=1.0: float(solution_str == ground_truth),
        lambda data_source, solution_str, ground_truth, extra_info, **kwargs: float(solution_str == ground_truth),
        lambda *, solution_str, ground_truth, **kwargs: solution_str == ground_truth,
    ],
)
def test_variants_of_verls_function_are_called_too(compute_score: Callable[..., Any]) -> None:
    assert [judge(compute_score, VERL_ROW, reply).reward for reply in ("4", "5")] == [1.0, 0.0]


async def wait_and_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"score": 0.25, "acc": False, "length": len(solution_str), "pred": solution_str}


def test_an_async_function_of_verl_may_return_a_dict() -> None:
    found = judge(wait_and_score, VERL_ROW, "abc")
    assert found == Verdict(0.25, False, components={"acc": 0.0, "length": 3.0})


@pytest.mark.parametrize("right", [{"ground_truth": "4"}, {"answer": "4"}])
def test_verls_function_finds_the_right_answer_in_other_columns(right: dict[str, str]) -> None:
    found = judge(lambda solution_str, ground_truth: solution_str == ground_truth, {"main_query": "2 + 2?", **right}, "4")
    assert found == Verdict(1.0, True)


def test_a_row_without_a_right_answer_names_its_columns() -> None:
    found = judge(lambda solution_str, ground_truth: 1.0, {"main_query": "2 + 2?", "solution": "4"}, "4")
    assert isinstance(found, Unjudged)
    assert "main_query, solution, task_id" in found.detail


@pytest.mark.parametrize(
    ("reply", "reward"),
    [("<think>\nI add.\n</think>\nIt is 4.", 1.0), ("It is 4.", 0.0), ("<think>a</think><think>b</think>", 0.0)],
)
def test_trls_own_function_for_the_format_of_reasoning(reply: str, reward: float) -> None:
    official = read_official("format_rewards").think_format_reward
    assert judge(official, {"prompt": MESSAGES, "solution": "4"}, reply) == Verdict(reward)


def test_trls_own_objects_read_the_sampled_ids() -> None:
    official = read_official("other_rewards").get_soft_overlong_punishment(max_completion_len=8, soft_punish_cache=4)
    assert judge(official, {"prompt": MESSAGES}, "x") == Verdict(-0.5)


def test_trls_function_gets_lists_of_one_with_columns_and_messages() -> None:
    seen: dict[str, Any] = {}

    def reward(prompts: list[Any], completions: list[Any], answer: list[str], log_metric: Any, **kwargs: Any) -> list[float]:
        log_metric("seen", 1.0)
        seen.update(prompts=prompts, completions=completions, answer=answer, more=kwargs)
        return [float(completions[0][0]["content"] == answer[0])]

    assert judge(reward, {"prompt": MESSAGES, "answer": "4", "level": 3}, "4") == Verdict(1.0)
    assert (seen["prompts"], seen["answer"], seen["more"]["level"]) == ([MESSAGES], ["4"], [3])
    assert seen["completions"] == [[{"role": "assistant", "content": "4"}]]


def test_a_prompt_that_is_a_text_has_completions_that_are_texts() -> None:
    def reward(completions: list[str], **kwargs: Any) -> list[float]:
        return [float(len(one)) for one in completions]

    assert judge(reward, {"prompt": "2 + 2?"}, "four") == Verdict(4.0)


def test_none_in_trls_list_abstains() -> None:
    found = judge(lambda completions, **kwargs: [None], {"prompt": MESSAGES}, "4")
    assert isinstance(found, Unjudged)
    assert found.reason == "abstained"


def test_a_column_that_the_row_lacks_is_named_with_those_it_has() -> None:
    found = judge(lambda completions, solution: [1.0], {"prompt": MESSAGES, "answer": "4"}, "4")
    assert isinstance(found, Unjudged)
    assert "has no column solution; it has answer, " in found.detail


def test_the_plain_form_is_called_by_its_names_in_any_order() -> None:
    def turned(workflow_output: WorkflowOutput, workflow_task: WorkflowTask) -> bool:
        return isinstance(workflow_output, WorkflowOutput) and isinstance(workflow_task, WorkflowTask)

    assert judge(turned, VERL_ROW, "4") == Verdict(1.0, True)


NOT_CALLABLE = [
    lambda: 1.0,
    lambda answer: 1.0,
    lambda task, answer, right: 1.0,
    lambda task, response, right: 1.0,
    lambda solution_str, ground_truth, tokenizer: 1.0,
    lambda task, answer, *, right: 1.0,
    lambda data_sources, solution_strs, ground_truths, extra_infos: [1.0],
]


@pytest.mark.parametrize("function", NOT_CALLABLE)
def test_any_other_signature_is_refused_with_the_forms_that_there_are(function: Callable[..., Any]) -> None:
    with pytest.raises(
        PluginError, match=r"^judge 'j' takes \(.*A judge function takes \(workflow_task, workflow_output\), or"
    ) as error:
        make_judge(function, blame="judge 'j'")
    assert "as in verl" in str(error.value)


class Short:
    def compute_reward(self, workflow_task: WorkflowTask) -> float:
        return 1.0


class OfVerl:
    def compute_reward(self, data_source: str, solution_str: str, ground_truth: str, extra_info: Any) -> float:
        return float(solution_str == ground_truth)


class Static:
    @staticmethod
    def compute_reward(workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
        return 1.0


class Helped:
    """Its own `judge` is a helper: it is not a whole judge."""

    def judge(self, given: str, right: str, scale: float) -> float:
        return scale * (given == right)

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
        return self.judge("4", "4", 0.5)


class WholeWithout:
    async def observe(self, episode: Any) -> Any: ...

    async def judge(self, group: Any) -> Any: ...


def test_methods_are_checked_without_an_object() -> None:
    check_methods(Static)
    check_methods(OfVerl)
    check_methods(Helped)
    with pytest.raises(TypeError, match=r"^compute_reward takes \(self, workflow_task\), and cannot be given both arguments"):
        check_methods(Short)
    with pytest.raises(TypeError, match=r"^observe takes \(self, episode\), and is called as observe\(episode, environment\)"):
        check_methods(WholeWithout)


def test_a_class_in_verls_form_judges() -> None:
    assert judge(OfVerl, VERL_ROW, "4") == Verdict(1.0)


@pytest.mark.parametrize("place", ["score", "Short"])
def test_the_configuration_is_refused_before_anything_is_played(tmp_path: Path, place: str) -> None:
    (tmp_path / "mine.py").write_text(
        "def score(task, answer, right):\n    return 1.0\n\n\n"
        "class Short:\n    def compute_reward(self, workflow_task):\n        return 1.0\n"
    )
    write_project(tmp_path, f"./mine.py:{place}")
    found = run_command("config", "validate", "--conf", "project.yaml", cwd=tmp_path)
    assert found.code == 2
    assert "astuner.task_judge.judge_protocol: " in found.err + found.out
    assert "as in TRL" in found.err + found.out


LACKING = {
    "def score(completions, solution, **kwargs):\n    return [1.0]\n": "no column solution; it has answer, ",
    "class Score:\n    def compute_reward(self, completions, solution):\n        return [1.0]\n": "no column solution; it",
    "def score(solution_str, ground_truth):\n    return 1.0\n": "no right answer: neither",
}


@pytest.mark.parametrize(("code", "lack"), LACKING.items(), ids=["function of trl", "class of trl", "function of verl"])
def test_a_column_that_a_row_lacks_is_refused_before_anything_is_played(tmp_path: Path, code: str, lack: str) -> None:
    (tmp_path / "mine.py").write_text(code)
    whole = {"task_id": "a", "main_query": "2 + 2?", "answer": "4", "solution": "4"}
    short = {"task_id": "b", "main_query": "2 + 3?", "answer" if "completions" in code else "level": "5"}
    write_project(tmp_path, f"./mine.py:{'Score' if 'class' in code else 'score'}", tasks=[whole, short], replies=("4",))
    found = run_command("run", "--conf", "project.yaml", cwd=tmp_path)
    assert found.code == 2, found.err
    assert "task 'b' (train): " in found.err
    assert f"cannot judge it: the row has {lack}" in found.err
    assert not any(path.stat().st_size for path in tmp_path.rglob("episodes/*.jsonl"))


def test_rows_that_a_judge_is_not_for_need_none_of_its_columns(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def score(completions, solution):\n    return [1.0]\n")
    rows = [{"task_id": name, "main_query": "2 + 2?", name: "4"} for name in ("solution", "answer")]
    judges = [
        {"judge": "./mine.py:score", "only": {"task_id": "solution"}},
        {"judge": "astuner_devkit.judges:ExactAnswer", "only": {"task_id": "answer"}},
    ]
    write_project(tmp_path, tasks=rows, replies=("4",), settings={"task_judge": {"judges": judges}})
    found = run_command("run", "--conf", "project.yaml", cwd=tmp_path)
    assert found.code == 0, found.err
    assert "reward 1.000" in found.err


def test_a_right_answer_that_has_a_default_may_be_missing() -> None:
    assert judge(lambda solution_str, ground_truth="4": solution_str == ground_truth, {"main_query": "2 + 2?"}, "4").reward == 1.0


def test_a_run_with_verls_function_and_verls_row(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
        "    return float(solution_str == ground_truth)\n"
    )
    row = {"task_id": "a", "main_query": "2 + 2?", "data_source": "gsm8k", "reward_model": {"ground_truth": "4"}}
    write_project(tmp_path, "./mine.py:compute_score", tasks=[row], replies=("4",))
    found = run_command("run", "--conf", "project.yaml", cwd=tmp_path)
    assert found.code == 0, found.err
    assert "reward 1.000" in found.err
