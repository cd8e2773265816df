"""The judge `llm` in real runs, over a real API on loopback: rewards and reasons in the run store."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit import PlayedRun
from astuner_devkit.command_line import CommandResult
from astuner_devkit.project import write_project
from astuner_devkit.scripted_api import Reply

TASKS = (
    {"task_id": "sum", "main_query": "How much is 2 + 2?", "answer": "4"},
    {"task_id": "more", "main_query": "How much is 2 + 3?", "answer": "5"},
)

FEW = {"max_retries": 0, "concurrency": 4}

Run = Callable[..., PlayedRun]
Cli = Callable[..., CommandResult]


def judged_by(*judges: Mapping[str, Any], repeats: int = 1, **more: Any) -> Mapping[str, Any]:
    return {"task_judge": {"judges": list(judges), **more}, "rollout": {"num_repeat": repeats}}


def test_a_run_on_debug_keeps_rewards_and_rationales(bench: Any, cli: Cli, tmp_path: Path) -> None:
    bench.answer(lambda work: {"rationale": f"the judge read {work}", "score": 7})
    settings = {"task_judge": {"judge_type": "llm", "alien_llm_model": "referee", "llm": {"llm": FEW, "success_threshold": 5}}}
    conf = write_project(tmp_path, tasks=TASKS, settings=settings, replies=["It is 4."])
    finished = cli("run", "--conf", conf, "--backbone", "debug")
    assert finished.code == 0, finished.err
    (run,) = (tmp_path / "launcher_record").iterdir()
    rows = [json.loads(line) for line in (run / "episodes" / "train.jsonl").read_text().splitlines()]
    verdicts = [verdict for row in rows if row["kind"] == "verdicts" for verdict in row["verdicts"].values()]
    assert [(v["reward"], v["is_success"], v["rationale"]) for v in verdicts] == [(0.7, True, "the judge read It is 4.")] * 2
    assert "the judge read It is 4." in finished.err
    (metrics,) = (json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines())
    assert (metrics["reward/mean"], metrics["reward/score"]) == (0.7, 7.0)
    (totals,) = (json.loads(line) for line in (run / "logs" / "llm_judge.jsonl").read_text().splitlines())
    assert (totals["model"], totals["requests"]) == ("referee", 2)
    assert {body["model"] for body in bench.api.bodies} == {"referee"}
    assert "sk-scripted" not in finished.err + finished.out


def test_siblings_are_compared_in_a_run(bench: Any, run: Run, tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(
        "from astuner_devkit.workflows import OneTurn\n"
        "from attrs import evolve\n\n\n"
        "class Numbered(OneTurn):\n"
        "    async def execute(self, workflow_task, tuner):\n"
        "        output = await super().execute(workflow_task, tuner)\n"
        "        return evolve(output, metadata={'final_answer': 'x' * (workflow_task.repeat + 1)})\n"
    )
    bench.answer(lambda one, two: {"rationale": "longer", "winner": "first" if len(one) > len(two) else "second"})
    settings = judged_by({"judge": "llm", "options": {"mode": "pairwise", "llm": FEW}}, repeats=3)
    played = run(tasks=TASKS[:1], workflow="./flow.py:Numbered", settings=settings)
    assert played.rewards == [0.0, 0.5, 1.0]
    assert played.metrics["reward/position_bias"] == 0.0


def test_judges_add_up_by_weight(bench: Any, run: Run) -> None:
    bench.answer(lambda work: {"rationale": "terse", "score": 5})
    settings = judged_by(
        {"judge": "llm", "weight": 0.4, "options": {"llm": FEW}},
        {"judge": "math", "weight": 1.0, "options": {"symbolic": False}},
    )
    played = run(tasks=TASKS, settings=settings)
    assert played.rewards == pytest.approx([1.2, 0.2])
    found = [episode.verdict for episode in played.episodes]
    assert [verdict.components["llm"] for verdict in found] == [0.5, 0.5]
    assert [verdict.components["math"] for verdict in found] == [1.0, 0.0]
    assert "llm: terse" in found[0].rationale


def test_a_gate_of_the_math_judge_saves_questions(bench: Any, run: Run) -> None:
    bench.answer(lambda work: {"score": 5})
    settings = judged_by(
        {"judge": "math", "options": {"symbolic": False}},
        {"judge": "llm", "weight": 0.4, "requires": {"math": 1.0}, "options": {"llm": FEW}},
    )
    assert run(tasks=TASKS, settings=settings).rewards == pytest.approx([1.2, 0.0])
    assert len(bench.api.bodies) == 1


def test_math_and_llm_is_a_judge_of_its_own(bench: Any, run: Run) -> None:
    bench.answer(lambda work: {"rationale": "off by one", "score": 8})
    settings = {"task_judge": {"judge_type": "math_and_llm", "math_and_llm": {"quality": {"llm": FEW}}}}
    played = run(tasks=TASKS, settings=settings)
    assert played.rewards == pytest.approx([1.0, 0.4])
    assert played.episodes[1].verdict.rationale == "off by one"


def test_a_failure_is_counted_and_the_run_goes_on(bench: Any, run: Run) -> None:
    bench.api.script = lambda body, number: Reply(500, {}) if "2 + 2" in str(body) else '{"score": 5}'
    played = run(tasks=TASKS, settings=judged_by({"judge": "llm", "options": {"llm": FEW}}))
    assert played.rewards == [None, 0.5]
    assert played.episodes[0].verdict.reason == "llm_failed"


def test_a_second_run_with_the_cache_sends_nothing(bench: Any, run: Run) -> None:
    bench.answer(lambda work: {"score": 5})
    settings = judged_by({"judge": "llm", "options": {"llm": {**FEW, "cache": "answers.sqlite"}}})
    assert run(tasks=TASKS, settings=settings).rewards == run(tasks=TASKS, settings=settings).rewards == [0.5, 0.5]
    assert len(bench.api.bodies) == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"max_score": -1}, "max_score (-1) has to be above min_score (0)"),
        ({"prompt_file": "none.txt"}, "judge 'llm': prompt_file"),
        ({"colour": "red"}, "colour"),
    ],
    ids=str,
)
def test_bad_options_end_a_run_before_anything_is_asked(
    bench: Any, cli: Cli, tmp_path: Path, options: dict[str, Any], told: str
) -> None:
    conf = write_project(tmp_path, settings={"task_judge": {"judge_type": "llm", "llm": options}})
    finished = cli("run", "--conf", conf)
    assert finished.code != 0
    assert told in finished.err
    assert bench.api.bodies == []


def test_a_run_without_an_endpoint_names_the_variables(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DASHSCOPE_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "")
    conf = write_project(tmp_path, settings={"task_judge": {"judge_type": "llm"}})
    finished = cli("run", "--conf", conf)
    assert finished.code == 2
    assert "judge 'llm' needs an LLM, and the environment names none: set DASHSCOPE_API_KEY" in finished.err
