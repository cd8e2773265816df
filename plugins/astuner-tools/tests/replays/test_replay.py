"""A replay scores every stored episode as a run does, says what changed, and leaves the run as it was."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astuner.contract.errors import ConfigError, Interrupted, UsageError
from astuner.contract.schema import Episode, Failure, Finding, Unjudged, Verdict, WorkflowOutput
from astuner.runs.inspection.run import Run
from astuner_devkit.episodes import episode

Replay = Callable[..., Any]


def fail(one: Episode, reason: str = "timeout") -> Episode:
    return evolve(one, output=None, verdict=None, samples=(), failures=(Failure(reason=reason, detail="too slow"),))


def answer(one: Episode, text: str, verdict: Verdict | Unjudged | None = None) -> Episode:
    return evolve(one, output=WorkflowOutput(metadata={"final_answer": text}), verdict=verdict or one.verdict)


def write_judge(directory: Path, *rewards: float) -> str:
    """A judge that gives the siblings these rewards."""
    file = directory / f"judge{len(list(directory.glob('judge*.py')))}.py"
    file.write_text(
        f"REWARDS = {list(rewards)}\n\n\nclass Judge:\n"
        "    def compute_reward(self, workflow_task, workflow_output):\n"
        "        reward = REWARDS[workflow_task.repeat]\n        return reward, reward > 0.5\n"
    )
    return f"./{file.name}:Judge"


def digest(path: Path) -> dict[str, str]:
    files = [one for one in sorted(path.rglob("*")) if one.is_file() and "replays" not in one.parts]
    return {str(one): hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


def test_the_judge_of_the_run_gives_the_same_rewards_and_advantages(run: Callable[..., Any], tmp_path: Path, replay: Replay):
    tasks = [{"task_id": name, "main_query": f"{name}?", "answer": right} for name, right in (("a", "4"), ("b", "5"), ("c", "4"))]
    played = run(tasks=tasks, replies=("4",), settings={"rollout": {"num_repeat": 3}})
    before = digest(played.directory)
    found = replay(played.directory, settings={"rollout": {"num_repeat": 3}})
    train = found.splits[0]
    assert (train.agreement.agreement, train.agreement.success_agreement, train.agreement.episodes) == (1.0, 1.0, 9)
    assert train.training.samples_changed == 0
    assert train.training.stored == train.training.new
    assert digest(played.directory) == before
    again = {one.id: one.verdict for one in Run(found.directory).episodes()}
    assert again == {one.id: one.verdict for one in Run(played.directory).episodes()}


def test_flips_swaps_and_signal_are_named(write_run, tmp_path: Path, replay: Replay):
    path = write_run(
        episodes=[
            episode(0, 1.0, task="a", success=True),
            episode(1, 0.0, task="a", success=False),
            episode(0, 0.5, task="b", success=False),
            episode(1, 0.5, task="b", success=False),
        ]
    )
    found = replay(path, write_judge(tmp_path, 0.25, 0.75)).splits[0]
    one = found.agreement
    assert (one.agreement, one.different) == (0.0, 4)
    assert one.to_failure == ["train/1/a/0"]
    assert one.to_success == ["train/1/a/1", "train/1/b/1"]
    assert (one.swapped, one.signal_gained, one.signal_lost) == (["train/1/a"], ["train/1/b"], [])
    assert (one.pairs, one.pairs_reversed, one.pairs_tied) == (1, 1, 0)
    assert (found.training.stored.samples_with_signal, found.training.new.samples_with_signal) == (2, 4)
    assert (found.training.tokens_reversed, found.training.samples_changed) == (6, 4)


def test_a_group_loses_its_signal_when_all_rewards_become_equal(write_run, tmp_path: Path, replay: Replay):
    path = write_run(episodes=[episode(0, 1.0), episode(1, 0.0)])
    found = replay(path, write_judge(tmp_path, 0.5, 0.5)).splits[0]
    assert found.agreement.signal_lost == ["train/1/t"]
    assert found.agreement.pairs_tied == 1
    assert found.training.new.tokens_with_signal == 0


def test_a_judge_that_raises_loses_the_reward_for_its_reason(write_run, tmp_path: Path, replay: Replay):
    (tmp_path / "judge.py").write_text("def judge(task, output):\n    raise ValueError('no')\n")
    path = write_run(episodes=[episode(0, 1.0), episode(1, 0.0)])
    one = replay(path, "./judge.py:judge").splits[0].agreement
    assert (one.lost, one.lost_reasons, one.agreement) == (["train/1/t/0", "train/1/t/1"], {"judge_error": 2}, None)


def test_the_reward_of_the_workflow_goes_before_the_judge(write_run, tmp_path: Path, replay: Replay):
    own = evolve(episode(0, 0.125), output=WorkflowOutput(reward=0.125))
    path = write_run(episodes=[own, episode(1, 0.5)])
    one = replay(path, write_judge(tmp_path, 1.0, 0.0)).splits[0].agreement
    assert (one.equal, one.different, one.new_reward) == (1, 1, 0.0625)


def test_each_agent_keeps_the_reward_that_a_workflow_gives_it(write_run, tmp_path: Path, replay: Replay):
    agents = ("asker", "solver")
    given = [{"asker": 0.0, "solver": 1.0}, {"asker": 1.0, "solver": 0.0}]
    path = write_run(
        episodes=[
            evolve(episode(repeat, 0.5, agents=agents, rewards=rewards), output=WorkflowOutput(reward=rewards))
            for repeat, rewards in enumerate(given)
        ]
    )
    found = replay(path, write_judge(tmp_path, 1.0, 0.0)).splits[0]
    assert (found.agreement.agreement, found.training.samples_changed) == (1.0, 0)
    assert (found.training.new.samples_with_signal, found.agreement.pairs) == (4, 2)


def test_failures_are_worth_what_the_new_configuration_says(write_run, tmp_path: Path, replay: Replay):
    path = write_run(episodes=[episode(0, 1.0), fail(episode(1)), fail(episode(2), "connection_lost")])
    judge = write_judge(tmp_path, 1.0, 1.0, 1.0)
    found = replay(path, judge, settings={"rollout": {"failure_rewards": {"timeout": -1.0}}})
    one = found.splits[0].agreement
    assert (one.gained, one.new_reward) == (["train/1/t/1"], 0.0)
    assert found.notices[-1].startswith("1 failed episode(s) had no reward and get one now")


def test_abnormal_behaviour_keeps_its_own_reward(write_run, tmp_path: Path, replay: Replay):
    seen = {"nonsense": (Finding(call=0, evidence="zzz"),)}
    path = write_run(episodes=[evolve(episode(0, -1.0), findings=seen), episode(1, 0.0)])
    one = replay(path, write_judge(tmp_path, 1.0, 0.0), settings={"rollout": {"agent_madness_reward": -1.0}}).splits[0].agreement
    assert (one.equal, one.different) == (2, 0)


def test_a_judge_that_compares_siblings_gets_whole_groups(write_run, tmp_path: Path, replay: Replay):
    (tmp_path / "judge.py").write_text(
        "from astuner import Judge, Verdict\n\n\nclass Ranks(Judge):\n    async def judge(self, group):\n"
        "        done = [one for one in group.episodes if one.completed]\n"
        "        return [Verdict(place / len(group.episodes)) for place, _ in enumerate(done)]\n"
    )
    path = write_run(episodes=[episode(2, 1.0), episode(0, 0.0), fail(episode(1)), episode(3, 0.0)])
    found = replay(path, "./judge.py:Ranks")
    rewards = {one.id: one.reward for one in Run(found.directory).episodes()}
    assert rewards == {"train/1/t/0": 0.0, "train/1/t/1": None, "train/1/t/2": 0.25, "train/1/t/3": 0.5}


def test_other_weights_of_several_judges(write_run, tmp_path: Path, replay: Replay):
    mine = write_judge(tmp_path, 1.0, 0.0)
    path = write_run(episodes=[episode(0, 1.0), episode(1, 0.0)])
    several = [
        {"judge": mine, "name": "mine", "weight": 0.25},
        {"judge": "astuner_devkit.judges:ExactAnswer", "name": "exact", "weight": 0.75},
    ]
    found = replay(path, settings={"task_judge": {"judges": several}})
    assert [one.reward for one in Run(found.directory).episodes()] == [1.0, 0.75]
    alone = replay(path, settings={"task_judge": {"judges": several}}, judge="mine")
    assert [one.reward for one in Run(alone.directory).episodes()] == [1.0, 0.0]
    other = replay(path, settings={"task_judge": {"judges": several}}, judge="astuner_devkit.judges->ExactAnswer")
    assert [one.reward for one in Run(other.directory).episodes()] == [1.0, 1.0]


OBSERVER = """
from astuner import Judge, Verdict


