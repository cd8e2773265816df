"""The warm start: supervised training on the demonstrations, until the model writes like the demonstrator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random

import torch
from torch import Tensor
from torch.nn import functional
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

from astuner_local.tiny.arithmetic import SHOWN, ask
from astuner_local.tiny.demos import TOOLS, Conversation, make_careless, make_tool_conversation
from astuner_local.tiny.packing import Encoded, PackedBatch, pack
from astuner_local.tiny.tokenizer import TURN_END, TURN_START, token_id
from astuner_local.tiny.typos import add_typos

BATCH_SIZE = 16
PEAK_LR = 4e-3
WARMUP_STEPS = 20
WEIGHT_DECAY = 0.3
"""Strong, so that the model does not memorise which digits never follow each other (those of the held-out numbers)."""

MOST_STEPS = 500
"""Steps at the full learning rate, at most: most seeds need 200 to 400 before the model copies digits, and some never do."""

EXAM_EVERY = 10
EXAM_SIZE = 64
PASSED = 1.0
"""Share of right solutions in the exam from which the model counts as able to copy. Below it, the shown numbers may be copied
well, but held-out ones fail one time in four."""

COOLDOWN_STEPS = 80
"""Steps after that, while the learning rate falls to 0."""


def warm_start(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, seed: int, progress: Callable[[int, int], None] = lambda *_: None
) -> bool:
    """Train in place; return whether the model can copy. Only the assistant's text is learnt, including the end of its turn.

    `progress(done, total)` is called after each step; the total becomes smaller once the model can copy.
    """
    random = Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LR, betas=(0.9, 0.95), weight_decay=WEIGHT_DECAY, fused=True)
    batches = _batches(tokenizer, random)
    digits = torch.tensor([token_id(tokenizer, digit) for digit in "0123456789"])
    chance = torch.Generator().manual_seed(seed)
    exam = pack(_make_exam(tokenizer, random))
    passed, step, end = False, 0, MOST_STEPS + COOLDOWN_STEPS
    while step < end:
        for group in optimizer.param_groups:
            group["lr"] = PEAK_LR * min(1.0, (step + 1) / WARMUP_STEPS, (end - step) / COOLDOWN_STEPS)
        batch = add_typos(next(batches), digits, chance)
        functional.cross_entropy(_logits(model, batch), batch.targets).backward()  # type: ignore[no-untyped-call]  # torch ships it without types
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if not passed and step <= MOST_STEPS and step % EXAM_EVERY == 0 and _grade(model, exam) >= PASSED:
            passed, end = True, step + COOLDOWN_STEPS
        progress(step, end)
    return passed


def _logits(model: Qwen2ForCausalLM, batch: PackedBatch) -> Tensor:
    """Return the logits [R, vocab] at the learnt positions only, a quarter of all."""
    states = model.model(
        input_ids=batch.input_ids, position_ids=batch.position_ids, attention_mask=batch.attention_mask, use_cache=False
    ).last_hidden_state
    logits: Tensor = model.lm_head(states.flatten(0, 1)[batch.predictors])
    return logits


def _make_exam(tokenizer: PreTrainedTokenizerFast, random: Random) -> list[Encoded]:
    """Return right solutions in which only the digits count: the rest is fixed, or random in the demonstrations."""
    digits = {token_id(tokenizer, digit) for digit in "0123456789"}
    solutions = encode(tokenizer, [make_tool_conversation(ask(random, SHOWN)) for _ in range(EXAM_SIZE)])
    return [(ids, [mark and token in digits for token, mark in zip(ids, written, strict=True)]) for ids, written in solutions]


@torch.no_grad()
def _grade(model: Qwen2ForCausalLM, exam: PackedBatch) -> float:
    """Return the share of solutions in which each digit is the model's first choice."""
    right = _logits(model, exam).argmax(-1) == exam.targets
    return 1 - len(set(exam.owners[~right].tolist())) / EXAM_SIZE


def _batches(tokenizer: PreTrainedTokenizerFast, random: Random) -> Iterator[PackedBatch]:
    demos = make_careless(random)
    while True:
        # Encoded in batches, for which the tokenizer is fast.
        conversations = encode(tokenizer, list(islice(demos, 50 * BATCH_SIZE)))
        for start in range(0, len(conversations), BATCH_SIZE):
            yield pack(conversations[start : start + BATCH_SIZE])


def encode(tokenizer: PreTrainedTokenizerFast, conversations: list[Conversation]) -> list[Encoded]:
    """Return conversations as token ids, with the assistant's own tokens marked."""
    texts = tokenizer.apply_chat_template(conversations, tools=TOOLS, tokenize=False)
    opening = tokenizer.encode(f"{TURN_START}assistant\n")
    turn_end = token_id(tokenizer, TURN_END)
    return [(ids, _mark_written(ids, opening, turn_end)) for ids in tokenizer(texts)["input_ids"]]


def _mark_written(ids: Sequence[int], opening: Sequence[int], turn_end: int) -> list[bool]:
    """Mark the tokens of an assistant turn after its opening, including its end."""
    written: list[bool] = []
    inside = False
    for position, token in enumerate(ids):
        inside = inside or list(ids[position - len(opening) : position]) == opening
        written.append(inside)
        inside = inside and token != turn_end
    return written
