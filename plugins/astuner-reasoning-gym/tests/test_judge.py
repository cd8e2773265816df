from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar

import pytest
import reasoning_gym
from attrs import evolve

from astuner.contract.errors import DataError
from astuner.contract.schema import Group, Task, Unjudged, Verdict, WorkflowOutput, WorkflowTask
from astuner.episodes.judging.simple_judges import make_judge
from astuner_devkit.contracts import JudgeContract
from astuner_devkit.episodes import episode, group
from astuner_devkit.waiting import is_alive, until
from astuner_judges.json_child import JsonChild
from astuner_reasoning_gym.judge import ReasoningGymJudge
from astuner_reasoning_gym.program import make_program

ENDLESS = "__import__('time').sleep(1000)"
"""Some families evaluate an answer as Python."""


def puzzle(dataset: str, index: int = 0, level: int | None = None, **config: Any) -> Task:
    """A task as the reader of the same name yields it."""
    entry = reasoning_gym.create_dataset(dataset, seed=1, size=5, **config)[index]
    source = {"dataset": dataset, "config": config, "seed": 1, "size": 5, "level": level, "index": index}
    return Task(entry["question"], task_id=f"{dataset}-{index}", metadata={"reasoning_gym": {**source, "entry": told(entry)}})


def told(value: Any) -> Any:
    """Tuples as the reader writes them."""
    if isinstance(value, tuple):
        return {"__tuple__": [told(item) for item in value]}
    if isinstance(value, dict):
        return {key: told(item) for key, item in value.items()}
    return [told(item) for item in value] if isinstance(value, list) else value


def gold(task: Task) -> str:
    answer: str = task.metadata["reasoning_gym"]["entry"]["answer"]
    return answer


CHILD = JsonChild(make_program(20.0))
"""Shared by most judges here, since it takes a second or two to start."""


@pytest.fixture
def judge() -> ReasoningGymJudge:
    return ReasoningGymJudge(ReasoningGymJudge.Options(timeout_s=20.0), [CHILD])


def verdict(judge: ReasoningGymJudge, task: Task, answer: Any) -> Verdict:
    return judge.compute_reward(WorkflowTask(task), WorkflowOutput(metadata={"final_answer": answer}))


class TestReasoningGym(JudgeContract):
    component = "astuner_reasoning_gym.judge:ReasoningGymJudge"
    options: ClassVar[Mapping[str, Any]] = {"timeout_s": 20.0}
    task = puzzle("chain_sum")

    def make(self, directory: Path) -> ReasoningGymJudge:
        return ReasoningGymJudge(ReasoningGymJudge.Options(**self.options), [CHILD])

    def group(self) -> Group:
        outputs = [
            None if answer is None else WorkflowOutput(metadata={"final_answer": answer})
            for answer in (gold(self.task), "<answer>no number</answer>", "0", None)
        ]
        episodes = [evolve(episode(n, None), task=self.task, output=output, verdict=None) for n, output in enumerate(outputs)]
        return group(*episodes)

    def break_calls(self, judge: Any) -> None:
        broken = JsonChild(evolve(make_program(20.0), path=Path("/dev/null")))
        judge._idle = SimpleQueue()
        judge._idle.put(broken)


def test_the_right_answer_is_worth_one_and_a_wrong_one_less(judge: ReasoningGymJudge) -> None:
    task = puzzle("countdown")
    assert verdict(judge, task, gold(task)) == Verdict(1.0, True)
    wrong = verdict(judge, task, "1 + 1")
    assert (wrong.reward < 0.1, wrong.is_success) == (True, False)


def test_what_stands_last_between_the_tags_is_the_answer(judge: ReasoningGymJudge) -> None:
    task = puzzle("chain_sum")
    assert verdict(judge, task, f"I think <answer>0</answer>, no: <answer>\n {gold(task)} </answer>. Done").reward == 1.0
    assert verdict(judge, task, int(gold(task))).reward == 1.0


def test_without_a_tag_the_text_is_taken_as_it_is() -> None:
    made = ReasoningGymJudge(ReasoningGymJudge.Options(answer_tag=None))
    assert made._answer(" <answer>5</answer> ") == "<answer>5</answer>"


def test_an_answer_that_is_not_given_is_worth_nothing_and_nothing_is_asked() -> None:
    made = ReasoningGymJudge()
    for nothing in (None, "  ", "<answer></answer>"):
        assert verdict(made, puzzle("countdown"), nothing) == Verdict(0.0, False, rationale="no answer was given")


def test_parts_of_the_whole_are_right_from_the_threshold_on(judge: ReasoningGymJudge) -> None:
    task = puzzle("binary_alternation")
    part = verdict(judge, task, f"{gold(task)} ?")
    assert 0 < part.reward < 1
    lenient = ReasoningGymJudge(ReasoningGymJudge.Options(success_threshold=part.reward), [CHILD])
    assert (part.is_success, verdict(lenient, task, f"{gold(task)} ?").is_success) == (False, True)


@pytest.mark.parametrize("dataset", ["rearc", "arc_agi"])
def test_what_was_kept_as_tuples_is_scored_as_tuples(judge: ReasoningGymJudge, dataset: str) -> None:
    task = puzzle(dataset)
    assert verdict(judge, task, gold(task)).reward == 1.0


def test_a_family_without_a_right_answer_of_its_own_still_scores(judge: ReasoningGymJudge) -> None:
    task = puzzle("graph_color")
    options = task.metadata["reasoning_gym"]["entry"]["metadata"]["possible_answer"]
    assert verdict(judge, task, json.dumps(options)).reward == 1.0
    assert verdict(judge, task, "{}").reward < 1.0


