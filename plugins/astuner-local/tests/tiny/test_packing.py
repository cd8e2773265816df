from __future__ import annotations

from typing import Any

import pytest
import torch

from astuner_local.tiny.model import new_model
from astuner_local.tiny.packing import Encoded, pack
from astuner_local.tiny.warm_start import encode

SHORT = ([5, 6, 7, 8], [False, False, True, True])
LONG = ([*range(10, 100)], [False] * 60 + [True] * 30)


def test_what_is_learnt_is_each_marked_token_from_the_one_before_it() -> None:
    batch = pack([SHORT])
    assert [
        (int(batch.input_ids.flatten()[at]), int(target)) for at, target in zip(batch.predictors, batch.targets, strict=True)
    ] == [(6, 7), (7, 8)]


def test_short_conversations_share_a_row() -> None:
    assert pack([SHORT, LONG, SHORT]).input_ids.shape == (1, 112)


def test_tokens_of_one_conversation_have_one_owner() -> None:
    batch = pack([SHORT, LONG])
    assert torch.bincount(batch.owners)[1:].tolist() == [30, 2]


@pytest.mark.parametrize("batch", [[LONG, SHORT], [LONG, SHORT, SHORT], [LONG, LONG]])
def test_packed_logits_are_those_of_each_conversation_alone(tokenizer: Any, batch: list[Encoded]) -> None:
    model = new_model(tokenizer, 0).eval()
    packed = pack(batch)
    with torch.no_grad():
        together = model(packed.input_ids, position_ids=packed.position_ids, attention_mask=packed.attention_mask).logits
        alone = [model(torch.tensor([ids])).logits[0, [i - 1 for i, mark in enumerate(marks) if mark]] for ids, marks in batch]
    torch.testing.assert_close(together.flatten(0, 1)[packed.predictors], torch.cat(alone), atol=1e-5, rtol=0)


def test_only_what_the_assistant_says_is_marked(tokenizer: Any) -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    ((ids, marks),) = encode(tokenizer, [messages])
    assert tokenizer.decode([token for token, mark in zip(ids, marks, strict=True) if mark]) == "b<|im_end|>"
