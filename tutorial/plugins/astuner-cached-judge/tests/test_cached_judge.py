"""Verdicts are kept for what they depend on, failures never, and no judge is asked more than it must be."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pytest
from attrs import evolve, frozen

from astuner import Judge, Verdict, WorkflowOutput
from astuner.contract.protocols import Candidate
from astuner.contract.schema import Episode, Failure, Group, Unjudged
from astuner_cached_judge.extension import CachedJudgeHooks
from astuner_cached_judge.judge import CachedJudge
from astuner_cached_judge.keys import group_key, judge_key
from astuner_cached_judge.store import VerdictStore
from astuner_devkit import episode, group, run_info
from astuner_devkit.contracts import HooksContract, PackageContract


class TestCachedJudgeHooks(HooksContract):
    component = CachedJudgeHooks
    options: ClassVar = {"path": "verdicts.sqlite", "pointwise": ["strict"]}


class TestPackage(PackageContract):
    distribution = "astuner-cached-judge"


class Counting(Judge):
    """Rewards the length of an answer; what is asked for is written down."""

    def __init__(self, answer: Callable[[Episode], Verdict | Unjudged] | None = None) -> None:
        self.asked: list[list[str]] = []
        self.environments: list[Any] = []
        self.closed = False
        self._answer = answer or (
            lambda one: Verdict(float(len(said(one))), True, rewards={"a": 0.5}, components={"x": 0.1}, rationale="ü")
        )

    async def observe(self, episode: Episode, environment: Any) -> Mapping[str, Any]:
        self.environments.append(environment)
        return {"seen": 1}

    async def close(self) -> None:
        self.closed = True

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        self.asked.append([said(one) for one in group.episodes if one.completed])
        await asyncio.sleep(0)
        return [self._answer(one) for one in group.episodes if one.completed]


def said(one: Episode) -> str:
    assert one.output is not None
    return one.output.metadata["final_answer"]


def answered(*answers: str, task: str = "t", **changes: Any) -> Group:
    blank = [evolve(episode(repeat, task=task), verdict=None, **changes) for repeat in range(len(answers))]
    return group(*(evolve(b, output=WorkflowOutput(metadata={"final_answer": a})) for b, a in zip(blank, answers, strict=True)))


def failed(one: Episode, reason: str) -> Episode:
    return evolve(one, output=None, samples=(), failures=(Failure(reason=reason),))


@pytest.fixture
def store(tmp_path: Path) -> VerdictStore:
    return VerdictStore(tmp_path / "verdicts.sqlite")


@pytest.fixture
def complaints() -> list[str]:
    return []


@pytest.fixture
def cached(store: VerdictStore, complaints: list[str]) -> Callable[..., CachedJudge]:
    def make(inner: Judge, *, pointwise: bool = False, key: str = "k") -> CachedJudge:
        return CachedJudge(inner, name="strict", key=key, store=store, run="r", pointwise=pointwise, say=complaints.append)

    return make


def test_the_same_group_is_judged_once_and_its_verdicts_come_back_whole(cached: Any) -> None:
    judge = Counting()
    first = asyncio.run(cached(judge).judge(answered("4", "five")))
    again = asyncio.run(cached(judge).judge(answered("4", "five")))
    assert again == first
    assert judge.asked == [["4", "five"]]


@pytest.mark.parametrize(
    "other",
    [
        answered("4", "six"),
        answered("five", "4"),
        answered("4"),
        answered("4", "five", "4"),
        answered("4", "five", task="another"),
        answered("4", "five", observations={"door": "open"}),
        answered("4", "five", calls=()),
    ],
    ids=["answer", "order", "fewer", "more", "task", "observations", "calls"],
)
def test_a_group_that_differs_in_what_a_judge_may_see_is_judged_anew(cached: Any, other: Group) -> None:
    judge = Counting()
    asyncio.run(cached(judge).judge(answered("4", "five")))
    asyncio.run(cached(judge).judge(other))
    assert len(judge.asked) == 2


def test_step_and_duration_make_no_difference(cached: Any) -> None:
    judge = Counting()
    asyncio.run(cached(judge).judge(answered("4", duration_s=1.0, step=1)))
    asyncio.run(cached(judge).judge(answered("4", duration_s=2.0, step=9)))
    assert len(judge.asked) == 1


def test_how_a_sibling_failed_counts_for_a_group() -> None:
    whole = answered("4", "5")
    keys = [
        group_key("k", evolve(whole, episodes=(whole.episodes[0], failed(whole.episodes[1], why))))
        for why in ("timeout", "no_calls")
    ]
    assert len({*keys, group_key("k", whole)}) == 3


def test_a_pointwise_judge_is_asked_only_for_what_is_new_and_once_for_what_is_alike(cached: Any) -> None:
    judge = Counting()
    asyncio.run(cached(judge, pointwise=True).judge(answered("4")))
    found = asyncio.run(cached(judge, pointwise=True).judge(answered("five", "4", "five")))
    assert [verdict.reward for verdict in found] == [4.0, 1.0, 4.0]
    assert judge.asked == [["4"], ["five"]]


def test_failed_siblings_get_no_finding_of_a_pointwise_judge(cached: Any) -> None:
    whole = answered("4", "5")
    some = evolve(whole, episodes=(failed(whole.episodes[0], "timeout"), whole.episodes[1]))
    assert len(asyncio.run(cached(Counting(), pointwise=True).judge(some))) == 1


@pytest.mark.parametrize("pointwise", [False, True])
def test_an_unjudged_episode_is_asked_again(cached: Any, pointwise: bool) -> None:
    judge = Counting(lambda one: Unjudged(reason="judge_error"))
    for _ in range(2):
        assert asyncio.run(cached(judge, pointwise=pointwise).judge(answered("4"))) == [Unjudged(reason="judge_error")]
    assert len(judge.asked) == 2


def test_beside_an_unjudged_sibling_a_pointwise_verdict_is_kept_and_a_relative_one_is_not(cached: Any) -> None:
    def answer(one: Episode) -> Verdict | Unjudged:
        return Verdict(1.0) if said(one) == "4" else Unjudged(reason="judge_error")

    alone, relative = Counting(answer), Counting(answer)
    for _ in range(2):
        asyncio.run(cached(alone, pointwise=True).judge(answered("4", "5")))
        asyncio.run(cached(relative, key="other").judge(answered("4", "5")))
    assert alone.asked == [["4", "5"], ["5"]]
    assert relative.asked == [["4", "5"], ["4", "5"]]


@pytest.mark.parametrize("pointwise", [False, True])
def test_what_a_judge_raises_passes_through_and_is_not_kept(cached: Any, pointwise: bool) -> None:
    def answer(one: Episode) -> Verdict:
        raise RuntimeError("no answer")

    judge = Counting(answer)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no answer"):
            asyncio.run(cached(judge, pointwise=pointwise).judge(answered("4")))
    assert len(judge.asked) == 2


def test_a_wrong_number_of_verdicts_is_not_kept(cached: Any, store: VerdictStore) -> None:
    class Short(Counting):
        async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
            return (await super().judge(group))[1:]

    judge = Short()
    for _ in range(2):
        asyncio.run(cached(judge).judge(answered("4", "5")))
    assert len(judge.asked) == 2


def test_a_verdict_that_json_cannot_hold_is_passed_on_and_not_kept(cached: Any) -> None:
    judge = Counting(lambda one: Verdict(float("nan")))
    for _ in range(2):
        asyncio.run(cached(judge).judge(answered("4")))
    assert len(judge.asked) == 2


def test_the_environment_reaches_the_inner_judge(cached: Any) -> None:
    judge, world = Counting(), object()
    assert asyncio.run(cached(judge).observe(episode(), world)) == {"seen": 1}
    assert judge.environments == [world]


def test_the_inner_judge_is_closed(cached: Any) -> None:
    judge = Counting()
    asyncio.run(cached(judge).close())
    assert judge.closed


def test_many_groups_at_once_are_each_answered_for_themselves(cached: Any) -> None:
    judge = cached(Counting())

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(judge.judge(answered("x" * (1 + n % 5))) for n in range(40)))

    assert [found[0].reward for found in asyncio.run(all_at_once())] == [float(1 + n % 5) for n in range(40)]


WRITER = """
import sys
from pathlib import Path
from astuner import Verdict
from astuner_cached_judge.store import VerdictStore
store = VerdictStore(Path(sys.argv[1]))
for n in range(50):
    store.add({f"{n}": [Verdict(float(n))]})
    store.count("r", "strict", found=0, asked=1)
