"""The tutorials on a pretrained model: two steps of each with the model itself, their data, judges, pages and tables.

How far they come takes hours: `tox -e realmodel`.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from harness import REPOSITORY
from page_commands import Bash, read_blocks

from astuner import Task, Verdict, WorkflowOutput, WorkflowTask

TUTORIALS = {"shop": {"looked"}, "one_word": {"form", "positive"}, "guess_number": {"form"}}
"""With the components of their verdicts that every step has."""
MODEL = "~/.cache/astuner/models/smollm2-135m"
TRAINS = re.compile(r"^(astuner (?:model fetch|warm-start|run)\b)", re.MULTILINE)
SMALL = "--set data.train_batch_size=2 --set rollout.num_repeat=4"
STEPS = "--set trainer_common.total_training_steps=2 --set trainer_common.save_freq=0"
VALIDATION_TASKS = 3
DEMONSTRATIONS = 16
MADE = shutil.ignore_patterns("launcher_record", "model", "tuned")

Load = Callable[[str], ModuleType]


def read_rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Load:
    """Imports a file of the repository, with its neighbours: `load("tutorial/shop/judge.py")`."""

    def run(name: str) -> ModuleType:
        file = REPOSITORY / name
        monkeypatch.syspath_prepend(str(file.parent))
        for neighbour in file.parent.glob("*.py"):
            monkeypatch.delitem(sys.modules, neighbour.stem, raising=False)
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, file.stem, module)
        spec.loader.exec_module(module)
        return module

    return run


def judge(judge: Any, row: Mapping[str, Any], metadata: Mapping[str, Any], episode: str = "train/1/a/0") -> Verdict:
    task = WorkflowTask(task=Task(main_query="?", metadata=row), episode_id=episode)
    return judge.compute_reward(task, WorkflowOutput(metadata=metadata))


@pytest.fixture(scope="session")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the model is fetched to, once for all tutorials."""
    return tmp_path_factory.mktemp("fetched") / "smollm2-135m"


@pytest.mark.parametrize("name", TUTORIALS)
def test_two_steps_of_a_tutorial(name: str, bash: Bash, fetched: Path, tmp_path: Path):
    home = Path(shutil.copytree(REPOSITORY / "tutorial" / name, tmp_path / name, ignore=MADE))
    shorten(home / "validation.jsonl", VALIDATION_TASKS)
    shorten(home / "demos.jsonl", DEMONSTRATIONS)
    config = home / "tune.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace(MODEL, str(fetched)), encoding="utf-8")
    (commands, control, *_) = (block for block in read_blocks(home / "README.md", "bash") if TRAINS.match(block))
    assert commands.splitlines()[-1] == "astuner run --conf tune.yaml"
    for command in commands.replace("\\\n", " ").replace(MODEL, str(fetched)).splitlines():
        if command.startswith("astuner model fetch"):
            command += f" --out {fetched}"
        bash(f"{command} {SMALL} {STEPS}" if command.startswith("astuner run") else command, home)
    for command in control.splitlines():
        bash(f"{command} --dry-run", home)
    validation, *steps, last = read_rows(home / "launcher_record" / name / "metrics.jsonl")
    assert (validation["kind"], validation["val/success/count"], last["kind"]) == ("validation", VALIDATION_TASKS, "validation")
    assert [step["step"] for step in steps] == [1, 2]
    for step in steps:
        assert step["reward/count"] == 8
        assert {part for part in TUTORIALS[name] if f"reward/{part}" in step} == TUTORIALS[name]
    # Half a gigabyte of weights, a whole one of moments.
    shutil.rmtree(home)


def shorten(file: Path, count: int) -> None:
    """Keep the first rows of a file, if it exists."""
    if file.exists():
        file.write_text("".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[:count]), encoding="utf-8")


@pytest.mark.parametrize("name", TUTORIALS)
def test_the_script_writes_the_data(name: str, bash: Bash, tmp_path: Path):
    tutorial = REPOSITORY / "tutorial" / name
    home = Path(shutil.copytree(tutorial, tmp_path / name, ignore=MADE))
    files = sorted(file.name for file in tutorial.glob("*.jsonl"))
    for file in files:
        (home / file).unlink()
    bash("python write_data.py", home)
    assert {file: (home / file).read_bytes() for file in files} == {file: (tutorial / file).read_bytes() for file in files}


@pytest.mark.parametrize(("name", "part"), [("shop", "item"), ("guess_number", "low"), ("one_word", "main_query")])
def test_nothing_of_the_validation_is_trained(name: str, part: str):
    known, new = (
        {row[part] for row in read_rows(REPOSITORY / "tutorial" / name / file)} for file in ("train.jsonl", "validation.jsonl")
    )
    assert not known & new


@pytest.mark.parametrize("name", TUTORIALS)
def test_validation_has_120_tasks(name: str):
    assert len(read_rows(REPOSITORY / "tutorial" / name / "validation.jsonl")) == 120


