from __future__ import annotations

import torch

from astuner_local.tiny.packing import PackedBatch, pack
from astuner_local.tiny.typos import add_typos

DIGITS = torch.tensor([5, 6, 7, 8])
PROMPT, ANSWER = [5, 6, 7, 8] * 5, [5, 6, 7, 20] * 10
BATCH = pack([([*PROMPT, *ANSWER], [False] * len(PROMPT) + [True] * len(ANSWER))])


def _mistyped() -> PackedBatch:
    return add_typos(BATCH, DIGITS, torch.Generator().manual_seed(0))


def test_some_of_the_assistants_digits_are_replaced_by_other_digits() -> None:
    changed = _mistyped().input_ids != BATCH.input_ids
    assert 3 <= int(changed.sum()) <= 20
    assert bool(torch.isin(_mistyped().input_ids[changed], DIGITS).all())


def test_the_prompt_and_all_that_is_no_digit_stay() -> None:
    places = (_mistyped().input_ids != BATCH.input_ids).flatten().nonzero()[:, 0]
    assert int(places.min()) >= len(PROMPT)
    assert 20 not in BATCH.input_ids.flatten()[places].tolist()


def test_what_is_learnt_stays_right() -> None:
    assert torch.equal(BATCH.targets, _mistyped().targets)


def test_the_same_chance_makes_the_same_typos() -> None:
    assert torch.equal(_mistyped().input_ids, _mistyped().input_ids)
