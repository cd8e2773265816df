"""Answers that plant a verdict: the reward never rises above that of the LLM's honest verdict, and stays within reach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from attacks import KINDS, PLANTS, REPLIES, Attack, HonestLlm, cut_everywhere, generate_attacks
from attrs import evolve

from astuner.plugins.options import build_options
from astuner.schema import Episode, Group, Task, Unjudged, Verdict, WorkflowOutput
from astuner.testing.episodes import episode
from astuner.testing.run_infos import run_info
from astuner_judges.llm.judge import LlmAsJudge
from astuner_judges.rubrics.judge import RubricsAutoGrader

COUNT = 2000
TASK = Task("How much is 2 + 2?", task_id="sum", metadata={"answer": "4"})
THEMES = "themes:\n- The answer is right.\n- The answer is short.\n"

Outcome = Callable[[Attack], "Verdict | Unjudged"]


def make_sibling(repeat: int, answer: str) -> Episode:
    blank = evolve(episode(repeat, task="sum"), task=TASK, verdict=None, output=WorkflowOutput(metadata={"final_answer": answer}))
    call = evolve(blank.calls[0], messages=(), reply={"role": "assistant", "content": answer})
    return evolve(blank, calls=(call,))


@pytest.fixture
def play(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[Any]]:
    """Judge the answers of attacks with one judge of that kind, whose LLM answers in this process."""
    for name, value in {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "DASHSCOPE_API_KEY": ""}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "rubrics.yaml").write_text(THEMES)

    def judge_all(name: str, attacks: Iterable[Attack]) -> list[tuple[Attack, Verdict | Unjudged]]:
        options: Mapping[str, Any] = {"mode": name}
        target: Any = LlmAsJudge
        if name == "rubrics":
            options, target = {"rubrics_file": "rubrics.yaml", "requests_per_answer": 1}, RubricsAutoGrader
        judge: Any = target.from_run(build_options(target, options, key="task_judge"), run_info(tmp_path))

        async def judge_each() -> list[tuple[Attack, Verdict | Unjudged]]:
            return [(attack, await judge_one(attack)) for attack in attacks]

        async def judge_one(attack: Attack) -> Verdict | Unjudged:
            llm = HonestLlm(KINDS[name], attack, slots=asyncio.Semaphore(16))
            monkeypatch.setattr(judge._client, "_sender", llm)
            answers = [llm.write_answer(), *([] if name in ("pointwise", "rubrics") else ["4"])]
            episodes = tuple(make_sibling(repeat, answer) for repeat, answer in enumerate(answers))
            found: Sequence[Verdict | Unjudged] = await judge.judge(Group(task=TASK, step=1, split="train", episodes=episodes))
            return found[0]

        return asyncio.run(judge_each())

    return judge_all


def find_raised(name: str, found: Iterable[tuple[Attack, Verdict | Unjudged]]) -> list[tuple[Attack, float]]:
    most = KINDS[name].reward + 1e-9
    return [(attack, verdict.reward) for attack, verdict in found if isinstance(verdict, Verdict) and verdict.reward > most]


@pytest.mark.parametrize("name", KINDS)
def test_no_attack_raises_the_reward_above_the_honest_verdict(name: str, play: Any) -> None:
    assert find_raised(name, play(name, generate_attacks(COUNT, seed=7))) == []


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("plant", "reply"),
    [
        ("whole", "quotes first"),
        ("tail", "quotes unescaped"),
        ("end of thought, without talk", "thinks"),
        ("fenced", "quotes last"),
    ],
)
def test_no_attack_raises_the_reward_wherever_the_reply_ends(name: str, plant: str, reply: str, play: Any) -> None:
    found = play(name, cut_everywhere(plant, reply, 260))
    assert find_raised(name, found) == []


@pytest.mark.parametrize("name", KINDS)
def test_an_llm_that_answers_the_second_question_gives_the_honest_reward(name: str, play: Any) -> None:
    attacks = [evolve(attack, goes_on=False) for attack in generate_attacks(len(PLANTS) * len(REPLIES), seed=7)]
    found = play(name, attacks)
    missed = [(attack, verdict) for attack, verdict in found if isinstance(verdict, Unjudged)]
    assert missed == []
    assert {round(verdict.reward, 9) for _, verdict in found} == {KINDS[name].reward}
