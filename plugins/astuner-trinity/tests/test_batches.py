"""What one step trains on: every row of it, with the factors of the whole, in a number that workers can share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("trinity")

from trinity.common.experience import Experience  # noqa: E402

from astuner_trinity.rows import AGENT, EPISODE, GROUP, IDLE, RATE, SHARE, STALE, VERSION  # noqa: E402
from astuner_trinity.trainer.batches import prepared  # noqa: E402

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
        info={EPISODE: episode, AGENT: "agent", GROUP: "g", VERSION: version},
    )


rows_of_a_step = st.lists(st.tuples(st.integers(0, 7), st.sampled_from([-1.0, 0.0, 0.5])), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(made=rows_of_a_step, workers=st.integers(1, 4), every=st.booleans())
def test_factors_count_all_rows_and_rows_divide_among_workers(made: Any, workers: int, every: bool) -> None:
    rows = [row(f"e{n}", tokens, advantage) for n, (tokens, advantage) in enumerate(made)]
    found, metrics = prepared(rows, 1, workers=workers, options={**OPTIONS, "every_row": every})
    assert len(found) % workers == 0
    total = sum(tokens for tokens, _ in made)
    live = [(tokens, advantage) for tokens, advantage in made if tokens and (every or advantage)]
    weights = [one.info[SHARE] * int(one.action_mask.sum()) for one in found]
    assert sum(weights) == pytest.approx(sum(tokens for tokens, _ in live) / max(1, total))
    assert metrics["astuner/rows_trained"] == len(live)
    assert {one.info[IDLE] for one in found} == {float(not live)}
    assert all(one.info[SHARE] == 0 for one in found) == (not live)
    assert {one.info[RATE] for one in found} == {1e-4}


def test_rows_of_older_weights_are_marked() -> None:
    found, metrics = prepared([row("a", 3, 1.0, version=4), row("b", 3, -1.0, version=2)], 5, workers=1, options=OPTIONS)
    assert [one.info[STALE] for one in found] == [0.0, 1.0]
    assert (metrics["astuner/lag_mean"], metrics["astuner/lag_max"]) == (1.0, 2.0)


def test_padding_trains_nothing_and_shares_nothing_with_what_it_copies() -> None:
    found, _ = prepared([row("a", 3, 1.0)], 1, workers=2, options=OPTIONS)
    assert [one.info[SHARE] for one in found] == [pytest.approx(1 / 3), 0.0]
    assert found[0].info is not found[1].info
