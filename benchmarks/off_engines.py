"""Engines that do not sample from the trainer's distribution, and record the log-probabilities of their own (corrections.py)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, ClassVar
from zlib import crc32

from attrs import evolve

from astuner_local.engine.plugin import LocalEngine

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo
    from astuner.contract.schema import Chunk, Request
    from astuner_local.engine.plugin import LocalOptions


class Bfloat16(LocalEngine):
    """Computes in bfloat16 what the trainer computes in float32."""

    @classmethod
    def from_run(cls, options: LocalOptions | None, run_info: RunInfo) -> Bfloat16:
        """Make an engine over the run's first model."""
        from astuner_local.engine.serving import load

        config = run_info.config
        model = load(config.model.path, "float32")
        return cls.from_module(model, dtype="bfloat16", max_model_len=config.rollout.max_model_len)  # type: ignore[return-value]


class Hot(LocalEngine):
    """Samples three conversations of four at another temperature; which, depends on the order in which they begin."""

    temperature: ClassVar[float] = 4.0
    """Their policy's is 1."""

    def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the tokens of a request."""
        if request.sampling.temperature > 0 and crc32(request.session.encode()) % 4:
            request = evolve(request, sampling=evolve(request.sampling, temperature=self.temperature))
        return super().generate(request)
