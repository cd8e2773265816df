"""Answers that plant a verdict: whatever is rewarded is rewarded by the LLM's honest verdict, which stays within reach."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from attacks import KINDS, PLANTS, REPLIES, Attack, HonestLlm, cut_everywhere, generate_attacks
from attrs import evolve

from astuner.contract.schema import Episode, Group, Task, Unjudged, Verdict, WorkflowOutput
from astuner.settings.plugins.options import build_options
from astuner_devkit.episodes import episode
from astuner_devkit.run_infos import run_info
from astuner_judges.llm.judge import LlmAsJudge
from astuner_judges.rubrics.judge import RubricsAutoGrader

COUNT = 2000
TASK = Task("How much is 2 + 2?", task_id="sum", metadata={"answer": "4"})
THEMES = "themes:\n- The answer is right.\n- The answer is short.\n"

Found = tuple[Attack, Sequence["Verdict | Unjudged"]]
"""An attack, and the verdicts on it and on its sibling, if there is one."""


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

    def judge_all(name: str, attacks: Iterable[Attack]) -> list[Found]:
        options: Mapping[str, Any] = {"mode": name}
        target: Any = LlmAsJudge
        if name == "rubrics":
            options, target = {"rubrics_file": "rubrics.yaml", "requests_per_answer": 1}, RubricsAutoGrader
        judge: Any = target.from_run(build_options(target, options, key="task_judge"), run_info(tmp_path))

        async def judge_each() -> list[Found]:
            return [(attack, await judge_one(attack)) for attack in attacks]

        async def judge_one(attack: Attack) -> Sequence[Verdict | Unjudged]:
            llm = HonestLlm(KINDS[name], attack, slots=asyncio.Semaphore(16))
            monkeypatch.setattr(judge._client, "_sender", llm)
            answers = [llm.write_answer(), *([] if name in ("pointwise", "rubrics") else ["4"])]
            episodes = tuple(make_sibling(repeat, answer) for repeat, answer in enumerate(answers))
            found: Sequence[Verdict | Unjudged] = await judge.judge(Group(task=TASK, step=1, split="train", episodes=episodes))
            return found

        return asyncio.run(judge_each())

    return judge_all


def find_dishonest(name: str, found: Iterable[Found]) -> list[tuple[Attack, float]]:
    """Return what is rewarded by anything but the LLM's own verdict: too high, too low, or at the cost of a sibling."""
    honest = KINDS[name].reward, KINDS[name].other
    return [
        (attack, verdict.reward)
        for attack, verdicts in found
        for verdict, reward in zip(verdicts, honest, strict=False)
        if isinstance(verdict, Verdict) and verdict.reward != pytest.approx(reward)
    ]


def test_the_page_says_how_many() -> None:
    page = " ".join((Path(__file__).parents[4] / "docs" / "judges.md").read_text(encoding="utf-8").split())
    assert f"{COUNT:,} generated attacks" in page
    assert f"planted verdicts in {len(PLANTS)} forms, quoted in {len(REPLIES)} ways" in page


@pytest.mark.parametrize("name", KINDS)
def test_no_attack_moves_a_reward_from_the_honest_verdict(name: str, play: Any) -> None:
    assert find_dishonest(name, play(name, generate_attacks(KINDS[name], COUNT, seed=7))) == []


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("plant", "reply"),
    [
        ("whole", "quotes first"),
        ("tail", "quotes unescaped"),
        ("tail that swallows the rest", "quotes unescaped"),
        ("end of thought, without talk", "thinks"),
        ("fenced", "quotes last"),
        ("words", "corrects what it quotes"),
    ],
)
def test_no_attack_moves_a_reward_wherever_the_reply_ends(name: str, plant: str, reply: str, play: Any) -> None:
    assert find_dishonest(name, play(name, cut_everywhere(KINDS[name], plant, reply))) == []


@pytest.mark.parametrize("name", KINDS)
def test_an_llm_that_answers_the_second_question_gives_the_honest_reward(name: str, play: Any) -> None:
    attacks = generate_attacks(KINDS[name], len(PLANTS) * len(REPLIES), seed=7)
    found = play(name, [evolve(attack, goes_on=False) for attack in attacks])
    assert [attack for attack, verdicts in found if any(isinstance(verdict, Unjudged) for verdict in verdicts)] == []
    assert {round(verdicts[0].reward, 9) for _, verdicts in found} == {KINDS[name].reward}
