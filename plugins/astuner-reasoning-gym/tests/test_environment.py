"""The environment `reasoning_gym`: the same puzzles everywhere, none in both splits, and answers that can hurt nobody."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner.contract.errors import DataError
from astuner.contract.schema import Task, WorkflowTask
from astuner_devkit.contracts import EnvironmentContract
from astuner_devkit.waiting import until
from astuner_envs.listing import SPLITS
from astuner_reasoning_gym.environment import ReasoningGym, find_source
from astuner_reasoning_gym.puzzles import Children, get_children

DEADLINE_S = 30.0


def sources(options: ReasoningGym.Options, *task_ids: str) -> list[Mapping[str, Any]]:
    async def all_of_them() -> list[Mapping[str, Any]]:
        return [await find_source(task_id, options, get_children(DEADLINE_S)) for task_id in task_ids]

    return asyncio.run(all_of_them())


def play(options: ReasoningGym.Options, answer: str, task_id: str = "train-0") -> tuple[Any, float]:
    async def whole() -> tuple[Any, float]:
        environment = ReasoningGym(WorkflowTask(Task(task_id=task_id)), options)
        await environment.reset()
        step = await environment.step({"role": "assistant", "content": f"<answer>{answer}</answer>"})
        assert await environment.evaluate() == step[1]
        return step, await environment.evaluate(sparse=True)

    return asyncio.run(whole())


class TestContract(EnvironmentContract):
    component = "astuner_reasoning_gym.environment:ReasoningGym"
    options: ClassVar[Mapping[str, Any]] = {"families": ["chain_sum", "spell_backward"]}

    def task(self) -> Task:
        return Task(task_id="train-7")

    def test_nothing_is_left_running(self, tmp_path: Path) -> None:
        # The children that all episodes of a process share are there from the first one on.
        self.test_it_can_be_closed_at_any_time(tmp_path)
        super().test_nothing_is_left_running(tmp_path)


def test_the_families_score_their_own_answers():
    options = ReasoningGym.Options(families=("chain_sum", "spell_backward"))
    made = sources(options, "train-0", "train-1")
    assert [source["dataset"] for source in made] == ["chain_sum", "spell_backward"]
    for number, source in enumerate(made):
        step, sparse = play(options, source["entry"]["answer"], f"train-{number}")
        assert (step[1:], sparse) == ((1.0, True, {"is_success": True}), 1.0)


def test_an_answer_is_not_run_in_this_process(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    options = ReasoningGym.Options(families=("countdown",))
    step, _ = play(options, "setattr(__import__('os'), 'was_here', __import__('os').environ['OPENAI_API_KEY']) or 1")
    assert step[1] < 1.0
    assert not hasattr(os, "was_here")


def test_an_answer_that_has_no_end_is_ended_and_no_score():
    options = ReasoningGym.Options(families=("countdown",), timeout_s=6.0)
    with pytest.raises(TimeoutError, match="reasoning-gym gave no answer in 6 s"):
        play(options, "9**9**9")
    assert play(options, "1")[0][1] < 1.0


def test_an_answer_that_cannot_be_read_is_worth_nothing():
    step, sparse = play(ReasoningGym.Options(families=("prime_factorization",)), "seven")
    assert (step[1], sparse, "ValueError" in step[3]["unreadable"]) == (0.0, 0.0, True)


def test_tasks_are_the_same_in_another_process_and_in_another_order():
    # Each of these goes through a set, or draws from a global generator.
    families = ("isomorphic_strings", "polynomial_multiplication", "ransom_note", "codeio")
    ids = [f"train-{number}" for number in range(8)]
    code = f"""
import asyncio
from astuner_reasoning_gym.puzzles import get_children
from astuner_reasoning_gym.environment import ReasoningGym, find_source

async def main():
    options = ReasoningGym.Options(families={families!r})
    made = {{one: (await find_source(one, options, get_children(60.0)))["entry"]["question"] for one in ORDER}}
    print(sorted(made.items()))

asyncio.run(main())
"""
    shown = {
        subprocess.run(
            [sys.executable, "-c", code.replace("ORDER", repr(order))],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, order in (("1", ids), ("2", ids[::-1]))
    }
    assert len(shown) == 1


GIVEN_UP = """
import asyncio, time
from astuner_judges.json_child import JsonChild
from astuner_reasoning_gym.puzzles import get_children
JsonChild.ask = lambda *given: time.sleep(600)

async def give_up():
    asking = asyncio.create_task(get_children(600.0).ask(check={}))
    await asyncio.sleep(0.2)
    asking.cancel()

asyncio.run(give_up())
"""


def test_a_program_that_is_over_waits_for_no_answer():
    subprocess.run([sys.executable, "-c", GIVEN_UP], check=True, timeout=60)


def test_no_puzzle_is_trained_and_validated_on():
    few = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
    options = ReasoningGym.Options(family_options={"chain_sum": few}, training_tasks=150, validation_tasks=40)
    made = ([f"{split}-{number}" for number in range(150 if split == "train" else 40)] for split in SPLITS)
    train, validation = ({source["entry"]["question"] for source in sources(options, *ids)} for ids in made)
    assert train
    assert validation
    assert not train & validation


def test_another_seed_gives_another_puzzle():
    first, second = (sources(ReasoningGym.Options(seed=seed), "train-0")[0]["entry"]["question"] for seed in (1, 2))
    assert first != second


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"families": ("chain_sums",)}, "no dataset 'chain_sums' in reasoning-gym; did you mean 'chain_sum'"),
        ({"family_options": {"chain_sum": {"min_term": 2}}}, "has no setting 'min_term'; did you mean 'min_terms'"),
        ({"family_options": {"chain_sum": {"min_terms": 9}}}, "dataset 'chain_sum' refuses its configuration"),
    ],
)
def test_what_cannot_be_made_is_refused(options, said):
    with pytest.raises(DataError, match=said):
        sources(ReasoningGym.Options(**options), "train-0")


def test_a_family_whose_puzzles_are_all_alike_is_refused():
    class Alike(Children):
        async def ask(self, **question: Any) -> Mapping[str, Any]:
            return {"problem": None} if "check" in question else {"entry": {"question": "1 + 1?"}}

    async def both() -> list[Any]:
        options = ReasoningGym.Options()
        asked = [find_source(f"{split}-0", options, Alike(DEADLINE_S)) for split in SPLITS]
        return await asyncio.gather(*asked, return_exceptions=True)

    refused = [one for one in asyncio.run(both()) if isinstance(one, DataError)]
    assert len(refused) == 1
    assert "has too few different puzzles for the split" in str(refused[0])


def test_it_is_served_within_the_limits_of_an_instance(serve):
    server = serve("--env", "reasoning_gym", "--memory-mb", 1024)
    begun = server.data("create", task_id="train-0", instance_id="a")
    (source,) = sources(ReasoningGym.Options(), "train-0")
    assert begun["state"][1]["content"] == source["entry"]["question"]
    action = {"role": "assistant", "content": source["entry"]["answer"]}
    assert server.data("step", instance_id="a", messages=action)["reward"] == 1.0
    server.post("release", instance_id="a")
    # The child that scores ends with its instance, a moment later.
    until(lambda: server.processes() == [])
