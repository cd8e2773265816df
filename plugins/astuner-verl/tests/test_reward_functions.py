"""verl's own reward functions are judges as they are."""

from __future__ import annotations

import asyncio
from importlib import import_module

import pytest
from attrs import evolve

from astuner.contract.schema import Task, Verdict
from astuner.episodes.judging.simple_judges import make_judge
from astuner_devkit.episodes import episode, group

ROW = {"data_source": "openai/gsm8k", "reward_model": {"style": "rule", "ground_truth": "4"}, "extra_info": {"index": 7}}


@pytest.mark.parametrize(
    ("module", "name", "right", "wrong"),
    [
        ("verl.utils.reward_score.gsm8k", "compute_score", "It is #### 4", "It is #### 5"),
        ("verl.utils.reward_score.math_dapo", "compute_score", "Answer: 4", "Answer: 5"),
        ("verl.utils.reward_score", "default_compute_score", "It is #### 4", "four"),
    ],
)
def test_a_function_of_verl_tells_right_from_wrong(module: str, name: str, right: str, wrong: str) -> None:
    pytest.importorskip("verl.utils.reward_score")
    judge = make_judge(getattr(import_module(module), name))
    task = Task("2 + 2?", metadata=ROW)
    rewards = []
    for reply in (right, wrong):
        blank = episode(0, None)
        calls = (evolve(blank.calls[0], reply={"role": "assistant", "content": reply}),)
        (found,) = asyncio.run(judge.judge(group(evolve(blank, task=task, calls=calls, verdict=None))))
        assert isinstance(found, Verdict)
        rewards.append(found.reward)
    assert rewards[0] > rewards[1]