"""


def test_several_processes_share_a_file(store: VerdictStore, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "verdicts.sqlite")]
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda _: subprocess.run(command, check=False, timeout=120).returncode, range(4)))
    assert ended == [0, 0, 0, 0]
    assert store.find(["7", "49", "50"]) == {"7": [Verdict(7.0)], "49": [Verdict(49.0)]}
    assert store.counts("r")[0].asked == 200


def test_a_store_that_breaks_costs_no_verdict_and_is_told(cached: Any, complaints: list[str], tmp_path: Path) -> None:
    judge = cached(Counting())
    (tmp_path / "verdicts.sqlite").write_text("this is no database any more, whatever it was before")
    assert [found.reward for found in asyncio.run(judge.judge(answered("five")))] == [4.0]
    assert "file is not a database" in complaints[0]


@frozen(kw_only=True)
class Options:
    field: str = "answer"


def test_a_judge_is_another_one_with_another_version_or_option_or_text(tmp_path: Path) -> None:
    file = tmp_path / "judge.py"
    file.write_text("one")
    strict = Candidate(kind="judge", name="strict", target=f"{file}:Strict", dist="acme", version="1.0")
    keys = {judge_key(strict, Options()), judge_key(evolve(strict, version="1.1"), Options())}
    keys |= {judge_key(strict, Options(field="solution")), judge_key(evolve(strict, dist="bolt"), Options())}
    file.write_text("two")
    keys.add(judge_key(strict, Options()))
    assert len(keys) == 5


def test_a_judge_is_the_same_one_in_another_process() -> None:
    code = (
        "from astuner.contract.protocols import Candidate as C; from astuner_cached_judge.keys import judge_key as k;"
        "print(k(C(kind='judge', name='n', target='astuner_devkit.judges:ExactAnswer'), None))"
    )
    made = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert len(made) == 1


def wrapped(hooks: Any, options: CachedJudgeHooks.Options, directory: Path) -> Judge:
    info = run_info(directory)
    strict = Candidate(kind="judge", name="strict", target="astuner_devkit.judges:ExactAnswer", dist="acme")
    return hooks(CachedJudgeHooks(options)).make_judge(strict, None, info)


@pytest.mark.parametrize(
    ("options", "keeps"),
    [
        ({}, False),
        ({"path": "v.sqlite"}, True),
        ({"path": "v.sqlite", "judges": ("strict",)}, True),
        ({"path": "v.sqlite", "judges": ("acme/strict",)}, True),
        ({"path": "v.sqlite", "judges": ("other",)}, False),
    ],
)
def test_only_chosen_judges_are_wrapped_and_none_without_a_path(
    hooks: Any, tmp_path: Path, options: dict[str, Any], keeps: bool
) -> None:
    judge = wrapped(hooks, CachedJudgeHooks.Options(**options), tmp_path)
    assert isinstance(judge, CachedJudge) is keeps
