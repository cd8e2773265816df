"""What one step trains on: every row of it, with the factors of the whole, in a number that workers can share."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("trinity")

from transformers import AutoModelForCausalLM  # noqa: E402
from trinity.algorithm import ADVANTAGE_FN, KL_FN, POLICY_LOSS_FN  # noqa: E402
from trinity.common.config import BufferConfig  # noqa: E402
from trinity.common.experience import EID, Experience  # noqa: E402
from trinity.trainer.verl.utils import to_data_proto  # noqa: E402

from astuner_trinity.packed_floats import pack_floats  # noqa: E402
from astuner_trinity.rows import (  # noqa: E402
    AGENT,
    EPISODE,
    GROUP,
    IDLE,
    RATE,
    ROW,
    ROWS,
    SAMPLE,
    SHARE,
    STALE,
    STAMP,
    STEP,
    STREAMS,
    UNTRAINED,
    VERSION,
)
from astuner_trinity.token_parts import RowOwner, take_step  # noqa: E402
from astuner_trinity.trainer import batches  # noqa: E402
from astuner_trinity.trainer.batches import NO_ROW, StepBatches, prepare_rows  # noqa: E402

OPTIONS: dict[str, Any] = {
    "loss_agg_mode": "token-mean",
    "max_response_length": 50,
    "lr": 1e-3,
    "lr_warmup_steps": 10,
    "lr_scheduler_type": "constant",
    "total_steps": 100,
    "every_row": False,
}


def row(episode: str, tokens: int, advantage: float, version: int = 0, length: int = 6) -> Experience:
    mask = torch.tensor([place < tokens for place in range(max(length, tokens, 1))])
    return Experience(
        tokens=torch.arange(len(mask) + 2),
        prompt_length=2,
        action_mask=mask,
        logprobs=torch.zeros(len(mask)),
        advantages=torch.full((len(mask),), advantage) * mask,
        reward=0.0,
        info={EPISODE: episode, AGENT: "agent", GROUP: "g", VERSION: version, SAMPLE: 1},
    )


rows_of_a_step = st.lists(st.tuples(st.integers(0, 7), st.sampled_from([-1.0, 0.0, 0.5])), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(made=rows_of_a_step, workers=st.integers(1, 4), every=st.booleans())
def test_factors_count_all_rows_and_rows_divide_among_workers(made: Any, workers: int, every: bool) -> None:
    rows = [row(f"e{n}", tokens, advantage) for n, (tokens, advantage) in enumerate(made)]
    found, metrics = prepare_rows(rows, 1, workers=workers, options={**OPTIONS, "every_row": every})
    assert len(found) % workers == 0
    total = sum(tokens for tokens, _ in made)
    live = [(tokens, advantage) for tokens, advantage in made if tokens and (every or advantage)]
    weights = [one.info[SHARE] * int(one.action_mask.sum()) for one in found]
    assert sum(weights) == pytest.approx(sum(tokens for tokens, _ in live) / max(1, total))
    assert metrics["astuner/rows_trained"] == len(live)
    assert {one.info[IDLE] for one in found} == {float(not live)}
    assert all(one.info[SHARE] == 0 for one in found) == (not live)
    assert {one.info[RATE] for one in found} == {1e-4}


@pytest.mark.parametrize(
    ("mode", "factor"), [("token-mean", 1 / 3), ("seq-mean-token-mean", 1 / (4 * 3)), ("seq-mean-token-sum-norm", 1 / (4 * 50))]
)
def test_sequences_without_a_trained_token_count_in_the_means_over_sequences(mode: str, factor: float) -> None:
    trained, more, blank = row("a", 2, 1.0), row("a", 1, 1.0), row("", 0, 0.0)
    trained.info[UNTRAINED], more.info[UNTRAINED] = 2, 2
    blank.info |= {GROUP: "h", UNTRAINED: 1}
    found, _ = prepare_rows([trained, more, blank], 1, workers=1, options={**OPTIONS, "loss_agg_mode": mode})
    assert [one.info[SHARE] for one in found] == [pytest.approx(factor)] * 2


def test_a_divergence_without_any_advantage_makes_no_step_in_our_loss() -> None:
    options = {**OPTIONS, "every_row": True, "needs_advantage": True}
    found, _ = prepare_rows([row("a", 3, 0.0), row("b", 3, 0.0)], 1, workers=1, options=options)
    assert [one.info[IDLE] for one in found] == [1.0]
    found, _ = prepare_rows([row("a", 3, 0.0), row("b", 3, 1.0)], 1, workers=1, options=options)
    assert [(one.info[IDLE], one.info[SHARE]) for one in found] == [(0.0, pytest.approx(1 / 6))] * 2


def test_what_an_estimator_adds_to_the_loss_is_signal_and_a_column_of_every_row() -> None:
    imitated, held, still = row("a", 3, 0.0), row("b", 2, 0.0, length=8), row("c", 3, 0.0)
    imitated.info["likelihood"] = pack_floats(np.array([0.5, 0, 2, 0, 0, 0], np.float32))
    held.info |= {"divergence": pack_floats(np.eye(8, dtype=np.float32)[0]), "reference": pack_floats(np.full(8, -2, np.float32))}
    found, _ = prepare_rows([imitated, held, still], 1, workers=3, options={**OPTIONS, "streams": True})
    assert [one.info[SHARE] for one in found] == [pytest.approx(1 / 8)] * 2 + [0.0]
    batch = to_data_proto(found, 0, AutoModelForCausalLM, None).batch  # type: ignore[arg-type]
    assert batch["likelihood"][:2].tolist() == [[0.5, 0, 2, 0, 0, 0, 0, 0], [0.0] * 8]
    assert batch["divergence"][:2].tolist() == [[0.0] * 8, [1.0] + [0.0] * 7]
    assert batch["reference"][:2].tolist() == [[0.0] * 8, [-2.0] * 8]
    assert [len(batch[name]) for name in STREAMS] == [3, 3, 3]


def test_where_no_estimator_adds_to_the_loss_there_are_no_columns_of_it() -> None:
    found, _ = prepare_rows([row("a", 3, 1.0)], 1, workers=1, options=OPTIONS)
    assert not set(STREAMS) & {one.destination_field for one in found[0].custom_fields}


def test_rows_of_older_weights_are_marked() -> None:
    found, metrics = prepare_rows([row("a", 3, 1.0, version=4), row("b", 3, -1.0, version=2)], 5, workers=1, options=OPTIONS)
    assert [one.info[STALE] for one in found] == [0.0, 1.0]
    assert (metrics["astuner/lag_mean"], metrics["astuner/lag_max"]) == (1.0, 2.0)


def test_padding_trains_nothing_and_shares_nothing_with_what_it_copies() -> None:
    found, _ = prepare_rows([row("a", 3, 1.0)], 1, workers=2, options=OPTIONS)
    assert [one.info[SHARE] for one in found] == [pytest.approx(1 / 3), 0.0]
    assert found[0].info is not found[1].info


def padded(*rows: Experience, workers: int) -> list[Experience]:
    found, _ = prepare_rows(rows, 1, workers=workers, options={**OPTIONS, "every_row": True})
    return found


@pytest.mark.parametrize("name", ["ppo", "gspo", "cispo", "sapo", "opmd"])
def test_no_loss_of_trinitys_own_has_a_gradient_from_padding(name: str) -> None:
    rows = padded(row("a", 3, 1.0, length=3), row("b", 3, -1.0, length=3), workers=8)
    logp = torch.full((8, 3), -0.7, requires_grad=True)
    mask, advantages = torch.stack([one.action_mask for one in rows]), torch.stack([one.advantages for one in rows])
    old = torch.stack([one.logprobs for one in rows]) - 0.7
    kind = POLICY_LOSS_FN.get(name)
    loss, _ = kind(backend="verl", **kind.default_args())(
        logprob=logp, old_log_probs=old, response_mask=mask, advantages=advantages
    )
    kl, _ = KL_FN.get("k2")().calculate_kl_loss(logprob=logp, ref_logprob=old - 1, response_mask=mask, loss_agg_mode="token-mean")
    (loss + kl).backward()
    assert logp.grad[:2].abs().min() > 0
    assert logp.grad[2:].abs().max() == 0


def test_padding_is_compared_with_no_row_where_the_trainer_computes_advantages() -> None:
    given = [row(f"e{n}", 3, 0.0, length=3) for n in range(3)]
    for one, reward in zip(given, (1.0, 0.0, 0.5), strict=True):
        one.eid, one.reward = EID(batch=1, task="t"), reward
    found = []
    for workers in (1, 8):
        batch = to_data_proto(padded(*given, workers=workers), 0, AutoModelForCausalLM, None)  # type: ignore[arg-type]
        batch.batch["token_level_rewards"] = batch.batch["token_level_scores"]
        rloo, _ = ADVANTAGE_FN.get("rloo")()(batch)
        found.append(rloo.batch["advantages"][:3])
    assert torch.equal(*found)
    assert found[0].abs().max() > 0


def test_a_step_without_a_trained_token_can_be_whitened() -> None:
    (nothing,) = padded(row("a", 0, 0.0, length=2), workers=1)
    assert nothing.info[IDLE] == 1
    assert nothing.action_mask.all()


class Rows:
    """A buffer that hands out what it has, in its order."""

    def __init__(self, *rows: Experience) -> None:
        self.rows = list(rows)

    async def read(self, batch_size: int) -> list[Experience]:
        found, self.rows = self.rows[:batch_size], self.rows[batch_size:]
        return found


def of_step(name: str, count: int) -> list[Experience]:
    rows = [row(f"{name}{n}", 3, 1.0) for n in range(count)]
    for one in rows:
        one.info |= {ROWS: count, STAMP: name}
    return rows


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function from rows of a buffer to what reads steps from it."""

    def of(*rows: Experience, **options: Any) -> StepBatches:
        monkeypatch.setattr(batches, "get_buffer_reader", lambda config: Rows(*rows))
        return StepBatches(BufferConfig(train_batch_size=5), **{**OPTIONS, "workers": 1, **options})

    return of


