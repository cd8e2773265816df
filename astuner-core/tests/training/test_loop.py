"""The loop uses what a learner offers: its engine, its weights, its reference, its time."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import REPOSITORY
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.errors import ConfigError
from astuner.runs.inspection.metric_names import list_metric_names
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.metric_rows import read_metric_rows
from astuner.runs.store.token_store import TokenStore
from astuner.runs.training.entropy import EntropyWeight
from astuner.runs.training.group_filter import spread_evenly
from astuner.settings.config.trainer import EntropyControl
from astuner_devkit.episodes import episode, group

FILE = REPOSITORY / "tests" / "support" / "serving_backbone.py"
TASKS = [{"task_id": name, "main_query": f"{name}?", "answer": "4"} for name in ("2+2", "1+3", "8-4")]
SETTINGS: dict[str, Any] = {
    "data": {"train_batch_size": 1},
    "rollout": {"name": "scripted", "scripted": {"replies": ["4"]}, "num_repeat": 2},
}


def trainer(**changes: Any) -> dict[str, Any]:
    return {**SETTINGS, "trainer_common": {"total_training_steps": 3, **changes}}


@pytest.mark.parametrize("backbone", ["ServingBackbone", "OverlappingBackbone"])
def test_the_engine_is_given_the_weights_after_each_step(run: Any, backbone: str):
    played = run(tasks=TASKS, backbone=f"{FILE}:{backbone}", settings=trainer())
    assert (played.metrics["served_before"], played.metrics["served_in_order"]) == (2.0, 1.0)


def test_every_sample_is_compared_with_the_reference_when_that_is_part_of_the_reward(run: Any):
    settings = trainer(algorithm={"use_kl_in_reward": True})
    assert run(tasks=TASKS, backbone=f"{FILE}:ServingBackbone", settings=settings).metrics["compared"] == 6.0


@pytest.mark.parametrize("backbone", ["ServingBackbone", "OverlappingBackbone"])
def test_the_time_of_the_engine_counts_in_the_step_whose_episodes_it_generated(run: Any, backbone: str):
    # One second per request, and two episodes in the last step.
    assert run(tasks=TASKS, backbone=f"{FILE}:{backbone}", settings=trainer()).metrics["time/engine_s"] == 2.0


@pytest.mark.parametrize("backbone", ["ServingBackbone", "OverlappingBackbone"])
def test_a_step_has_the_metrics_of_episodes_that_all_backbones_share(run: Any, backbone: str):
    found = run(tasks=TASKS, backbone=f"{FILE}:{backbone}", settings=trainer()).metrics
    assert {metric.name for metric in list_metric_names() if metric.shared == "episodes"} - set(found) == set()


@pytest.mark.parametrize("backbone", ["ServingBackbone", "OverlappingBackbone"])
def test_what_a_step_trained_is_recorded_under_its_step_and_its_calls(run: Any, backbone: str):
    played = run(tasks=TASKS, backbone=f"{FILE}:{backbone}", settings=trainer())
    store = TokenStore(RunDirectory(played.directory).trained_tokens)
    assert store.list_steps() == [1, 2, 3]
    assert len(played.episodes) == 6
    for one in played.episodes:
        recorded = store.read(one.step).of(one.id, one.calls[0])
        np.testing.assert_array_equal(recorded.logprobs, one.calls[0].logprobs.astype(np.float16))


def test_nothing_is_recorded_if_that_is_off(run: Any):
    played = run(tasks=TASKS, backbone=f"{FILE}:ServingBackbone", settings=trainer(token_record={"enable": False}))
    assert not RunDirectory(played.directory).trained_tokens.exists()


def test_steps_and_validations_say_how_far_trainer_and_engine_are_apart(run: Any):
    settings = trainer(val_before_train=True, test_freq=3)
    settings["task_reader"] = {"dataset_file": {"validation": {"file_path": "run1.jsonl"}}}
    played = run(tasks=TASKS, backbone=f"{FILE}:DisagreeingBackbone", settings=settings)
    expected = {"k3_kl": np.exp(-2) + 1, "seq_kl_max": np.exp(-2) + 1, "abs_max": 2.0, "seq_ratio_min": np.exp(-2)}
    for prefix, sequences in (("", 2), ("val/", 3)):
        found = {name: played.metrics[f"{prefix}mismatch/{name}"] for name in ("sequences", *expected)}
        assert found == pytest.approx({"sequences": sequences, **expected})
    [notice] = [text for text in played.notices if "trainer and engine disagree" in text]
    assert notice.startswith(
        "the validation of step 0: trainer and engine disagree on 3 of 3 sequences, most of all on validation/0/"
    )
    assert "DisagreeingBackbone', in the template of" in notice
    assert "model (tool calls: hermes). That many point at the engine itself" in notice


@pytest.mark.parametrize(
    ("changes", "saved"),
    [
        ({"test_freq": 1}, [1, 3]),
        ({"test_freq": 2}, [2, 3]),
        ({"test_freq": 1, "keep_best": False}, [3]),
        ({"test_freq": -1}, [3]),
    ],
)
def test_the_first_of_the_best_validated_checkpoints_is_kept_and_the_last(run: Any, changes: dict[str, Any], saved: list[int]):
    settings = trainer(save_freq=-1, **changes)
    settings["task_reader"] = {"dataset_file": {"validation": {"file_path": "run1.jsonl"}}}
    played = run(tasks=TASKS, backbone=f"{FILE}:ServingBackbone", settings=settings)
    assert RunDirectory(played.directory).list_saved_steps() == saved


def test_groups_without_signal_lie_between_those_with_it():
    kept, dead = [group(episode(task=f"t{n}")) for n in range(5)], [group(episode(task="dead")) for _ in range(3)]
    mixed = [one.task.task_id for one in spread_evenly(kept, dead)]
    assert [task for task in mixed if task != "dead"] == ["t0", "t1", "t2", "t3", "t4"]
    assert [task == "dead" for task in mixed] == [False, False, True, False, False, True, False, True]


@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 4))
def test_a_mini_batch_is_all_dead_only_if_there_are_fewer_live_groups_than_mini_batches(live, dead, parts):
    kept, fill = [group(episode(task=f"t{n}")) for n in range(live)], [group(episode(task="dead"))] * dead
    mixed = spread_evenly(kept, fill)
    bounds = [len(mixed) * number // parts for number in range(parts + 1)]
    empty = sum(all(one.task.task_id == "dead" for one in mixed[a:b]) for a, b in pairwise(bounds) if a < b)
    assert empty <= max(0, parts - live)


def test_filter_groups_is_refused_where_the_whole_step_is_compared(run: Any):
    settings = trainer(algorithm={"adv_estimator": "reinforce_plus_plus", "filter_groups": {"enable": True}})
    with pytest.raises(ConfigError, match="'reinforce_plus_plus' compares with more than siblings"):
        run(tasks=TASKS, backbone=f"{FILE}:ServingBackbone", settings=settings)


@pytest.mark.parametrize(("wanted", "counts"), [(1, {"signal/groups_filtered": 2.0, "signal/groups_surplus": 0.0})])
def test_groups_that_the_filter_left_out_are_counted(run: Any, wanted: int, counts: dict[str, float]):
    settings = trainer(algorithm={"filter_groups": {"enable": True, "max_num_gen_batches": 2}})
    metrics = run(tasks=TASKS, backbone=f"{FILE}:ServingBackbone", settings=settings).metrics
    assert {name: metrics[name] for name in counts} == counts


def weigh_entropy(**settings: Any) -> dict[str, Any]:
    return trainer(total_training_steps=4, algorithm={"entropy_ctrl": {"coeff": 0.1, "target": 0.5, "delta": 0.02, **settings}})


def test_the_weight_of_the_entropy_follows_the_entropy(run: Any):
    played = run(tasks=TASKS, backbone=f"{FILE}:WeighingBackbone", settings=weigh_entropy())
    rows = read_metric_rows(RunDirectory(played.directory).metrics).rows
    # The first step begins with the weight as it is set; an entropy of 1 takes it down and out, those of 0.4 bring it back.
    assert [row["weighed"] for row in rows] == [row["entropy/coeff"] for row in rows] == pytest.approx([0.1, 0.0, 0.1, 0.12])


def test_the_weight_of_the_entropy_has_a_largest_value(run: Any):
    played = run(tasks=TASKS, backbone=f"{FILE}:WeighingBackbone", settings=weigh_entropy(most=0.105))
    assert played.metrics["entropy/coeff"] == pytest.approx(0.105)


def test_a_resumed_run_weighs_the_entropy_as_if_it_had_never_stopped(tmp_path: Path):
    directory = RunDirectory(tmp_path)
    lines = [{"step": step, "kind": "train", "entropy/mean": entropy} for step, entropy in enumerate((1.0, 0.4, 0.3, 0.7), 1)]
    directory.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = EntropyControl(coeff=0.1, target=0.5)
    whole = EntropyWeight.open(directory, settings, 0)
    assert whole is not None
    for step, line in enumerate(lines, 1):
        whole.adapt(float(str(line["entropy/mean"])))
        assert EntropyWeight.open(directory, settings, step) == whole
    before = whole.weight
    whole.adapt(None)
    assert whole.weight == before


def test_a_learner_that_weighs_no_entropy_is_refused_by_name(run: Any):
    with pytest.raises(ConfigError, match="weighs no entropy from step to step"):
        run(tasks=TASKS, backbone=f"{FILE}:ServingBackbone", settings=weigh_entropy())


ESTIMATORS = """
from astuner.contract.protocols import EstimatorTraits, Streams


