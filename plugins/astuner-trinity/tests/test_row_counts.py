"""Whatever algorithm runs, every row that leaves the explorer says how many rows its step has."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trinity")

from trinity.buffer.operators.experience_operator import create_operators  # noqa: E402
from trinity.common.config import OperatorConfig  # noqa: E402
from trinity.common.experience import EID, Experience  # noqa: E402

from astuner_trinity.explorer.row_counts import StepStamp  # noqa: E402
from astuner_trinity.rows import GROUP, ROWS, STAMP  # noqa: E402


def row(task: str, run: int, reward: float, version: int = 3) -> Experience:
    return Experience(
        eid=EID(batch=4, task=task, run=run),
        tokens=torch.arange(4),
        prompt_length=2,
        action_mask=torch.ones(2, dtype=torch.bool),
        logprobs=torch.zeros(2),
        advantages=torch.full((2,), 7.0),
        reward=reward,
        info={GROUP: task, "model_version": version},
    )


def stamped(stamp: StepStamp, *rows: Experience) -> list[Experience]:
    found, _ = asyncio.run(stamp.process(list(rows)))
    assert {one.info[ROWS] for one in found} == {len(found)}
    assert len({one.info[STAMP] for one in found}) == 1
    return found


def test_rows_of_ours_keep_their_advantages() -> None:
    found = stamped(StepStamp(), row("a", 0, 1.0), row("a", 1, 0.0))
    assert [float(one.advantages[0]) for one in found] == [7.0, 7.0]


def test_no_two_steps_have_the_same_name() -> None:
    stamp = StepStamp()
    first, second = stamped(stamp, row("a", 0, 1.0)), stamped(stamp, row("a", 0, 1.0))
    assert first[0].info[STAMP] != second[0].info[STAMP]


def test_an_algorithm_of_trinitys_own_has_its_advantages_though_an_episode_is_missing() -> None:
    found = stamped(StepStamp(algorithm="grpo"), row("a", 0, 1.0), row("a", 1, 0.0), row("b", 2, 1.0))
    assert [round(float(one.advantages[0]), 2) for one in found] == [0.71, -0.71, 1.0]


def test_rows_that_an_algorithm_leaves_out_are_not_counted() -> None:
    arguments = {"std_threshold": 0.0}
    stamp = StepStamp(algorithm="gspo", advantage_fn="grpo", advantage_fn_args=arguments)
    found = stamped(stamp, row("a", 0, 1.0), row("a", 1, 0.0), row("b", 0, 1.0), row("b", 1, 1.0))
    assert [one.eid.task for one in found] == ["a", "a"]


def test_a_step_of_which_nothing_is_left_has_a_row_that_trains_nothing() -> None:
    """The queue drops an empty step, and the trainer would wait for it."""
    stamp = StepStamp(algorithm="grpo", advantage_fn_args={"std_threshold": 0.0})
    (nothing,) = stamped(stamp, row("a", 0, 1.0), row("a", 1, 1.0))
    assert not nothing.action_mask.any()
    # A replay buffer orders rows by them.
    assert (nothing.info["model_version"], nothing.info["use_count"]) == (3, 0)
    (again,) = stamped(stamp)
    assert not again.action_mask.any()


def test_trinitys_pipeline_takes_it_after_an_operator_that_empties_a_step() -> None:
    configured = [OperatorConfig(name=name) for name in ("reward_std_filter", "astuner_trinity.explorer.row_counts.StepStamp")]
    rows: Any = [row("a", 0, 1.0), row("a", 1, 1.0)]
    for operator in create_operators(configured):
        rows, _ = asyncio.run(operator.process(rows))
    assert [one.info[ROWS] for one in rows] == [1]


def test_advantages_that_the_trainer_computes_are_left_to_it() -> None:
    from tensordict import TensorDict
    from verl import DataProto

    stamp = StepStamp(algorithm="rloo")
    assert [float(one.advantages[0]) for one in stamped(stamp, row("a", 0, 1.0))] == [7.0]
    batch = TensorDict({"token_level_rewards": torch.eye(2), "response_mask": torch.ones(2, 2)}, batch_size=2)
    import numpy as np

    found, _ = stamp(DataProto(batch=batch, non_tensor_batch={"uid": np.array(["a", "b"], dtype=object)}))
    assert found.batch["advantages"].shape == (2, 2)


@pytest.mark.parametrize(
    ("name", "said"), [("nonsense", "nonsense"), ("rloo", "computes advantages in the explorer, and 'rloo' runs in the trainer")]
)
def test_a_function_that_cannot_run_there_is_refused(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        StepStamp(algorithm="grpo", advantage_fn=name)