class Observer(Judge):
    async def observe(self, episode, environment):
        return {"score": environment.score}

    async def judge(self, group):
        return [Verdict(one.observations["score"]) for one in group.episodes if one.completed]
"""


def test_observations_of_the_run_reach_the_same_judge_among_others(write_run, tmp_path: Path, replay: Replay):
    (tmp_path / "looking.py").write_text(OBSERVER)
    stored = [evolve(episode(repeat, 1.0), observations={"score": repeat / 2}) for repeat in range(2)]
    path = write_run(episodes=stored, settings={"task_judge": {"judge_protocol": "./looking.py:Observer"}})
    same = replay(path, "./looking.py:Observer")
    assert [one.reward for one in Run(same.directory).episodes()] == [0.0, 0.5]
    several = [{"judge": "./looking.py:Observer", "name": "a"}, {"judge": "astuner_devkit.judges:ExactAnswer", "name": "b"}]
    found = replay(path, settings={"task_judge": {"judges": several}})
    assert [one.reward for one in Run(found.directory).episodes()] == [1.0, 1.5]
    assert found.notices == ()
    back = replay(found.directory, "./looking.py:Observer")
    assert [one.reward for one in Run(back.directory).episodes()] == [0.0, 0.5]


def test_a_judge_whose_observations_are_not_stored_is_named(write_run, tmp_path: Path, replay: Replay):
    (tmp_path / "looking.py").write_text(OBSERVER)
    path = write_run(episodes=[episode(0, 1.0), episode(1, 0.0)])
    found = replay(path, "./looking.py:Observer")
    assert found.splits[0].agreement.lost_reasons == {"judge_error": 2}
    assert "looks at episodes while their environment lives" in found.notices[-1]
    assert "(the run had none)" in found.notices[-1]


def test_another_estimator_changes_what_would_have_been_trained(write_run, tmp_path: Path, replay: Replay):
    path = write_run(
        episodes=[episode(0, 1.0), episode(1, 0.0)],
        settings={"trainer_common": {"algorithm": {"adv_estimator": "grpo"}}},
    )
    other = {"trainer_common": {"algorithm": {"adv_estimator": "grpo", "norm_adv_by_std_in_grpo": False}}}
    found = replay(path, write_judge(tmp_path, 1.0, 0.0), settings=other).splits[0]
    assert (found.agreement.agreement, found.training.samples_changed, found.training.tokens_reversed) == (1.0, 2, 0)


def test_filtered_groups_are_chosen_again(write_run, tmp_path: Path, replay: Replay):
    filtering = {"trainer_common": {"algorithm": {"filter_groups": {"enable": True}}}, "data": {"train_batch_size": 1}}
    path = write_run(
        episodes=[
            episode(0, 0.0, task="a"),
            episode(1, 0.0, task="a"),
            episode(0, 1.0, task="b"),
            episode(1, 0.0, task="b"),
        ],
        settings=filtering,
    )
    found = replay(path, write_judge(tmp_path, 1.0, 0.0), settings=filtering)
    assert (found.splits[0].training.stored.groups, found.splits[0].training.new.groups) == (1, 1)
    row = Run(found.directory).read_rows()[0]
    assert (row["signal/groups_surplus"], row["signal/groups_filtered"]) == (1.0, 0.0)


def test_validations_are_scored_and_compared_too(write_run, tmp_path: Path, replay: Replay):
    path = write_run(episodes=[episode(0, 1.0), episode(0, 0.0, split="validation", step=0)])
    found = replay(path, write_judge(tmp_path, 1.0))
    assert [(one.split, one.training is None) for one in found.splits] == [("train", False), ("validation", True)]
    rows = {(row["step"], row["kind"]) for row in Run(found.directory).read_rows()}
    assert rows == {(1, "train"), (0, "validation")}
    assert [one.split for one in replay(path, write_judge(tmp_path, 1.0), split="validation").splits] == ["validation"]


def test_a_step_is_scored_alone(write_run, tmp_path: Path, replay: Replay):
    path = write_run(episodes=[episode(0, 1.0), episode(0, 0.0, step=2)])
    assert replay(path, write_judge(tmp_path, 1.0), step=2).splits[0].agreement.episodes == 1
    with pytest.raises(UsageError, match="no episodes of step 9 are stored; there are those of steps 1, 2"):
        replay(path, write_judge(tmp_path, 1.0), step=9)


def test_mistakes_are_named_before_anything_is_written(write_run, tmp_path: Path, replay: Replay):
    path = write_run(episodes=[episode(0, 1.0)])
    with pytest.raises(ConfigError, match=r"--set task_judge.judge_type: .*judge_typo"):
        replay(path, judge="judge_typo")
    with pytest.raises(ConfigError, match=r"new.yaml:\d+: astuner.task_judge.judge_type: .*judge_typo"):
        replay(path, settings={"task_judge": {"judge_type": "judge_typo"}})
    with pytest.raises(UsageError, match="nothing to score again"):
        replay(write_run("empty"), write_judge(tmp_path, 1.0))
    with pytest.raises(UsageError, match="holds something else than a replay of"):
        replay(path, write_judge(tmp_path, 1.0), out=path)
    assert not (path / "replays").exists()


def test_a_replay_replaces_the_earlier_one_in_its_place(write_run, tmp_path: Path, replay: Replay):
    path = write_run(episodes=[episode(0, 1.0)])
    replay(path, write_judge(tmp_path, 0.25))
    found = replay(path, write_judge(tmp_path, 0.5))
    assert found.directory == path / "replays" / "new"
    assert [one.reward for one in Run(found.directory).episodes()] == [0.5]
    assert len(Run(found.directory).read_rows()) == 1
    assert Run(found.directory).state.status == "finished"


def test_keys_that_a_replay_cannot_act_on_are_named(write_run, tmp_path: Path, replay: Replay):
    path = write_run(episodes=[episode(0, 1.0)], settings={"trainer_common": {"algorithm": {"overlong_filter": False}}})
    changed = {"trainer_common": {"algorithm": {"overlong_filter": True}}}
    found = replay(path, write_judge(tmp_path, 1.0), settings=changed)
    assert any(text.startswith("trainer_common.algorithm.overlong_filter: another value") for text in found.notices)


def test_what_judges_spend_is_added_up(write_run, tmp_path: Path, replay: Replay):
    (tmp_path / "paid.py").write_text(
        "from astuner.shared.clients.llm_budget import Limits, make_budget\n\n\nclass Paid:\n    def __init__(self):\n"
        "        self.budget = make_budget(Limits(prompt_price=1e6, completion_price=2e6))\n\n"
        "    def compute_reward(self, task, output):\n"
        "        self.budget.settle(self.budget.reserve('x', 1), 3, 2)\n        return 1.0\n"
    )
    path = write_run(episodes=[episode(0, 1.0), episode(1, 0.0)])
    found = replay(path, "./paid.py:Paid").usage
    assert (found.requests, found.prompt_tokens, found.completion_tokens, found.cost) == (2, 6, 4, 14.0)


def test_only_the_user_may_read_a_replay_and_no_secret_of_its_yaml_is_in_it(write_run, tmp_path: Path, replay: Replay):
    path = write_run(episodes=[episode(0, 1.0)])
    settings = {"task_judge": {"mine": {"api_key": "tokvalue-abcdef123456"}}}
    before = os.umask(0)
    found = replay(path, write_judge(tmp_path, 0.5), settings=settings)
    os.umask(before)
    written = [found.directory, *found.directory.rglob("*")]
    assert [str(one) for one in written if one.stat().st_mode & 0o077] == []
    assert [str(one) for one in written if one.is_file() and b"tokvalue" in one.read_bytes()] == []


def test_a_replay_that_is_stopped_says_how_far_it_came(write_run, tmp_path: Path, replay: Replay):
    path = write_run(episodes=[episode(0, 1.0), episode(0, 1.0, step=2)])
    with pytest.raises(Interrupted, match="stopped after 1 of 2 groups"):
        replay(path, write_judge(tmp_path, 1.0), stopped=lambda: True)
    assert Run(path / "replays" / "new").state.status == "interrupted"


REWARDS = st.sampled_from([-1.0, 0.0, 0.1, 0.30000000000000004, 1.0])
EPISODES = st.tuples(REWARDS, st.booleans(), st.sampled_from([("agent",), ("asker", "solver")]), st.integers(1, 2))


@given(steps=st.lists(st.lists(st.lists(EPISODES, min_size=1, max_size=4), min_size=1, max_size=3), min_size=1, max_size=3))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_unchanged_judge_changes_nothing(write_run, tmp_path: Path, replay: Replay, steps: Any):
    (tmp_path / "known.py").write_text(
        "def judge(task, output):\n    return output.metadata['reward'], output.metadata['success']\n"
    )
    stored = []
    for step, groups in enumerate(steps, 1):
        for place, siblings in enumerate(groups):
            for repeat, (reward, success, agents, rows) in enumerate(siblings):
                one = episode(repeat, reward, task=f"t{place}", step=step, success=success, agents=agents, rows=rows)
                stored.append(evolve(one, output=WorkflowOutput(metadata={"reward": reward, "success": success})))
    shutil.rmtree(tmp_path / "launcher_record", ignore_errors=True)
    found = replay(write_run(episodes=stored), "./known.py:judge").splits[0]
    assert (found.agreement.agreement, found.agreement.success_agreement) == (1.0, 1.0)
    assert (found.agreement.swapped, found.agreement.pairs_reversed, found.agreement.pairs_tied) == ([], 0, 0)
    assert (found.training.samples_changed, found.training.stored) == (0, found.training.new)


REMAX = {"rollout": {"num_repeat": 3}, "trainer_common": {"algorithm": {"adv_estimator": "remax"}}}


def test_greedy_siblings_are_scored_again_and_compared_with(run: Callable[..., Any], tmp_path: Path, replay: Replay):
    tasks = [{"task_id": name, "main_query": f"{name}?", "answer": right} for name, right in (("a", "4"), ("b", "5"))]
    played = run(tasks=tasks, replies=("4",), settings=REMAX)
    same = replay(played.directory, settings=REMAX)
    assert same.splits[0].training.samples_changed == 0
    assert (same.splits[0].agreement.episodes, same.notices) == (6, ())
    again = {one.id: one.reward for one in Run(same.directory).episodes()}
    assert again == {one.id: one.reward for one in Run(played.directory).episodes()}
    assert sum(name.endswith("/greedy") for name in again) == 2
    # The greedy sibling has the repeat -1, and so the last of these rewards.
    other = replay(played.directory, settings=REMAX, judge=write_judge(tmp_path, 0.0, 0.5, 1.0, 0.5), out=tmp_path / "other")
    rewards = {one.id: one.reward for one in Run(other.directory).episodes()}
    assert [rewards[f"train/1/a/{place}"] for place in (0, 1, 2, "greedy")] == [0.0, 0.5, 1.0, 0.5]
    assert other.splits[0].training.new.samples_with_signal == 4


def test_an_estimator_that_misses_greedy_siblings_is_reported(run: Callable[..., Any], replay: Replay):
    tasks = [{"task_id": "a", "main_query": "a?", "answer": "4"}]
    played = run(tasks=tasks, replies=("4",), settings={"rollout": {"num_repeat": 3}})
    found = replay(played.directory, settings=REMAX)
    assert [text for text in found.notices if "compares with a greedy episode of each task, and the run has none" in text]
    assert found.splits[0].training.new.groups_with_signal == 0