class Imitates:
    traits = EstimatorTraits(gives_streams=True, beyond_advantages=True, group_relative=False)

    def signal(self, groups):
        return [[Streams(likelihood=1.0) for _ in siblings] for siblings in groups]


class Taught(Imitates):
    traits = EstimatorTraits(gives_streams=True, group_relative=False, scored_by=("teacher",))


class Counting:
    traits = EstimatorTraits(gives_streams=True, group_relative=False, keeps_state=True)
    steps = 0

    def signal(self, groups):
        self.steps += 1
        return [[Streams(advantages=float(self.steps)) for _ in siblings] for siblings in groups]

    def get_state(self):
        return {"steps": self.steps}

    def set_state(self, state):
        self.steps = state["steps"]


class Beyond:
    traits = EstimatorTraits(gives_streams=True, wants_greedy=True, group_relative=False)

    def signal(self, groups):
        return [[Streams(advantages=one.reward - one.greedy - 0.5) for one in siblings] for siblings in groups]


class Forgetful:
    traits = EstimatorTraits(gives_streams=True)
"""


def estimated_by(directory: Path, name: str, **changes: Any) -> dict[str, Any]:
    (directory / "estimators.py").write_text(ESTIMATORS)
    return trainer(algorithm={"adv_estimator": f"{directory / 'estimators.py'}:{name}"}, **changes)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Imitates", "trains no likelihood and no divergence of an estimator"),
        ("Taught", "scores with no other model"),
    ],
)
def test_an_estimator_that_a_learner_cannot_serve_is_refused_by_name(run: Any, tmp_path: Path, name: str, said: str):
    with pytest.raises(ConfigError, match=f"adv_estimator: .*{name}' needs more than advantages, and the backbone .* {said}"):
        run(tasks=TASKS, backbone=f"{FILE}:ServingBackbone", settings=estimated_by(tmp_path, name))


def test_what_an_estimator_remembers_is_in_each_checkpoint(run: Any, tmp_path: Path):
    settings = estimated_by(tmp_path, "Counting", save_freq=1, max_checkpoints_to_keep=3)
    played = run(tasks=TASKS, backbone=f"{FILE}:ServingBackbone", settings=settings)
    states = [json.loads((RunDirectory(played.directory).checkpoint(step) / "estimator.json").read_text()) for step in (1, 2, 3)]
    assert [state["state"] for state in states] == [{"steps": 1}, {"steps": 2}, {"steps": 3}]


def test_one_that_says_it_gives_streams_and_does_not_is_named(run: Any, tmp_path: Path):
    with pytest.raises(ConfigError, match=r"Forgetful.*gives_streams=True, and it has no method `signal`"):
        run(tasks=TASKS, backbone=f"{FILE}:ServingBackbone", settings=estimated_by(tmp_path, "Forgetful"))


@pytest.mark.parametrize("backbone", ["ServingBackbone", "OverlappingBackbone"])
def test_an_estimator_gets_the_greedy_sibling_that_it_wants(run: Any, tmp_path: Path, backbone: str):
    settings = estimated_by(tmp_path, "Beyond")
    settings["rollout"] = {**settings["rollout"], "num_repeat": 1}
    played = run(tasks=TASKS, backbone=f"{FILE}:{backbone}", settings=settings)
    assert [(len(one.episodes), one.greedy.repeat, one.greedy.reward) for one in played.groups] == [(1, -1, 1.0)] * 3
    found = {
        name: played.metrics[name]
        for name in ("signal/episodes", "signal/samples", "greedy/reward_mean", "greedy/without_reward")
    }
    assert found == {"signal/episodes": 1.0, "signal/samples": 1.0, "greedy/reward_mean": 1.0, "greedy/without_reward": 0.0}
    assert played.metrics["signal/tokens_nonzero_advantage"] == played.metrics["signal/tokens_trainable"] > 0


def test_debug_plays_and_shows_it(run: Any, tmp_path: Path):
    played = run(tasks=TASKS[:1], backbone="debug", settings=estimated_by(tmp_path, "Beyond"))
    assert [one.id.rsplit("/", 1)[1] for one in (*played.groups[0].episodes, played.groups[0].greedy)] == ["0", "1", "greedy"]
    [judged] = [text for text in played.notices if text.startswith("judged train/1/")]
    assert "/greedy: reward 1" in judged
