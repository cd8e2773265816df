"""The distance between trainer and engine is measured by sequence, so that a few that are far off show among many alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import evolve

from astuner.contract.schema import Sample
from astuner.episodes.judging.advantages import WeightedSample
from astuner.runs.training.mismatch import SCORED, MismatchWatch, choose_scored, compare_logprobs, compute_mismatch_metrics
from astuner.runs.training.token_values import STACKED, TokenValues


def make_sample(episode: str = "e", tokens: int = 3, agent: str = "solver") -> Sample:
    """Every token was sampled with the log-probability -1; the first one of the row is the prompt."""
    mask = np.array([False] + [True] * tokens)
    ids = np.zeros(tokens + 1, np.int32)
    logprobs = np.where(mask, -1.0, 0.0).astype(np.float32)
    return Sample(episode_id=episode, task_id="t", repeat=0, agent=agent, ids=ids, mask=mask, logprobs=logprobs, calls=(0,))


def scored(*log_ratios: float, **changes: Any) -> tuple[Sample, np.ndarray[Any, Any]]:
    return make_sample(tokens=len(log_ratios), **changes), np.array([-1.0 + ratio for ratio in log_ratios], np.float32)


def measure(*pairs: Any) -> dict[str, float]:
    return compute_mismatch_metrics(compare_logprobs([sample for sample, _ in pairs], [own for _, own in pairs]))


def test_extremes_are_those_of_sequences_and_the_divergence_is_k3_of_the_tokens():
    found = measure(scored(0.0, 0.0, 0.0), scored(1.0, -2.0), scored(0.5))
    each = [np.exp(ratio) - 1 - ratio for ratio in (0, 0, 0, 1.0, -2.0, 0.5)]
    assert found == pytest.approx(
        {
            "mismatch/sequences": 3,
            "mismatch/k3_kl": np.mean(each),
            "mismatch/abs_max": 2.0,
            "mismatch/seq_kl_mean": (0 + np.mean(each[3:5]) + each[5]) / 3,
            "mismatch/seq_kl_max": np.mean(each[3:5]),
            "mismatch/seq_ratio_min": np.exp(-0.5),
            "mismatch/seq_ratio_max": np.exp(0.5),
            "mismatch/seq_log_ratio_min": -1.0,
            "mismatch/seq_log_ratio_max": 0.5,
        },
        abs=1e-6,
    )


def test_several_agents_have_figures_of_their_own():
    found = measure(scored(0.0, agent="solver"), scored(1.0, agent="critic"), scored(0.0, agent="critic"))
    assert found["mismatch/critic/seq_kl_mean"] == pytest.approx((np.e - 2) / 2)
    assert (found["mismatch/critic/seq_kl_max"], found["mismatch/solver/seq_kl_max"]) == pytest.approx((np.e - 2, 0.0))


def test_rows_that_were_not_trained_and_values_of_nothing_say_nothing():
    assert measure((make_sample(), np.zeros(0))) == {}
    watch = MismatchWatch(warn=pytest.fail, sampled_by="it")
    assert watch.measure_update(1, [], None) == {}


def make_values(*rows: list[float], ratios: float = 1.0) -> TokenValues:
    stack = np.zeros((len(STACKED), sum(map(len, rows))))
    stack[STACKED.index("logprobs")] = np.concatenate(rows)
    stack[STACKED.index("ratios")] = ratios
    return TokenValues.from_stack(stack, [len(row) for row in rows])


def weigh(*samples: Sample) -> list[WeightedSample]:
    return [WeightedSample(sample=sample, advantage=1.0, group="g") for sample in samples]


def test_what_the_step_changed_is_no_mismatch():
    watch = MismatchWatch(warn=pytest.fail, sampled_by="it")
    values = make_values([-1.0 + np.log(3.0)] * 3, ratios=3.0)
    assert watch.measure_update(1, weigh(make_sample()), values)["mismatch/abs_max"] == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(pytest.fail.Exception):
        watch.measure_update(1, weigh(make_sample()), values, updated=False)


FAR, NEAR = [-1.0, -1.0, -7.0], [-1.0, -1.02, -0.99]


@pytest.mark.parametrize(
    ("others", "cause"), [(NEAR, "A few alone point at what was fed"), (FAR, "That many point at the engine")]
)
def test_a_sequence_that_is_far_off_is_named_once_with_its_cause(others: list[float], cause: str):
    said: list[str] = []
    watch = MismatchWatch(warn=said.append, sampled_by="the engine 'vllm', in the template of Qwen/Qwen3")
    rows = weigh(make_sample("train/3/seven/1"), *(make_sample(f"other/{number}") for number in range(3)))
    for _ in range(2):
        watch.measure_update(3, rows, make_values([-1.0, -1.0, -7.5], others, others, others))
    assert len(said) == 1
    assert (
        f"step 3: trainer and engine disagree on {4 if others is FAR else 1} of 4 sequences, most of all on train/3/seven/1"
        in said[0]
    )
    assert "(agent solver): KL 1.8 nats per token, ratio of the sequence 0.11, trained token 3 off by 6.5 nats" in said[0]
    assert "Sampled by the engine 'vllm', in the template of Qwen/Qwen3. " + cause in said[0]


@pytest.mark.parametrize(
    ("values", "is_stale"),
    [(make_values(NEAR), False), (make_values(FAR), True), (make_values([-1.6, -1.0, -1.0]), False)],
    ids=["rounding", "older weights", "one unlikely token of a short answer"],
)
def test_no_warning(values: TokenValues, is_stale: bool):
    watch = MismatchWatch(warn=pytest.fail, sampled_by="it")
    assert watch.measure_update(1, weigh(make_sample()), values, is_stale=is_stale)["mismatch/sequences"] == 1


def test_a_large_validation_is_scored_in_part():
    samples = [make_sample(str(number)) for number in range(1000)]
    dropped = evolve(make_sample("none"), mask=np.zeros(4, np.bool_))
    chosen = choose_scored([dropped, *samples])
    assert (chosen[0].episode_id, len(chosen) <= SCORED, int(chosen[-1].episode_id) > 950) == ("0", True, True)
    assert choose_scored(samples[:3]) == samples[:3]
