"""What verl computes in one pass of the trainer, on a machine without flash-attention: verl's and Trinity's own functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from astuner.config.trees import get
from astuner_trinity.layout import Layout
from astuner_trinity.native_configuration import Wanted, finish_configuration
from astuner_trinity.process_environment import Machine

pytest.importorskip("trinity")

LENGTHS = [120] * 230 + [6000] * 26
"""Tokens of the rows of a step: short episodes, and some long ones."""
LIMIT = 16384


@pytest.fixture
def attention_utils(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return verl's module as its release has it, and put back what tests change."""
    from verl.utils import attention_utils

    monkeypatch.setattr(attention_utils, "_get_attention_functions", attention_utils._get_attention_functions)
    return attention_utils


def finish(tree: Callable[..., dict[str, Any]], machine: Machine, text: str = "") -> dict[str, Any]:
    wanted = Wanted(layout=Layout(Path("/run")), model="/model", total_steps=9, loss_agg_mode="token-mean")
    return finish_configuration(tree(text=text), machine, wanted)


def make_rows(lengths: list[int]) -> Any:
    """Return rows as Trinity's trainer hands them to its workers, padded on both sides."""
    import torch
    from tensordict import TensorDict

    longest = max(lengths)
    mask = torch.zeros(len(lengths), longest, dtype=torch.int64)
    for row, length in enumerate(lengths):
        mask[row, longest - length :] = 1
    ids = torch.arange(mask.numel()).reshape(mask.shape) * mask
    found = {"input_ids": ids, "attention_mask": mask, "position_ids": mask.cumsum(-1) - 1, "response_mask": mask[:, -1:]}
    return TensorDict(found, batch_size=len(lengths))


def list_passes(native: dict[str, Any], lengths: list[int]) -> list[int]:
    """Return the padded tokens of each pass that verl makes of rows."""
    from trinity.trainer.verl.monkey_patch import left_right_2_no_padding
    from verl.utils import tensordict_utils as tu
    from verl.workers.engine.utils import prepare_micro_batches

    rows = left_right_2_no_padding(make_rows(lengths))
    trainer = native["trainer"]
    tu.assign_non_tensor(
        rows,
        use_dynamic_bsz=trainer["use_dynamic_bsz"],
        max_token_len_per_gpu=LIMIT,
        micro_batch_size_per_gpu=get(trainer, "trainer_config.actor.ppo_micro_batch_size_per_gpu"),
    )
    passes, _ = prepare_micro_batches(rows)
    sizes = [one["input_ids"].offsets().diff().tolist() for one in passes]
    assert sorted(size for one in sizes for size in one) == sorted(lengths)
    return [len(one) * max(one) for one in sizes]


@pytest.mark.usefixtures("attention_utils")
def test_no_pass_is_larger_than_its_limit_when_padding_counts(tree: Callable[..., dict[str, Any]]) -> None:
    from astuner_trinity.trainer.padding import provide_padding

    provide_padding()
    assert max(list_passes(finish(tree, Machine(gpus=8)), LENGTHS)) <= LIMIT
    # What verl does on its own, and what would be out of memory.
    asked = finish(tree, Machine(gpus=8), "trinity: {trainer: {use_dynamic_bsz: true}}")
    assert max(list_passes(asked, LENGTHS)) > 5 * LIMIT


def test_packed_rows_share_passes(tree: Callable[..., dict[str, Any]]) -> None:
    trainer = finish(tree, Machine(gpus=8, flash_attention=True))["trainer"]
    assert (trainer["use_dynamic_bsz"], trainer["use_remove_padding"]) == (True, True)
    assert get(trainer, "trainer_config.actor.ppo_micro_batch_size_per_gpu") is None


@pytest.mark.parametrize("where", ["the trainer", "its workers"])
def test_rows_are_unpadded_without_flash_attention(
    attention_utils: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str
) -> None:
    from trinity.trainer.verl.monkey_patch import left_right_2_no_padding

    from astuner_trinity.monitor import FanOut

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="flash_attn"):
        left_right_2_no_padding(make_rows([3, 5]))
    if where == "the trainer":
        section = SimpleNamespace(monitor_args={"records": str(tmp_path)})
        config = SimpleNamespace(monitor=section, trainer=SimpleNamespace(name="trainer"))
        FanOut("project", "group", "run", "explorer", config).close()
        with pytest.raises(ModuleNotFoundError, match="flash_attn"):
            left_right_2_no_padding(make_rows([3, 5]))
        FanOut("project", "group", "run", "trainer", config).close()
    else:
        import importlib

        from verl.workers.engine_workers import TrainingWorker

        from astuner_trinity.trainer import worker

        monkeypatch.setattr(TrainingWorker, "train_mini_batch", TrainingWorker.train_mini_batch)
        importlib.reload(worker)
    ids = left_right_2_no_padding(make_rows([3, 5]))["input_ids"]
    assert [row.tolist() for row in ids.unbind()] == [[2, 3, 4], [5, 6, 7, 8, 9]]
