"""`astuner eval`: contestants that play the same tasks, what is said of their difference, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit.project import write_project
from astuner_devkit.scripted_api import ScriptedApi, make_completion, scripted_api

BACKBONE = """
from pathlib import Path

from attrs import evolve

from astuner.contract.protocols import BackboneTraits
from astuner.episodes.builtin.debug.debug_backbone import DebugBackbone


class Learns(DebugBackbone):
    traits = BackboneTraits(
        honours=("*",), default_engines=DebugBackbone.traits.default_engines, throwaway=True, trains=False
    )

    def evaluate(self, run, tasks, recipe, checkpoint, control):
        if checkpoint is not None:
            replies = tuple((Path(checkpoint) / "replies").read_text().split())
            options = evolve(recipe.engine.options, replies=replies)
            recipe = evolve(recipe, engine=evolve(recipe.engine, options=options))
        return super().evaluate(run, tasks, recipe, None, control)
"""
TASKS = [
    {"question": f"What is {number} + 1?", "answer": "4" if number % 3 else "5", "data_source": "odd" if number % 2 else "even"}
    for number in range(12)
]


def answer_number(body: Mapping[str, Any], number: int) -> Any:
    return make_completion("4", prompt_tokens=10, completion_tokens=2)


@pytest.fixture
def project(tmp_path: Path, own_state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "part.py").write_text(BACKBONE)
    settings = {
        "rollout": {"name": "scripted", "scripted": {"replies": ["7"]}},
        "task_reader": {"dataset_file": {"validation": {"file_path": "project.jsonl"}}},
        "trainer_common": {"val_pass_n": 1},
    }
    write_project(tmp_path, backbone="./part.py:Learns", tasks=TASKS, settings=settings)
    run = tmp_path / "launcher_record" / "project"
    for step, replies in ((1, "5"), (2, "4")):
        (run / "checkpoints" / f"step_{step}").mkdir(parents=True)
        (run / "checkpoints" / f"step_{step}" / "replies").write_text(replies)
    validations = {"1": {"metric": "val/reward/mean", "value": 0.3}, "2": {"metric": "val/reward/mean", "value": 0.6}}
    (run / "state.json").write_text(json.dumps({"status": "finished", "step": 2, "validations": validations}))
    return tmp_path


@pytest.fixture
def start(cli: Any, project: Path) -> Any:
    return lambda *more: cli("eval", "--conf", "project.yaml", *more)


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    with scripted_api(answer_number) as served:
        yield served


def test_one_contestant_shows_its_metrics_and_their_intervals(start: Any) -> None:
    ended = start("--checkpoint", "best")
    assert ended.code == 0, ended.err
    assert "val/success/rate  0.6667\n" in ended.out
    assert "best (step_2)  12     0.667   0.417 to 0.917  66.7%    39.1% to 86.2%" in ended.out
    assert "difference" not in ended.out
    document = json.loads(start("--json").out)
    assert document["val/success/rate"] == 0.0
    assert document["standings"][0]["success"] == {"value": 0.0, "low": 0.0, "high": pytest.approx(0.2425, abs=1e-4)}


def test_contestants_are_compared_with_the_first_task_by_task(start: Any, project: Path) -> None:
    ended = start("--checkpoint", "base", "--checkpoint", "1", "--checkpoint", "best", "--checkpoint", "last", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert [one["name"] for one in found["contestants"]] == ["base", "step_1", "best (step_2) = last"]
    whole = [one for one in found["differences"] if one["source"] is None]
    assert [(one["contestant"], one["against"], one["better"], one["worse"]) for one in whole] == [
        ("step_1", "base", 4, 0),
        ("best (step_2) = last", "base", 8, 0),
    ]
    assert whole[0]["p_value"] == pytest.approx(2 / 2**4)
    assert whole[0]["success"]["value"] == pytest.approx(1 / 3)
    assert (whole[1]["decided"], whole[1]["more_tasks"]) == (True, 0)
    assert {(one["source"], one["tasks"]) for one in found["standings"]} == {(None, 12), ("odd", 6), ("even", 6)}
    assert sorted(path.name for path in (project / "launcher_record").iterdir()) == [
        "project",
        "project-base.eval",
        "project-best-step_2-last.eval",
        "project-step_1.eval",
    ]


def test_the_same_evaluation_gives_the_same_document_but_for_its_time(start: Any) -> None:
    documents = []
    for _ in range(2):
        found = json.loads(start("--checkpoint", "1", "--checkpoint", "2", "--json").out)
        for one in found["contestants"]:
            one["cost"].pop("seconds")
        documents.append(found)
    assert documents[0] == documents[1]


def test_an_api_is_a_contestant_and_its_key_is_stored_nowhere(
    start: Any, project: Path, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    ended = start("--checkpoint", "base", "--api", f"big-model@{api.url},MY_KEY", "--markdown", "page.md")
    assert ended.code == 0, ended.err
    assert set(api.keys) == {"sk-very-secret"}
    assert len(api.bodies) == 12
    assert {body["model"] for body in api.bodies} == {"big-model"}
    page = (project / "page.md").read_text()
    assert f"* big-model: big-model at {api.url}\n" in page
    assert "| big-model | 12 | +0.667 | +0.417 to +0.917 | +66.7 points | +41.7 to +91.7 | 8 | 0 | 0.0078 | yes |" in page
    assert "| big-model | 12 | 120 | 24 |" in page
    stored = [path for path in project.rglob("*") if path.is_file() and b"sk-very-secret" in path.read_bytes()]
    assert stored == []


def test_the_address_of_an_api_may_come_from_the_environment(
    start: Any, api: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", api.url)
    ended = start("--api", "big-model", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["contestants"][0]["cost"]["prompt_tokens"] == 120


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--checkpoint", "nowhere"], "--checkpoint nowhere: there is no such directory. Name one, or base"),
        (["--checkpoint", "9"], "no checkpoint '9'; there are best, last and 1, 2"),
        (["--api", "@http://h/v1"], "--api @http://h/v1: there is no model before the address"),
        (["--api", "m@localhost:8000"], "--api m: 'localhost:8000' is not the address of an API"),
        (["--api", "m@http://me:sk-1@h/v1"], "--api m: a key in an address is stored with the run"),
        (["--api", "m@http://h/v1,NO_SUCH_KEY"], "--api m: the environment variable NO_SUCH_KEY, which should hold the key"),
        (["--suite", "gsm8k"], "--suite gsm8k: write it as NAME:WHAT"),
        (["--suite", "gsm9k:x.jsonl"], "--suite gsm9k:x.jsonl: no suite 'gsm9k'. Did you mean 'gsm8k'?"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_played(start: Any, project: Path, options: list[str], said: str) -> None:
    ended = start("--checkpoint", "base", *options)
    assert ended.code == 2
    assert said in ended.err
    assert [path.name for path in (project / "launcher_record").iterdir()] == ["project"]


def test_the_key_in_an_address_is_not_shown(start: Any) -> None:
    assert "sk-1" not in start("--api", "m@http://me:sk-1@h/v1").err


def test_a_suite_brings_its_tasks_and_judge_and_asks_plainly(
    start: Any, project: Path, fake_distribution: Any, api: ScriptedApi
) -> None:
    made = """
def choose_suite(what):
    return {
        "task_reader.type": "dataset_file",
        "task_reader.dataset_file": {"training": None, "validation": {"file_path": what}},
        "task_judge.judge_protocol": "acme_suite:Exact",
    }


class Exact:
    def compute_reward(self, workflow_task, workflow_output):
        right = workflow_output.metadata["final_answer"] == workflow_task.task.metadata["answer"]
        return float(right), right
"""
    fake_distribution(
        "acme-suite",
        files={"acme_suite.py": made},
        entry_points={"astuner.functions": {"suite_acme": "acme_suite:choose_suite"}},
    )
    (project / "own.jsonl").write_text('{"question": "2 + 2?", "answer": "4"}\n{"question": "2 + 3?", "answer": "5"}\n')
    ended = start("--suite", f"acme:{project / 'own.jsonl'}", "--api", f"big@{api.url}", "--json")
    assert ended.code == 0, ended.err
    assert sorted(api.prompts()) == ["2 + 2?", "2 + 3?"]
    assert json.loads(ended.out)["val/success/rate"] == 0.5
