"""Tests, on this machine with this model and its threads, that sharing a batch changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astuner.contract.schema import Request, Sampling
from astuner_local.engine.batch import BatchEngine
from astuner_local.engine.slots import Generation

if TYPE_CHECKING:
    from astuner_local.compiled.kernels import Kernels
    from astuner_local.forward.seam import Forward

_LENGTHS = (5, 37, 2, 18, 150, 11, 64)


def is_reproducible(forward: Forward, kernels: Kernels | None = None) -> bool:
    """Return whether a few requests give the same bits alone, together, and with their prompts computed in pieces."""
    requests = [
        Request(
            id=str(number),
            session=str(number),
            prompt_ids=[(number + 1) * 7919 * at % forward.vocab_size for at in range(1, length + 1)],
            sampling=Sampling(max_tokens=3, seed=number),
        )
        for number, length in enumerate(_LENGTHS)
    ]
    alone = [_run(forward, kernels, [request])[0] for request in requests[:2]]
    together = _run(forward, kernels, requests)
    in_pieces = _run(forward, kernels, requests[::-1], prefill_tokens=23)[::-1]
    return alone == together[:2] and together == in_pieces


def _run(
    forward: Forward, kernels: Kernels | None, requests: list[Request], prefill_tokens: int = 1024
) -> list[tuple[list[int], list[float]]]:
    engine = BatchEngine(
        forward,
        max_model_len=max(_LENGTHS) + 8,
        max_num_seqs=len(requests),
        prefill_tokens=prefill_tokens,
        kernels=kernels,
    )
    generations: list[Generation] = [engine.submit(request) for request in requests]
    while engine.busy:
        engine.step()
    return [(generation.ids, generation.logprobs) for generation in generations]