@pytest.mark.parametrize(
    ("looked_up", "answer", "reward"),
    [
        (["kettle"], "41", 1.0),
        (["kettle"], "It is $41.", 1.0),
        (["kettle"], "14", 0.3),
        (["kettle"], "41 or 42", 0.3),
        (["lamp", "kettle"], "41", 0.0),
        (["kettle", "kettle"], "41", 0.0),
        ([], "41", 0.0),
        (["lamp"], "41", 0.0),
    ],
)
def test_the_shop_wants_one_look_up_and_the_price(looked_up: list[str], answer: str, reward: float, load: Load):
    row = {"item": "kettle", "price": "41"}
    verdict = judge(load("tutorial/shop/judge.py").RightPrice(), row, {"looked_up": looked_up, "answer": answer})
    assert (verdict.reward, verdict.is_success) == (reward, reward == 1)


@pytest.mark.parametrize(
    ("answer", "reward", "form"),
    [("positive", 1.0, 1.0), (" Positive.", 1.0, 1.0), ("negative", 0.0, 1.0), ("It is positive.", 0.0, 0.0), ("", 0.0, 0.0)],
)
def test_form_is_told_apart_from_the_label(answer: str, reward: float, form: float, load: Load):
    verdict = judge(load("tutorial/one_word/judge.py").OneWord(), {"label": "positive"}, {"answer": answer})
    assert (verdict.reward, verdict.components["form"]) == (reward, form)


@pytest.mark.parametrize(
    ("guesses", "reward", "parts"),
    [
        ([44], 1.0, {"form": 1.0}),
        ([42, 46, 44], 1.0, {"form": 1.0, "listened": 1.0}),
        ([42, 41, 47], 3 / 7 / 2, {"form": 1.0, "listened": 0.5}),
        ([42, 99, 44], 1.0, {"form": 0.0, "listened": 0.5}),
        ([42], 2 / 7 / 2, {"form": 0.0}),
        ([], 0.0, {"form": 0.0}),
    ],
)
def test_a_game_is_found_well_formed_and_listened_to(guesses: list[int], reward: float, parts: dict[str, float], load: Load):
    row = {"low": 41, "high": 47, "secret": 44}
    verdict = judge(load("tutorial/guess_number/judge.py").Found(), row, {"guesses": guesses})
    assert (verdict.reward, dict(verdict.components)) == (pytest.approx(reward), parts)


def test_a_coin_knows_nothing_of_the_answer(load: Load):
    module = load("tutorial/one_word/judge.py")
    episodes = [f"train/{step}/a/{repeat}" for step in range(50) for repeat in range(8)]
    tosses = {
        answer: [judge(module.Coin(), {"label": "positive"}, {"answer": answer}, one).reward for one in episodes]
        for answer in ("positive", "nonsense")
    }
    other_side = [judge(module.OtherSide(), {"label": "positive"}, {"answer": "positive"}, one).reward for one in episodes]
    assert tosses["positive"] == tosses["nonsense"] == [1 - toss for toss in other_side]
    assert 0.4 < sum(other_side) / len(other_side) < 0.6


@pytest.mark.parametrize("name", TUTORIALS)
def test_the_page_quotes_the_code(name: str):
    tutorial = REPOSITORY / "tutorial" / name
    code = {line.strip() for file in tutorial.glob("*.py") for line in file.read_text(encoding="utf-8").splitlines()}
    quoted = [line.strip() for block in read_blocks(tutorial / "README.md", "python") for line in block.splitlines()]
    assert quoted
    assert [line for line in quoted if line not in code] == []


def test_the_benchmark_makes_the_warm_start_of_the_page(load: Load):
    (commands, *_) = read_blocks(REPOSITORY / "tutorial" / "guess_number" / "README.md", "bash")
    assert f"astuner warm-start --conf tune.yaml {' '.join(load('benchmarks/realmodel.py').WARM_START)}" in commands


def test_every_run_of_the_benchmark_has_a_name_of_its_own(load: Load):
    names = [play.name for play in load("benchmarks/realmodel.py").list_plays()]
    assert len({*names}) == len(names)


def test_the_pages_and_the_picture_are_those_of_the_measured_runs(load: Load):
    writer = load("docs/write_realmodel.py")
    rows = writer.read_results()
    pages = {name: (REPOSITORY / name).read_text(encoding="utf-8") for name in writer.PAGES}
    assert {name: writer.fill(page, rows) for name, page in pages.items()} == pages, "run: python docs/write_realmodel.py"
    assert writer.draw_curves(rows) == writer.PICTURE.read_text(encoding="utf-8"), "run: python docs/write_realmodel.py"
    assert {name for page in pages.values() for _, name in writer.MARKED.findall(page)} == {*writer.BLOCKS}


@pytest.mark.parametrize(
    ("rate", "count", "low", "high"), [(10 / 120, 120, 0.0459, 0.1467), (1.0, 120, 0.969, 1.0), (0.0, 50, 0.0, 0.0713)]
)
def test_intervals_are_wilsons(rate: float, count: int, low: float, high: float, load: Load):
    assert load("docs/write_realmodel.py").compute_interval(rate, count) == pytest.approx((low, high), abs=1e-3)
