from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner.contract.errors import ConfigError, DataError
from astuner.contract.schema import Task
from astuner.episodes.rollout.sampler import TaskSampler
from astuner.settings.plugins.options import build_options
from astuner.shared.install_hints import install_command
from astuner_devkit.contracts import ReaderContract
from astuner_judges.json_child import JsonChild
from astuner_reasoning_gym.program import make_program
from astuner_reasoning_gym.reader import ReasoningGymReader
from astuner_reasoning_gym.suite import choose_suite

WITHOUT_GOLD = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
"""Many answers are right, and the library keeps none of them."""


CHILD = JsonChild(make_program(60.0))
"""Shared by all readers here, since it takes a second or two to start."""


def made(**options: Any) -> ReasoningGymReader:
    return ReasoningGymReader(build_options(ReasoningGymReader, options, key="task_reader.reasoning_gym"), CHILD)


def wrong(**options: Any) -> str:
    with pytest.raises((ConfigError, DataError)) as caught:
        made(**options)
    return str(caught.value)


def families() -> list[str]:
    from reasoning_gym.factory import DATASETS

    return sorted(set(DATASETS) - {"composite"})


class TestAMixture(ReaderContract):
    component = "astuner_reasoning_gym.reader:ReasoningGymReader"
    options: ClassVar[Mapping[str, Any]] = {
        "datasets": ["countdown", {"name": "chain_sum", "weight": 2.0, "config": {"max_terms": 3}}, "rearc"],
        "size": 8,
        "validation_size": 4,
    }
    splits = ("train", "validation")

    def make(self, directory: Path) -> ReasoningGymReader:
        return made(**self.options)


class TestACurriculum(TestAMixture):
    options: ClassVar[Mapping[str, Any]] = {
        "datasets": ["spell_backward", "chain_sum"],
        "size": 6,
        "validation_size": 4,
        "curriculum": {"end_level": 1},
    }


class TestNoValidation(TestAMixture):
    options: ClassVar[Mapping[str, Any]] = {"datasets": ["countdown"], "size": 3, "validation_size": 0}
    splits = ("train",)


@pytest.fixture(scope="module")
def one_of_each() -> Mapping[str, Task]:
    tasks = list(made(datasets=families(), size=len(families()), validation_size=0).read("train"))
    return {task.metadata["reasoning_gym"]["dataset"]: task for task in tasks}


def test_every_family_makes_tasks_that_are_json(one_of_each: Mapping[str, Task]) -> None:
    assert len(one_of_each) == len(families()) >= 105
    for task in one_of_each.values():
        assert task.main_query.strip()
        assert json.loads(json.dumps(task.metadata, allow_nan=False)) == task.metadata


def test_the_right_answer_is_kept_where_the_library_has_one(one_of_each: Mapping[str, Task]) -> None:
    assert {name for name, task in one_of_each.items() if "answer" not in task.metadata} == WITHOUT_GOLD


def test_tasks_are_the_same_in_a_process_with_other_hashes() -> None:
    # Each of these goes through a set, or draws from a global generator.
    options = {"datasets": ["isomorphic_strings", "polynomial_multiplication", "ransom_note", "codeio"], "size": 8}
    code = f"""
from attrs import asdict
from astuner_reasoning_gym.reader import ReasoningGymReader
options = ReasoningGymReader.Options(**{options!r})
print([asdict(task) for task in ReasoningGymReader(options).read("train")])
"""
    shown = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(shown) == 1


def test_ids_change_with_all_that_changes_a_puzzle_and_with_nothing_else() -> None:
    plain = {"datasets": ["countdown"], "size": 2, "validation_size": 2}
    others: list[dict[str, Any]] = [
        {"seed": 7},
        {"datasets": [{"name": "countdown", "config": {"max_numbers": 5}}]},
        {"curriculum": {}},
    ]
    found = [[task.task_id for task in made(**plain | other).read("train")] for other in [{}, *others]]
    found.append([task.task_id for task in made(**plain).read("validation")])
    assert len({task_id for ids in found for task_id in ids}) == 2 * len(found)
    assert [task.task_id for task in made(**plain, prompt_suffix="").read("train")] == found[0]


def test_training_and_validation_share_no_puzzle() -> None:
    reader = made(datasets=["countdown"], size=50, validation_size=50)
    assert not {task.main_query for task in reader.read("train")} & {task.main_query for task in reader.read("validation")}


def test_seeds_that_would_share_puzzles_are_refused() -> None:
    said = wrong(datasets=["countdown"], seed=10, size=100, validation_seed=109)
    assert "validation_seed' is 109, too close to seed, 10" in said
    made(datasets=["countdown"], seed=10, size=100, validation_seed=110)


def test_datasets_take_turns_by_their_weights() -> None:
    reader = made(datasets=["countdown", {"name": "chain_sum", "weight": 3.0}], size=40, validation_size=0)
    names = [task.metadata["reasoning_gym"]["dataset"] for task in reader.read("train")]
    assert Counter(names) == {"countdown": 10, "chain_sum": 30}
    assert Counter(names[:8]) == {"countdown": 2, "chain_sum": 6}


