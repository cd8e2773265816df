"""Engines that do not sample from the trainer's distribution, or record another one's log-probabilities (corrections.py)."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, ClassVar
from zlib import crc32

import numpy as np
from attrs import evolve

from astuner_local.engine.plugin import LocalEngine

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo
    from astuner.contract.schema import Chunk, Request
    from astuner_local.engine.plugin import LocalOptions

WHOLE_VOCABULARY = 2**31
"""More ids than there are, for `Sampling.top_logprobs`."""


class Bfloat16(LocalEngine):
    """Computes in bfloat16 what the trainer computes in float32."""

    @classmethod
    def from_run(cls, options: LocalOptions | None, run_info: RunInfo) -> Bfloat16:
        """Make an engine over the run's first model."""
        from astuner_local.engine.serving import load

        config = run_info.config
        model = load(config.model.path, "float32")
        return cls.from_module(model, dtype="bfloat16", max_model_len=config.rollout.max_model_len)  # type: ignore[return-value]


class Tempered(LocalEngine):
    """Samples a share of the conversations at one temperature, and records their log-probabilities at another.

    Which, depends on the episode alone, so that a run can be repeated. Greedy requests, those of the validation, are left alone.
    """

    share: ClassVar[float]
    sampled: ClassVar[float]
    """The temperature of the distribution that is sampled from; the policy's is 1."""
    recorded: ClassVar[float]
    """That of the log-probabilities that the engine reports."""

    def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the tokens of a request."""
        conversation = request.session.partition("#")[0]  # what follows counts the sessions of all runs of the process
        if request.sampling.temperature == 0 or crc32(conversation.encode()) >= self.share * 2**32:
            return super().generate(request)
        sampling = evolve(request.sampling, temperature=self.sampled)
        if self.sampled == self.recorded:
            return super().generate(evolve(request, sampling=sampling))
        return self._rescore(evolve(request, sampling=evolve(sampling, top_logprobs=WHOLE_VOCABULARY)))

    async def _rescore(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the chunks with the log-probabilities at `recorded`, from those of the whole vocabulary at `sampled`."""
        async for chunk in super().generate(request):
            logprobs = []
            for chosen, row in zip(chunk.ids, chunk.top_logprobs, strict=True):
                scaled = {token: value * self.sampled / self.recorded for token, value in row.items()}
                most = max(scaled.values())
                logprobs.append(scaled[chosen] - most - math.log(np.exp(np.fromiter(scaled.values(), float) - most).sum()))
            yield evolve(chunk, logprobs=tuple(logprobs), top_logprobs=())


class Hot(Tempered):
    """Samples three conversations of four at another temperature, and says so."""

    share, sampled, recorded = 0.75, 4.0, 4.0


class Cold(Tempered):
    """Samples three conversations of four at a lower temperature, and says so."""

    share, sampled, recorded = 0.75, 0.4, 0.4


class Misreporting(Tempered):
    """Samples most conversations at a high temperature, and reports the log-probabilities of a low one.

    Its improbable tokens have w = π/μ far above 1, so that truncation keeps them at its bound, and a mask leaves them out.
    """

    share, sampled, recorded = 0.85, 4.0, 0.5
