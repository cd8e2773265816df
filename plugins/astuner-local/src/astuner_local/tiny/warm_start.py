"""The warm start: supervised training on the demonstrations, until the model writes like the demonstrator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from random import Random

import torch
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

from astuner_local.tiny.demos import TOOLS, demonstrations
from astuner_local.tiny.packing import Conversation, pack
from astuner_local.tiny.tokenizer import TURN_END, TURN_START

STEPS = 250
BATCH_SIZE = 24
PEAK_LR = 4e-3
WARMUP_STEPS = 20


def warm_start(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, seed: int, progress: Callable[[int, int], None] = lambda *_: None
) -> None:
    """Train in place. Only what the assistant writes is learnt, the end of its turn included."""
    conversations = encode(tokenizer, Random(seed), STEPS * BATCH_SIZE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LR, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARMUP_STEPS) * (1 - 0.9 * step / STEPS))
    model.train()
    for step in range(STEPS):
        batch = pack(conversations[step * BATCH_SIZE : (step + 1) * BATCH_SIZE])
        states = model.model(
            input_ids=batch.input_ids, position_ids=batch.position_ids, attention_mask=batch.attention_mask, use_cache=False
        ).last_hidden_state
        # The head is applied to the learnt positions alone: they are a third of the tokens.
        logits = model.lm_head(states.flatten(0, 1)[batch.predictors])
        functional.cross_entropy(logits, batch.targets).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        progress(step + 1, STEPS)
    model.eval()


def encode(tokenizer: PreTrainedTokenizerFast, random: Random, count: int) -> list[Conversation]:
    """Return demonstrations as token ids, with the assistant's own tokens marked."""
    texts = tokenizer.apply_chat_template(list(islice(demonstrations(random), count)), tools=TOOLS, tokenize=False)
    opening = tokenizer.encode(f"{TURN_START}assistant\n")
    turn_end = tokenizer.convert_tokens_to_ids(TURN_END)
    return [(ids, _written(ids, opening, turn_end)) for ids in tokenizer(texts)["input_ids"]]


def _written(ids: Sequence[int], opening: Sequence[int], turn_end: int) -> list[bool]:
    """Mark what lies between the opening of an assistant turn and its end, the end included."""
    written: list[bool] = []
    inside = False
    for position, token in enumerate(ids):
        inside = inside or list(ids[position - len(opening) : position]) == opening
        written.append(inside)
        inside = inside and token != turn_end
    return written
