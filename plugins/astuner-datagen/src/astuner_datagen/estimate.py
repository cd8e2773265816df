"""The estimated cost of a generation, from the prompts that it would send."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from attrs import asdict, frozen

from astuner.contract.schema import Split
from astuner.shared.clients import Limits
from astuner_datagen.generator import Generator
from astuner_datagen.question_requests import build_question_prompt

_BYTES_PER_TOKEN = 3
"""As in the budget, until the API reports its own count."""
_CHECKS = 2
"""Most requests that verify one question: its answer, and the comparison of the two."""


@frozen(kw_only=True)
class Estimate:
    """The requests for one split, if no question is dropped; dropped ones are requested again."""

    split: Split
    tasks: int
    requests: int
    verifying: int
    """Most requests that verify the questions."""
    prompt_tokens: int
    """Estimated from the bytes of the prompts."""
    most_answer_tokens: int
    """If every answer had the maximum length."""
    most_cost: float
    """By the prices in the options; 0 without."""


def estimate(generator: Generator, split: Split) -> Estimate:
    """Return the estimate of a split; sends nothing, and needs no address of an LLM."""
    wanted, options = generator.build_request(split), generator.options
    requests = ceil(wanted.count / wanted.per_request)
    prompts: list[int] = []
    turn = 0
    while len(prompts) < requests:
        for source in wanted.sources(turn)[: requests - len(prompts)]:
            _, text = build_question_prompt(source, wanted.per_request, (), generator.languages)
            prompts.append(len(text.encode()) // _BYTES_PER_TOKEN)
        turn += 1
    prompt_tokens, verifying = sum(prompts), 0
    if options.verify:
        # Each shows the same chunk again.
        verifying = wanted.count * _CHECKS
        prompt_tokens += wanted.count * (max(prompts, default=0))
    answers = (requests + verifying) * options.llm_response_length
    prices = Limits(prompt_price=options.llm.prompt_price, completion_price=options.llm.completion_price)
    return Estimate(
        split=split,
        tasks=wanted.count,
        requests=requests,
        verifying=verifying,
        prompt_tokens=prompt_tokens,
        most_answer_tokens=answers,
        most_cost=prices.compute_cost(prompt_tokens, answers),
    )


def list_bounds(found: Estimate) -> Mapping[str, Any]:
    """Return an estimate as JSON values."""
    return asdict(found)
