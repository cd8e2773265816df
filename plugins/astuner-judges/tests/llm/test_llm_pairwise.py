"""The judge `llm` compares siblings two by two, each pair in both orders."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from astuner.contract.schema import Unjudged, Verdict
from astuner_devkit.scripted_api import Reply
from astuner_judges.llm.options import LlmJudgeOptions
from astuner_judges.llm.pairs import choose_pairs
from astuner_judges.llm.pairwise import compare_works
from astuner_judges.llm.questions import Questions
from astuner_judges.llm.shapes import Compared
from astuner_judges.llm.strengths import fit_strengths

Says = Callable[[str, str], str]


def by_length(first: str, second: str) -> str:
    """A judge that is consistent."""
    return "tie" if len(first) == len(second) else "first" if len(first) > len(second) else "second"


def the_first(first: str, second: str) -> str:
    """A judge that goes by the position alone."""
    return "first"


def says(judge: Says) -> Callable[[str, str], Mapping[str, str]]:
    return lambda first, second: {"rationale": f"{first} or {second}", "winner": judge(first, second)}


def rewards(findings: Sequence[Any]) -> list[float]:
    return [finding.reward for finding in findings]


def test_a_reward_is_the_share_of_the_siblings_that_are_worse(bench: Any) -> None:
    bench.answer(says(by_length))
    assert rewards(bench("1", "1+1", "4444", "one", mode="pairwise")) == [0.0, 0.5, 1.0, 0.5]


def test_each_pair_is_asked_in_both_orders(bench: Any) -> None:
    seen: Counter[tuple[str, str]] = Counter()

    def judge(first: str, second: str) -> str:
        seen[first, second] += 1
        return "tie"

    bench.answer(says(judge))
    bench("1", "2", "3", mode="pairwise")
    assert seen == Counter({pair: 1 for a, b in combinations("123", 2) for pair in ((a, b), (b, a))})


def test_a_judge_that_goes_by_the_position_finds_ties_and_is_told_of(bench: Any) -> None:
    bench.answer(says(the_first))
    for finding in bench("1", "22", "333", mode="pairwise"):
        assert finding.reward == 0.5
        assert finding.components == {"win_rate": 0.5, "position_bias": 1.0}
        assert "undecided beside sibling" in finding.rationale
        assert "in the other:" in finding.rationale.lower()


def test_a_judge_that_is_partial_in_one_pair_is_told_of_there(bench: Any) -> None:
    bench.answer(says(lambda first, second: "first" if {first, second} == {"1", "22"} else by_length(first, second)))
    biases = [finding.components["position_bias"] for finding in bench("1", "22", "333", mode="pairwise")]
    assert biases == [0.5, 0.5, 0.0]


def test_the_rationale_names_the_siblings(bench: Any) -> None:
    bench.answer(says(by_length))
    (first, *_) = bench("1", "22", "22", mode="pairwise")
    assert first.rationale in ("worse than siblings 1, 2: 1 or 22", "worse than siblings 1, 2: 22 or 1")


def test_the_same_answer_is_a_tie_with_itself_and_is_not_asked_about(bench: Any) -> None:
    bench.answer(says(by_length))
    assert rewards(bench("22", "22", "1", mode="pairwise")) == [0.75, 0.75, 0.0]
    assert len(bench.api.bodies) == 2
    assert rewards(bench("22", "22", mode="pairwise")) == [0.5, 0.5]
    assert len(bench.api.bodies) == 2


def test_no_answer_loses_against_any_and_is_not_asked_about(bench: Any) -> None:
    bench.answer(says(by_length))
    assert rewards(bench(None, "1", "", "22", mode="pairwise")) == [1 / 6, 2 / 3, 1 / 6, 1.0]
    assert len(bench.api.bodies) == 2


def test_a_failed_sibling_is_not_compared(bench: Any) -> None:
    bench.answer(says(by_length))
    assert rewards(bench("1", RuntimeError(), "22", mode="pairwise")) == [0.0, 1.0]


def test_one_sibling_alone_is_explained(bench: Any) -> None:
    (finding,) = bench("1", RuntimeError(), mode="pairwise")
    assert isinstance(finding, Unjudged)
    assert finding.reason == "no_siblings"
    assert "mode: pairwise compares the completed episodes of a task, and there is one alone" in finding.detail
    assert "rollout.num_repeat" in finding.detail


def test_one_sibling_alone_gets_what_the_options_say(bench: Any) -> None:
    assert rewards(bench("1", mode="pairwise", lone_reward=0.25)) == [0.25]
    assert bench(mode="pairwise") == []


def test_what_cannot_be_compared_with_most_has_no_reward_and_the_others_keep_theirs(bench: Any) -> None:
    bench.answer(lambda first, second: Reply(500, {}) if "333" in (first, second) else says(by_length)(first, second))
    one, two, lost, four = bench("1", "22", "333", "4444", mode="pairwise")
    assert rewards([one, two, four]) == [0.0, 0.5, 1.0]
    assert isinstance(lost, Unjudged)
    assert lost.reason == "llm_failed"
    assert lost.detail.startswith("3 of 3 questions have no answer; the first: LLM ")


def test_a_comparison_that_a_text_may_have_prevented_takes_the_reward_of_both(bench: Any) -> None:
    bench.answer(lambda *works: "I will not quote it." if {*works} == {"1", "22"} else says(by_length)(*works))
    weak, strong, *rest = bench("1", "22", "333", "4444", "55555", mode="pairwise", attempts=1)
    assert [verdict.reason for verdict in (weak, strong)] == ["llm_no_verdict"] * 2
    assert rewards(rest) == [0.5, 0.75, 1.0]


def test_a_spent_budget_leaves_no_half_comparison(bench: Any) -> None:
    bench.answer(says(by_length))
    findings = bench("1", "22", mode="pairwise", llm={"max_requests": 1})
    assert [finding.reason for finding in findings] == ["llm_budget", "llm_budget"]


def test_votes_go_by_majority(bench: Any) -> None:
    def script(body: Mapping[str, Any], number: int) -> str:
        winner = "tie" if body["seed"] == 0 else by_length(*bench.shown()[number])
        return f'{{"winner": "{winner}"}}'

    bench.api.script = script
    worse, better = bench("1", "22", mode="pairwise", votes=3, llm={"temperature": 1.0})
    assert (worse.reward, better.reward) == (0.0, 1.0)
    assert better.components["agreement"] == pytest.approx(2 / 3)


def test_votes_that_are_even_are_a_tie(bench: Any) -> None:
    bench.api.script = lambda body, number: f'{{"winner": "{["first", "second"][body["seed"]]}"}}'
    assert rewards(bench("1", "22", mode="pairwise", votes=2, llm={"temperature": 1.0})) == [0.5, 0.5]


def test_with_a_bound_each_is_compared_with_so_many(bench: Any) -> None:
    bench.answer(says(by_length))
    works = ["4" * size for size in range(1, 9)]
    findings = bench(*works, mode="pairwise", pairs_per_episode=2)
    assert len(bench.api.bodies) == 16
    assert all(isinstance(finding, Verdict) for finding in findings)


def test_strengths_judge_works_that_met_different_siblings_by_one_measure(bench: Any) -> None:
    bench.answer(says(by_length))
    works = ["4" * size for size in range(1, 9)]
    found = rewards(bench(*works, mode="pairwise", pair_reward="bradley_terry"))
    assert found == sorted(found)
    assert 0 < found[0] < 0.2
    assert found[-1] == pytest.approx(1 - found[0])


def test_the_pairs_depend_on_the_seed_and_the_task_alone(bench: Any) -> None:
    bench.answer(says(by_length))

    def asked(judged_by: Any, **changes: Any) -> set[str]:
        before = len(bench.api.bodies)
        judged_by.by(judged_by.judge({"mode": "pairwise", "pairs_per_episode": 2}, **changes), *map(str, range(8)))
        return {prompt.split("The first work:")[1] for prompt in bench.api.prompts()[before:]}

    other_task = evolve(bench, task=evolve(bench.task, main_query="How much is 3 + 3?"))
    assert asked(bench) == asked(bench)
    assert asked(bench) != asked(bench, seed=8)
    assert asked(bench) != asked(other_task)


@given(st.sets(st.text(max_size=4), max_size=12), st.integers(1, 14), st.text(max_size=3))
def test_pairs_leave_nobody_short_and_none_is_twice(works: set[str], per_work: int, key: str) -> None:
    pairs = choose_pairs(works, key, per_work)
    times = Counter(work for pair in pairs for work in pair)
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    assert all(len(set(pair)) == 2 for pair in pairs)
    wanted = min(per_work, len(works) - 1)
    assert all(times[work] >= wanted for work in works)
    assert len(pairs) == max(0, (len(works) * wanted + 1) // 2)


class ByOpinion:
    """Stands for the LLM: answers a comparison at once."""

    def __init__(self, judge: Says) -> None:
        self.judge = judge

    async def collect_votes(self, messages: Any, shape: Any) -> list[Compared]:
        first, second = messages[1]["content"].split("\n\n\n")
        return [Compared(winner=self.judge(first, second))]  # type: ignore[arg-type]


def judged(works: Sequence[str | None], judge: Says, directory: Path, **options: Any) -> list[float]:
    (directory / "prompt.txt").write_text("{{first}}\n\n\n{{second}}")
    given_options = LlmJudgeOptions(mode="pairwise", prompt_file="prompt.txt", **options)
    questions, asker = Questions(given_options, directory, wanted_by="judge"), ByOpinion(judge)
    how: dict[str, Any] = {"questions": questions, "asker": asker, "options": given_options, "key": "k"}
    names = dict.fromkeys(works, "a sibling")
    return rewards(asyncio.run(compare_works(works, names, {"query": "", "reference": ""}, **how)))


OPTIONS = st.fixed_dictionaries(
    {"pair_reward": st.sampled_from(["win_rate", "bradley_terry"]), "pairs_per_episode": st.sampled_from([None, 1, 2, 3])}
)
WORKS = st.lists(st.none() | st.text("abc", min_size=1, max_size=5), min_size=2, max_size=9)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), works=WORKS, options=OPTIONS)
def test_rewards_go_with_the_siblings_wherever_they_stand(
    data: st.DataObject, works: list[str | None], options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.getbasetemp()
    order = data.draw(st.permutations(range(len(works))))
    expected = judged(works, by_length, directory, **options)
    assert judged([works[place] for place in order], by_length, directory, **options) == [expected[place] for place in order]


@settings(max_examples=60, deadline=None)
@given(works=WORKS, pair_reward=st.sampled_from(["win_rate", "bradley_terry"]))
def test_the_order_of_a_consistent_judge_is_found(
    works: list[str | None], pair_reward: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = judged(works, by_length, tmp_path_factory.getbasetemp(), pair_reward=pair_reward)
    for (one, mine), (other, others) in combinations(zip(works, found, strict=True), 2):
        size, another = len(one or ""), len(other or "")
        assert (mine > others, mine < others) == (size > another, size < another) or mine == pytest.approx(others)
        if size != another:
            assert mine != pytest.approx(others)


@settings(max_examples=40, deadline=None)
@given(works=st.sets(st.text("abc", min_size=1, max_size=5), min_size=2, max_size=9), options=OPTIONS)
def test_a_judge_of_positions_gives_all_the_same(
    works: set[str], options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = judged(sorted(works), the_first, tmp_path_factory.getbasetemp(), **options)
    assert found == pytest.approx([0.5] * len(works))


@settings(max_examples=60, deadline=None)
@given(works=WORKS, options=OPTIONS)
def test_rewards_are_from_0_to_1(
    works: list[str | None], options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = judged(works, by_length, tmp_path_factory.getbasetemp(), **options)
    assert all(0 <= reward <= 1 for reward in found)
    if options["pairs_per_episode"] is None:
        assert sum(found) == pytest.approx(len(works) / 2)


def test_who_won_more_is_stronger_and_who_met_nobody_is_of_strength_1() -> None:
    fitted = fit_strengths(["a", "b", "c", "d"], {("a", "b"): 0.0, ("b", "c"): 0.0})
    assert fitted["a"] < fitted["b"] < fitted["c"]
    assert fitted["b"] == pytest.approx(1.0) == fitted["d"]


def test_strengths_satisfy_the_equation_of_the_likelihood() -> None:
    shares = {("a", "b"): 0.2, ("b", "c"): 0.5, ("a", "c"): 0.0, ("c", "d"): 1.0}
    found = fit_strengths("abcd", shares)
    for player in "abcd":
        won = 0.5 + sum(share if player == one else 1 - share for (one, other), share in shares.items() if player in (one, other))
        expected = found[player] / (found[player] + 1) + sum(
            found[player] / (found[one] + found[other]) for one, other in shares if player in (one, other)
        )
        assert expected == pytest.approx(won)
