"""Workflow and judge functions as AgentScope's `tune()` takes them run unchanged, on both versions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from astuner.runs.store.store_lines import read_records
from astuner_devkit.command_line import CommandResult, run_command
from astuner_devkit.project import write_project
from astuner_devkit.scripted_api import ScriptedApi, scripted_api

FUNCTIONS = Path(__file__).parent / "tune_functions"
SUM = {"question": "What is 12 * 34?", "answer": "12 * 34 = 408 #### 408"}
PATIENT = {"id": 7, "messages": [{"role": "user", "content": "I cough."}], "info_truth": "fever"}
MAIL = {"question": "When is the meeting?", "answer": "Friday", "message_ids": ["m1"]}
BOXED = "It is \\boxed{408}"
READS = '<tool_call>\n{"name": "read_mail", "arguments": {"message_id": "m1"}}\n</tool_call>'
DECIDES = '<tool_call>\n{"name": "TOOL", "arguments": {"answer": "Friday", "sources": ["m1"]}}\n</tool_call>'

VERSIONS = [pytest.param(1, marks=pytest.mark.agentscope1), 2]


@frozen
class Played:
    finished: CommandResult
    episode: dict[str, Any]
    metrics: dict[str, float]

    @property
    def notices(self) -> str:
        return self.finished.err + self.finished.out


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., Played]:
    def run(
        workflow: str,
        judge: str | None,
        row: Mapping[str, Any],
        *replies: str,
        models: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Played:
        rollout = {"auxiliary_models": models or {}, "num_repeat": 1, **(settings or {})}
        write_project(
            tmp_path,
            judge and f"{FUNCTIONS}/{judge}",
            tasks=[row],
            replies=replies,
            workflow=f"{FUNCTIONS}/{workflow}",
            settings={"rollout": rollout},
        )
        finished = run_command("run", "--conf", "project.yaml", cwd=tmp_path)
        run_directory = tmp_path / "launcher_record" / "project.debug"
        assert (run_directory / "episodes" / "train.jsonl").is_file(), finished.err
        lines = [record for _, record in read_records(run_directory / "episodes" / "train.jsonl")]
        (episode,) = [line["episode"] for line in lines if line["kind"] == "episode"]
        for line in lines:
            if line["kind"] == "verdicts":
                (episode["verdict"],) = line["verdicts"].values() if isinstance(line["verdicts"], dict) else line["verdicts"]
        metrics = run_directory / "metrics.jsonl"
        rows = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
        return Played(finished, episode, rows[-1] if rows else {})

    return run


@pytest.fixture
def scorer() -> Iterator[ScriptedApi]:
    answers = iter(["<content_score>0.5</content_score><format_score>1</format_score>", "true"])
    with scripted_api(lambda body, number: next(answers)) as api:
        yield api


def pick(of_1: str, of_2: str, number: int) -> str:
    return of_1 if number == 1 else of_2


@pytest.mark.parametrize("number", VERSIONS)
def test_sums_with_optional_models(play: Callable[..., Played], number: int):
    played = play(
        pick("sums1.py:solve", "all2.py:solve", number), pick("sums1.py:grade", "all2.py:grade_sum", number), SUM, BOXED
    )
    assert played.finished.code == 0, played.notices
    assert played.episode["failures"] == []
    assert played.metrics["reward/mean"] == pytest.approx(1.1)
    assert (played.metrics["reward/accuracy"], played.metrics["reward/format_score"]) == (1, pytest.approx(0.1))
    assert played.episode["untrained"] == {}
    message = played.episode["output"]["metadata"]["response"]["agentscope_message"]
    assert (message["role"], message["name"]) == ("assistant", "solver")
    assert played.episode["output"]["metadata"]["final_answer"] == BOXED


@pytest.mark.agentscope1
def test_arguments_without_a_default_are_given(play: Callable[..., Played], caplog: pytest.LogCaptureFixture):
    played = play("augmented1.py:solve", "augmented1.py:grade", {"id": 41, "question": "6 * 7?", "answer": "42"}, "42")
    assert played.finished.code == 0, played.notices
    assert played.metrics["reward/mean"] == 1
    said = [(record.name, record.getMessage()) for record in caplog.records if record.name.startswith("astuner.")]
    assert said == [("astuner.workflow", "question 42"), ("astuner.judge", "graded 41")]


@pytest.mark.parametrize("number", VERSIONS)
def test_messages_are_the_task_and_an_endpoint_scores_the_answer(
    play: Callable[..., Played], scorer: ScriptedApi, monkeypatch: pytest.MonkeyPatch, number: int
):
    monkeypatch.setenv("SCORER_KEY", "sk-of-the-scorer")
    models = {
        "scorer": {"base_url": scorer.url, "model": "large", "api_key_env": "SCORER_KEY", "temperature": 0.7, "max_tokens": 99}
    }
    workflow, judge = pick("asking1.py:ask", "all2.py:ask", number), pick("asking1.py:grade", "all2.py:grade_question", number)
    played = play(workflow, judge, PATIENT, "Do you have a fever?", models=models)
    assert played.finished.code == 0, played.notices
    assert played.metrics["reward/mean"] == 3
    assert scorer.keys == ["sk-of-the-scorer"]
    (body,) = scorer.bodies
    assert (body["model"], body["temperature"], body.get("stream", False)) == ("large", 0.7, False)
    assert "fever" in json.dumps(body["messages"])
    if number == 2:
        (verdict,) = [played.episode["verdict"]]
        assert "trained: doctor" in json.dumps(verdict)


@pytest.mark.parametrize("number", VERSIONS)
def test_the_other_players_are_the_model_in_training_and_not_trained(play: Callable[..., Played], number: int):
    row = {"seed": 3, "prompt": "-", "workflow_args": {"trainable_target": "second"}}
    played = play(pick("game1.py:play", "all2.py:play", number), None, row, "I say so.", models={"participant": {}})
    assert played.finished.code == 0, played.notices
    assert played.metrics["reward/mean"] == 1
    assert played.metrics["workflow/success"] == 1
    agents = [(call["agent"], call["untrained"]) for call in played.episode["calls"]]
    assert agents == [("participant", "frozen_agent"), ("agent", None), ("participant", "frozen_agent")] * 2
    assert list(played.episode["untrained"]) == ["frozen_agent"]
    if number == 2:
        assert "'trainable_target'] must be a finite number" in played.notices


@pytest.mark.parametrize("number", VERSIONS)
def test_too_many_calls_name_the_key_and_are_final(play: Callable[..., Played], number: int):
    row = {"prompt": "-", "rounds": 20}
    settings = {"multi_turn": {"max_steps": 5}, "failure_rewards": {"max_steps": None}}
    played = play(
        pick("game1.py:play", "all2.py:play", number), None, row, "I say so.", models={"participant": {}}, settings=settings
    )
    (failure,) = played.episode["failures"]
    assert (failure["reason"], failure["retried"]) == ("max_steps", False)
    assert "rollout.multi_turn.max_steps" in failure["detail"] + played.notices
    assert len([call for call in played.episode["calls"] if call["agent"] == "agent"]) == 5


@pytest.mark.parametrize("models", ["endpoint", "frozen"])
@pytest.mark.parametrize("number", VERSIONS)
def test_metadata_and_structured_answers_reach_the_judge(play: Callable[..., Played], number: int, models: str):
    tool = pick("generate_response", "GenerateStructuredOutput", number)
    replies = (READS, DECIDES.replace("TOOL", tool), "true, it is Friday.")
    with scripted_api(lambda body, number: "true") as api:
        chosen = {"base_url": api.url, "model": "large"} if models == "endpoint" else {}
        workflow, judge = (
            pick("mail1.py:search", "all2.py:search", number),
            pick("mail1.py:grade", "all2.py:grade_search", number),
        )
        # A frozen judge is another conversation, so its answer is the first reply, which is a tool call.
        played = play(workflow, judge, MAIL, *replies, models={"judge": chosen})
    assert played.finished.code == 0, played.notices
    expected = 1.2 if models == "endpoint" else -0.8
    assert played.metrics["reward/mean"] == pytest.approx(expected), played.notices
    assert played.metrics["reward/turns"] == 1
    assert played.episode["untrained"] == {}
    assert {call["agent"] for call in played.episode["calls"]} == {"agent"}


@pytest.mark.parametrize("number", VERSIONS)
def test_a_workflow_in_another_process_gives_the_judge_the_message_again(play: Callable[..., Played], number: int):
    replies = (READS, DECIDES.replace("TOOL", pick("generate_response", "GenerateStructuredOutput", number)), "On Friday.")
    workflow, judge = pick("mail1.py:search", "all2.py:search", number), pick("mail1.py:grade", "all2.py:grade_search", number)
    with scripted_api(lambda body, number: "true") as api:
        models = {"judge": {"base_url": api.url, "model": "large"}}
        played = play(workflow, judge, MAIL, *replies, models=models, settings={"isolation": "process"})
    assert played.finished.code == 0, played.notices
    assert played.metrics["reward/mean"] == pytest.approx(1.2), played.notices
    assert played.metrics["reward/turns"] == 1


@pytest.mark.parametrize("number", VERSIONS)
def test_the_version_is_the_one_that_is_named(number: int):
    try:
        assert version("agentscope").startswith(f"{number}.")
    except PackageNotFoundError:
        pytest.fail("AgentScope is not installed")
