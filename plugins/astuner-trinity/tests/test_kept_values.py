"""What a worker keeps of the tokens of its passes, and that keeping it can neither change nor end an update."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trinity")

from astuner.runs.training.token_values import STACKED  # noqa: E402
from astuner_trinity.token_parts import RowOwner, take_step, write_owners  # noqa: E402
from astuner_trinity.trainer.batches import NO_ROW  # noqa: E402
from astuner_trinity.trainer.loss import EntropyMeasure, WeighedLoss, record_tokens  # noqa: E402

STEP = 3
SEED = 2
"""With it, rows of older weights are clipped in each of the three ways."""
MASK = torch.tensor([[1, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1]]).bool()
LENGTHS = MASK.sum(1).tolist()
ADVANTAGES = torch.tensor([[1.0], [-1.0], [0.5], [0.0]]).expand(4, 4)


def loss_of(directory: Path | None, reference: bool = False) -> Any:
    more = {"kl_loss_coef": 0.1} if reference else {}
    policy = WeighedLoss(token_parts=None if directory is None else str(directory), **more)
    return SimpleNamespace(policy_loss_fn=policy, entropy_loss_fn=EntropyMeasure())


def run_pass(loss: Any, rows: list[int], numbers: list[int], stale: float = 0.0) -> Any:
    """Compute a pass over some rows as Trinity does it; return the gradient."""
    random = torch.Generator().manual_seed(SEED)
    logp, sampler, reference, entropy = (torch.randn(4, 4, generator=random)[rows] - 2 for _ in range(4))
    logp.requires_grad_()
    tensors = {
        "old_log_probs": sampler,
        "response_mask": MASK[rows],
        "advantages": ADVANTAGES[rows],
        "share": torch.ones(len(rows)),
        "stale": torch.full((len(rows),), stale),
        "row": torch.tensor(numbers),
        "ref_log_prob": reference,
    }
    value, _ = loss.policy_loss_fn(logprob=logp, **tensors)
    loss.entropy_loss_fn(entropy=entropy, action_mask=MASK[rows], loss_agg_mode="token-mean", **tensors)
    value.backward()
    return logp.grad, {"logprobs": logp.detach(), "reference_logprobs": reference, "entropies": entropy}


def take(directory: Path) -> dict[int, Any]:
    """Return the values by the number of their row."""
    found = take_step(directory, STEP)
    assert found is not None
    return {values.owner.sample: values.stack for values in found[1]}


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    write_owners(tmp_path, STEP, [RowOwner(episode="e", sample=number, tokens=count) for number, count in enumerate(LENGTHS)])
    return tmp_path


@pytest.mark.parametrize("reference", [True, False])
def test_the_values_of_each_row_are_those_of_its_trained_tokens(parts: Path, reference: bool) -> None:
    loss = loss_of(parts, reference)
    with record_tokens(loss, step=STEP, worker=0):
        _, first = run_pass(loss, [2, 0], [2, 0])
        _, second = run_pass(loss, [3, 1], [3, 1])
    found = take(parts)
    assert {number: stack.shape[1] for number, stack in found.items()} == dict(enumerate(LENGTHS))
    for computed, rows in ((first, [2, 0]), (second, [3, 1])):
        for place, row in enumerate(rows):
            for name, values in computed.items():
                expected = values[place][MASK[row]].numpy() if reference or name != "reference_logprobs" else np.nan
                np.testing.assert_allclose(found[row][STACKED.index(name)], expected, rtol=1e-3, err_msg=name)
            np.testing.assert_array_equal(found[row][STACKED.index("rl")], float(ADVANTAGES[row, 0]))
            np.testing.assert_array_equal(found[row][STACKED.index("ratios")], 1)
            np.testing.assert_allclose(found[row][STACKED.index("ref_kl")], 0.1 if reference else 0, rtol=1e-3)


def test_tokens_of_older_weights_have_their_ratio_and_what_was_clipped(parts: Path) -> None:
    loss = loss_of(parts)
    with record_tokens(loss, step=STEP, worker=0):
        run_pass(loss, [0, 1, 2, 3], [0, 1, 2, 3], stale=1.0)
    values = np.concatenate(list(take(parts).values()), axis=1)
    ratios, clips = values[STACKED.index("ratios")], values[STACKED.index("clips")]
    advantages = np.concatenate([ADVANTAGES[row][MASK[row]].numpy() for row in range(4)])
    expected = np.where(advantages < 0, np.where(ratios > 3, 3, ratios < 0.8), 2 * ((ratios > 1.2) & (advantages > 0)))
    assert clips.tolist() == expected.tolist()
    assert set(clips.tolist()) == {0, 1, 2, 3}


def test_rows_that_pad_a_part_are_not_kept(parts: Path) -> None:
    loss = loss_of(parts)
    with record_tokens(loss, step=STEP, worker=0):
        _, computed = run_pass(loss, [1, 0], [NO_ROW, 0])
    found = take(parts)
    assert list(found) == [0]
    np.testing.assert_allclose(found[0][STACKED.index("logprobs")], computed["logprobs"][1][MASK[0]].numpy(), rtol=1e-3)
    with record_tokens(loss, step=STEP, worker=0):
        run_pass(loss, [0], [NO_ROW])
    assert list(parts.iterdir()) == []


@pytest.mark.parametrize("directory", [None, "not/there"])
def test_nothing_is_kept_where_nothing_is_recorded(directory: str | None, tmp_path: Path) -> None:
    """`trinity run` on the run's own configuration has no directory for it."""
    loss = loss_of(None if directory is None else tmp_path / directory)
    with record_tokens(loss, step=STEP, worker=0):
        run_pass(loss, [0, 1], [0, 1])
        assert loss.policy_loss_fn.kept is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("loss", [SimpleNamespace(policy_loss_fn=object(), entropy_loss_fn=object()), object()])