def test_the_question_asks_for_the_answer_in_its_format_unless_told_otherwise() -> None:
    plain = {"datasets": ["chain_sum"], "size": 1, "validation_size": 0}
    (asking,), (bare,), (own,) = (
        list(made(**plain, **more).read("train")) for more in ({}, {"prompt_suffix": ""}, {"prompt_suffix": "In words."})
    )
    assert asking.main_query == (
        f"{bare.main_query}\n\nWrite your final answer, and nothing else, between <answer> and </answer>."
    )
    assert own.main_query == f"{bare.main_query}\n\nIn words."
    assert bare.main_query == bare.metadata["reasoning_gym"]["entry"]["question"]


def test_a_curriculum_raises_the_level_along_the_tasks() -> None:
    reader = made(datasets=["countdown"], size=8, validation_size=4, curriculum={"start_level": 1, "end_level": 4})
    levels = [task.metadata["reasoning_gym"]["level"] for task in reader.read("train")]
    assert levels == [1, 1, 2, 2, 3, 3, 4, 4]
    assert [task.metadata["reasoning_gym"]["level"] for task in reader.read("validation")] == [1, 2, 3, 4]


def test_a_higher_level_is_harder() -> None:
    def digits(level: int) -> float:
        levels = {"start_level": level, "end_level": level}
        tasks = made(datasets=["chain_sum"], size=20, curriculum=levels, prompt_suffix="").read("train")
        return sum(len(task.main_query) for task in tasks)

    assert digits(0) < digits(2) < digits(4)


def test_tasks_are_trained_in_the_order_of_the_curriculum_without_shuffling() -> None:
    reader = made(datasets=["countdown"], size=8, validation_size=0, curriculum={"end_level": 3})
    sampler = TaskSampler(reader, batch_size=2, epochs=1, seed=1, shuffle=False)
    steps = [[task.metadata["reasoning_gym"]["level"] for task in sampler.batch(step)] for step in (1, 2, 3, 4)]
    assert steps == [[0, 0], [1, 1], [2, 2], [3, 3]]


def test_a_million_tasks_begin_with_the_first() -> None:
    tasks = made(datasets=["countdown", "chain_sum"], size=10**6).read("train")
    assert len(list(islice(tasks, 3))) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"datasets": ["countdwn"]}, "no dataset 'countdwn' in reasoning-gym; did you mean 'countdown'"),
        ({"datasets": ["composite"]}, "no dataset 'composite'"),
        ({"datasets": ["qqq"]}, "no dataset 'qqq' in reasoning-gym; there are: ab, acre"),
        ({"datasets": [{"name": "chain_sum", "config": {"min_term": 2}}]}, "no setting 'min_term'; did you mean 'min_terms'"),
        ({"datasets": [{"name": "chain_sum", "config": {"min_terms": 9}}]}, "dataset 'chain_sum' refuses its configuration"),
        ({"datasets": [{"name": "chain_sum", "config": {"seed": 9}}]}, "'seed', which is an option of the reader itself"),
        ({"datasets": ["acre"], "curriculum": {}}, "dataset 'acre' has no levels of difficulty"),
        ({"datasets": ["rubiks_cube"], "curriculum": {"end_level": 9}}, "cube_size must be less than 7 (level 4 of 0 to 4"),
        (
            {"datasets": [{"name": "countdown", "config": {"max_numbers": 5}}], "curriculum": {}},
            "the curriculum sets max_numbers",
        ),
        ({"datasets": ["countdown"], "curriculum": {"start_level": 3, "end_level": 2}}, "'end_level' is 2, which is below"),
        ({"datasets": ["countdown", "countdown"]}, "'countdown' twice with one configuration; give it a weight"),
        ({"datasets": []}, "datasets"),
    ],
)
def test_what_cannot_be_made_is_refused_before_anything_starts(options: Mapping[str, Any], said: str) -> None:
    assert said in wrong(**options)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    assert len(wrong(datasets=["countdwn", "chain_som"]).splitlines()) == 2


def test_a_task_that_takes_too_long_is_named() -> None:
    reader = made(datasets=["zebra_puzzles"], size=1, curriculum={"start_level": 5, "end_level": 5}, timeout_s=0.5)
    with pytest.raises(DataError, match=r"task 0 of dataset 'zebra_puzzles' \(seed 42, level 5\) was not made within timeout_s"):
        next(reader.read("train"))


def test_a_missing_library_is_answered_with_the_command_that_brings_it(tmp_path: Path) -> None:
    code = """
import importlib.machinery, sys
real = importlib.machinery.PathFinder.find_spec
importlib.machinery.PathFinder.find_spec = lambda name, *more: None if name == "reasoning_gym" else real(name, *more)
from astuner.contract.errors import PluginError
from astuner_reasoning_gym.reader import ReasoningGymReader
try:
    ReasoningGymReader(ReasoningGymReader.Options(datasets=("countdown",)))
except PluginError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert install_command("astuner-reasoning-gym") in shown


def test_the_suite_asks_families_whose_names_are_the_sources_of_the_tasks() -> None:
    section = choose_suite("spell_backward, letter_counting")["task_reader.reasoning_gym"]
    tasks = made(**section, size=2, validation_size=2).read("validation")
    assert [task.metadata["data_source"] for task in tasks] == ["spell_backward", "letter_counting"]