def test_a_step_is_read_whole_however_many_rows_it_has(reading: Any) -> None:
    strategy = reading(*of_step("first", 3), *of_step("second", 6), *of_step("third", 1))
    found = [asyncio.run(strategy.sample(step))[0] for step in (1, 2, 3)]
    assert [{one.info[STAMP] for one in rows} for rows in found] == [{"first"}, {"second"}, {"third"}]
    assert [len(rows) for rows in found] == [3, 6, 1]


def test_rows_of_two_steps_are_never_trained_as_one(reading: Any) -> None:
    """As a table gives them that another process writes to between two reads."""
    (first, *_), others = of_step("first", 3), of_step("second", 3)
    with pytest.raises(RuntimeError, match="rows of 2 explorer steps"):
        asyncio.run(reading(first, *others).sample(1))


def test_the_rows_that_train_are_numbered_and_their_owners_known(reading: Any, tmp_path: Path) -> None:
    """Neither those without a gradient nor those that pad the workers' parts are recorded."""
    rows = of_step("step", 4)
    rows[1] = row("step1", 3, 0.0)
    rows[1].info |= {ROWS: 4, STAMP: "step"}
    found, _, _ = asyncio.run(reading(*rows, workers=2, token_parts=str(tmp_path)).sample(5))
    assert [one.info[ROW] for one in found] == [0, 1, 2, NO_ROW]
    assert {one.info[STEP] for one in found} == {5}
    owners, values = take_step(tmp_path, 5)
    assert owners == [RowOwner(episode=f"step{number}", sample=1, tokens=3) for number in (0, 2, 3)]
    assert values == []


def test_a_step_that_trains_nothing_numbers_no_row(reading: Any, tmp_path: Path) -> None:
    idle = row("a", 3, 0.0)
    idle.info |= {ROWS: 1, STAMP: "step"}
    found, _, _ = asyncio.run(reading(idle, token_parts=str(tmp_path)).sample(1))
    assert [one.info[ROW] for one in found] == [NO_ROW]
    assert take_step(tmp_path, 1) == ([], [])


def test_a_step_is_read_though_nobody_can_write_whose_its_rows_are(reading: Any, tmp_path: Path) -> None:
    found, _, _ = asyncio.run(reading(*of_step("step", 2), token_parts=str(tmp_path / "gone")).sample(1))
    assert len(found) == 2