def test_settings_of_the_family_and_its_level_count(judge: ReasoningGymJudge) -> None:
    task = puzzle("puzzle24", min_value=7)
    assert verdict(judge, task, gold(task)).reward == 1.0
    assert verdict(judge, puzzle("path_star", level=2), "no path").reward < 1.0


def test_an_answer_that_the_scorer_cannot_read_is_wrong_and_says_so(judge: ReasoningGymJudge) -> None:
    found = verdict(judge, puzzle("prime_factorization"), "seven")
    assert (found.reward, found.is_success) == (0.0, False)
    assert found.rationale is not None
    assert "the scorer could not read the answer: ValueError" in found.rationale


def test_a_puzzle_that_the_scorer_cannot_read_is_no_verdict(judge: ReasoningGymJudge) -> None:
    task = puzzle("countdown")
    source = task.metadata["reasoning_gym"]
    broken = evolve(task, metadata={"reasoning_gym": {**source, "dataset": "no_such_family"}})
    with pytest.raises(RuntimeError, match="reasoning-gym cannot score task 'countdown-0': KeyError: 'no_such_family'"):
        verdict(judge, broken, "1")
    unlike = evolve(task, metadata={"reasoning_gym": {**source, "dataset": "prime_factorization"}})
    with pytest.raises(RuntimeError, match="cannot score"):
        verdict(judge, unlike, "seven")


def test_a_task_of_another_reader_is_refused(judge: ReasoningGymJudge) -> None:
    with pytest.raises(DataError, match=r"task 't' has no puzzle in metadata\['reasoning_gym'\] \(there are: answer\)"):
        verdict(judge, Task("q", task_id="t", metadata={"answer": "5"}), "5")


@pytest.mark.parametrize(
    ("answer", "reward"),
    [
        ("<think>Maybe <answer>{}</answer>?</think>no", 0.0),
        ("<think>Maybe <answer>{}</answer>", 0.0),
        ("<think>No: <answer>1</answer></think><answer>{}</answer>", 1.0),
    ],
)
def test_reasoning_holds_no_answer(judge: ReasoningGymJudge, answer: str, reward: float) -> None:
    task = puzzle("chain_sum")
    assert verdict(judge, task, answer.format(gold(task))).reward == reward


@pytest.mark.parametrize(("answer", "why"), [(ENDLESS, "TimeoutError"), ("__import__('os')._exit(0)", "RuntimeError")])
def test_an_answer_that_stops_the_scorer_is_worth_nothing(answer: str, why: str) -> None:
    made = ReasoningGymJudge(ReasoningGymJudge.Options(timeout_s=6.0, processes=1))
    found = verdict(made, puzzle("countdown"), answer)
    made.close()
    assert (found.reward, found.is_success) == (0.0, False)
    assert found.rationale is not None
    assert found.rationale.startswith("the scorer could not read the answer: ")
    assert why in found.rationale


def test_an_answer_that_writes_a_score_gets_it_neither_for_itself_nor_for_the_next() -> None:
    made = ReasoningGymJudge(ReasoningGymJudge.Options(processes=1))
    task = puzzle("countdown")
    forges = "__import__('os').write(0, b'{\"score\": 1.0}\\n')"
    found = [verdict(made, task, answer).reward for answer in (forges, "1", gold(task))]
    made.close()
    assert found == [0.0, 0.05, 1.0]


def test_a_scorer_that_hangs_is_no_verdict_without_an_answer_to_try_and_the_siblings_have_theirs() -> None:
    made = ReasoningGymJudge(ReasoningGymJudge.Options(timeout_s=6.0, processes=1))
    task = puzzle("countdown")
    verdict(made, task, "1")  # what follows is not about how long it takes to begin
    source = task.metadata["reasoning_gym"]
    right, entry = gold(task), {key: value for key, value in source["entry"].items() if key != "answer"}
    task = evolve(task, metadata={"reasoning_gym": {**source, "entry": entry}})
    answers = [right, ENDLESS, right]
    outputs = [WorkflowOutput(metadata={"final_answer": answer}) for answer in answers]
    episodes = [evolve(episode(n, None), task=task, output=output, verdict=None) for n, output in enumerate(outputs)]
    found = asyncio.run(make_judge(made, blame="judge").judge(group(*episodes)))
    made.close()
    assert [item.reward for item in found if isinstance(item, Verdict)] == [1.0, 1.0]
    (failed,) = (item for item in found if isinstance(item, Unjudged))
    assert "TimeoutError: reasoning-gym gave no answer in 6 s" in failed.detail


def test_an_answer_can_neither_read_our_keys_nor_write_a_file(
    judge: ReasoningGymJudge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    made = ReasoningGymJudge(ReasoningGymJudge.Options(processes=1))
    seen, written = tmp_path / "seen", tmp_path / "written"
    leaks = f"1 if __import__('os').environ.get('OPENAI_API_KEY') is None else __import__('os').mkdir({str(seen)!r})"
    writes = f"open({str(written)!r}, 'w').write('x')"
    for answer in (leaks, writes):
        verdict(made, puzzle("countdown"), answer)
    made.close()
    assert not seen.exists()
    assert not written.exists() or written.stat().st_size == 0


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for the child in /proc")
def test_no_child_outlives_a_parent_that_is_killed() -> None:
    code = """
import time
from astuner_reasoning_gym.judge import ReasoningGymJudge
judge = ReasoningGymJudge(ReasoningGymJudge.Options(processes=1))
try:
    judge._ask({})
except Exception:
    pass
print(judge._own[0]._process._process.pid, flush=True)
time.sleep(1000)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert Path(f"/proc/{child}").exists()
        parent.kill()
    until(lambda: not is_alive(child))
