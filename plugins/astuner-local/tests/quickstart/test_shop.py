"""The project of `astuner quickstart --model`: its tasks, its agent, its judge, and the model that is named in its YAML."""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from astuner import Task, WorkflowOutput, WorkflowTask
from astuner.cli import exit_code_of
from astuner.settings.config.loading import load_config
from astuner_local.pretrained import fetching
from astuner_local.pretrained.fetching import FetchedModel
from astuner_local.quickstart.template import write_shop

TASK = WorkflowTask(Task(main_query="How much is a lamp?", metadata={"item": "lamp", "price": "27"}))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The project; its model's folder is empty."""
    project, model = tmp_path / "shop", tmp_path / "a model: #1"
    project.mkdir()
    model.mkdir()
    write_shop(project, 3, str(model))
    return project


def _read_rows(project: Path, split: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (project / f"tasks/{split}.jsonl").read_text().splitlines()]


class _Client:
    """Gives the replies in their order, and keeps what it was asked."""

    def __init__(self, replies: list[str]) -> None:
        self.replies, self.requests = replies, []
        self.chat = SimpleNamespace(completions=self)

    async def create(self, **request: Any) -> Any:
        self.requests.append({**request, "messages": list(request["messages"])})
        message = SimpleNamespace(content=self.replies.pop(0))
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])


def _play(shop: Path, *replies: str) -> tuple[WorkflowOutput, _Client]:
    client = _Client(list(replies))
    agent = runpy.run_path(str(shop / "agent.py"))["ShopAgent"]()
    output = asyncio.run(agent.execute(TASK, SimpleNamespace(as_raw_openai_sdk_client=lambda: client)))
    return output, client


def _judge(shop: Path, *replies: str) -> tuple[float, bool]:
    judge = runpy.run_path(str(shop / "judge.py"))["RightPrice"]()
    return judge.compute_reward(TASK, _play(shop, *replies)[0])


def test_every_file_is_explained_in_its_readme(shop: Path) -> None:
    text = (shop / "README.md").read_text()
    files = [str(path.relative_to(shop)) for path in shop.rglob("*") if path.is_file() and path.name != "README.md"]
    assert [file for file in files if f"`{file}`" not in text] == []


def test_no_thing_is_both_trained_and_validated(shop: Path) -> None:
    trained, validated = ({row["item"] for row in _read_rows(shop, split)} for split in ("train", "validation"))
    assert (trained & validated, len(validated), len(_read_rows(shop, "validation"))) == (set(), 40, 120)


def test_there_is_a_fresh_task_for_every_place_of_every_step(shop: Path) -> None:
    settings = yaml.safe_load((shop / "tune.yaml").read_text())["astuner"]
    needed = settings["trainer_common"]["total_training_steps"] * settings["data"]["train_batch_size"]
    rows = _read_rows(shop, "train")
    assert needed <= len(rows) == len({(row["item"], row["price"]) for row in rows})


def test_the_configuration_is_valid_and_names_model_and_seed(shop: Path) -> None:
    config = load_config(shop / "tune.yaml").config
    assert (config.model.path, config.seed) == (str(shop.parent / "a model: #1"), 3)


def test_its_script_writes_other_tasks_for_another_seed(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _read_rows(shop, "train")
    monkeypatch.setattr(sys, "argv", ["write_data.py", "4"])
    runpy.run_path(str(shop / "write_data.py"), run_name="__main__")
    assert before != _read_rows(shop, "train")
    monkeypatch.setattr(sys, "argv", ["write_data.py", "3"])
    runpy.run_path(str(shop / "write_data.py"), run_name="__main__")
    assert before == _read_rows(shop, "train")


def test_the_price_reaches_the_model_once_it_asks_for_the_thing(shop: Path) -> None:
    output, client = _play(shop, "LOOKUP Lamp.", "27")
    assert client.requests[1]["messages"][-1] == {"role": "user", "content": "Shop: 27 dollars"}
    assert output.metadata == {"final_answer": "27", "looked_up": ["lamp"]}
    assert output.log_metrics == {"tool_calls": 1.0}


def test_the_price_of_another_thing_is_not_told(shop: Path) -> None:
    _, client = _play(shop, "LOOKUP pen", "3")
    assert client.requests[1]["messages"][-1]["content"] == "Shop: we have no pen"
    assert "27" not in json.dumps(client.requests)


def test_a_line_is_a_turn(shop: Path) -> None:
    _, client = _play(shop, "27")
    assert (client.requests[0]["stop"], client.requests[0]["max_tokens"]) == (["\n"], 16)


@pytest.mark.parametrize(
    ("replies", "verdict"),
    [
        (("LOOKUP lamp", "27"), (1.0, True)),
        (("LOOKUP lamp", "It is 27 dollars."), (1.0, True)),
        (("LOOKUP lamp", "27 or 28"), (0.3, False)),
        (("LOOKUP lamp", "LOOKUP lamp", "27"), (0.0, False)),
        (("LOOKUP pen", "27"), (0.0, False)),
        (("27",), (0.0, False)),
        (("LOOKUP lamp", "LOOKUP lamp", "LOOKUP lamp"), (0.0, False)),
    ],
)
def test_only_the_right_price_after_one_look_up_is_a_success(
    shop: Path, replies: tuple[str, ...], verdict: tuple[float, bool]
) -> None:
    assert _judge(shop, *replies) == verdict


def test_the_command_fetches_the_model_and_names_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "home" / "models" / "smollm2-135m"
    place.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = FetchedModel(directory=place, title="SmolLM2-135M-Instruct", licence="Apache-2.0", impression=None)
    monkeypatch.setattr(fetching, "fetch_model", lambda name, **_: found)
    project = tmp_path / "demo"
    assert exit_code_of(["quickstart", str(project), "--model", "smollm2-135m", "--no-run"]) == 0
    assert yaml.safe_load((project / "tune.yaml").read_text())["astuner"]["model"]["path"] == "~/models/smollm2-135m"
    assert f"cd {project}\n  astuner run --conf tune.yaml" in capsys.readouterr().out
    assert exit_code_of(["config", "validate", "--conf", str(project / "tune.yaml")]) == 0


def test_an_unknown_model_is_refused_before_anything_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["quickstart", str(tmp_path / "demo"), "--model", "no-such-model"]) == 2
    assert "no model 'no-such-model'; there are: smollm2-135m" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()