def test_a_loss_of_trinitys_own_and_that_of_a_critic_are_left_alone(parts: Path, loss: Any) -> None:
    with record_tokens(loss, step=STEP, worker=0):
        pass
    assert take(parts) == {}


def test_the_gradient_is_the_same_bit_for_bit(parts: Path) -> None:
    loss, plain = loss_of(parts, reference=True), loss_of(None, reference=True)
    with record_tokens(loss, step=STEP, worker=0):
        found, _ = run_pass(loss, [0, 1, 2, 3], [0, 1, 2, 3])
    assert torch.equal(found, run_pass(plain, [0, 1, 2, 3], [0, 1, 2, 3])[0])


def test_no_update_fails_for_its_record(parts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loss = loss_of(parts)
    with record_tokens(loss, step=STEP, worker=0):
        loss.policy_loss_fn.kept.add(torch.zeros(2), torch.ones(3, 3).bool(), torch.zeros(1), None)
        gradient, _ = run_pass(loss, [0, 1], [0, 1])
    assert gradient.abs().sum() > 0
    assert take(parts) == {}
    assert "trained tokens are not recorded" in capsys.readouterr().err


def test_a_directory_that_cannot_be_written_ends_no_update(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loss = loss_of(tmp_path)
    # In the way of the file.
    (tmp_path / f"step_{STEP}.worker_0.npz.part").mkdir()
    with record_tokens(loss, step=STEP, worker=0):
        run_pass(loss, [0], [0])
    assert "trained tokens are not recorded: IsADirectoryError" in capsys.readouterr().err


def test_an_update_that_fails_leaves_nothing_and_says_why_itself(parts: Path) -> None:
    loss = loss_of(parts)

    def fail() -> None:
        with record_tokens(loss, step=STEP, worker=0):
            run_pass(loss, [0], [0])
            raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        fail()
    assert loss.policy_loss_fn.kept is None
    assert take(parts) == {}
