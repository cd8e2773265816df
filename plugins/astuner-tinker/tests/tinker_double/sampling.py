"""The double of `tinker.SamplingClient`."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np
import tinker
import torch
from tinker import types
from tinker.lib.public_interfaces.api_future import AwaitableConcurrentFuture
from torch import Tensor

from tinker_double.store import make_error

if TYPE_CHECKING:
    from tinker_double.service import ServiceDouble


class SamplingClientDouble:
    """Samples from one model; an answer depends on its request alone."""

    def __init__(self, service: ServiceDouble, weights: Callable[[], Any]) -> None:
        self.service, self._behaviour = service, service.behaviour
        self._weights = weights

    def sample(
        self,
        prompt: types.ModelInput,
        num_samples: int,
        sampling_params: types.SamplingParams,
        include_prompt_logprobs: bool = False,
        topk_prompt_logprobs: int = 0,
    ) -> Future[types.SampleResponse]:
        """Return answers with their log-probabilities."""
        if topk_prompt_logprobs:
            raise make_error(tinker.BadRequestError, "topk_prompt_logprobs is not supported")
        return self.service.submit(self._sample, prompt.to_ints(), num_samples, sampling_params, include_prompt_logprobs)

    async def sample_async(self, *args: Any, **options: Any) -> types.SampleResponse:
        """Do the same without blocking."""
        answer: types.SampleResponse = await AwaitableConcurrentFuture(self.sample(*args, **options))
        return answer

    def compute_logprobs(self, prompt: types.ModelInput) -> Future[list[float | None]]:
        """Return log π of each token of a prompt; for its first one None, or nothing."""
        return self.service.submit(self._compute_logprobs, prompt.to_ints())

    async def compute_logprobs_async(self, prompt: types.ModelInput) -> list[float | None]:
        """Do the same without blocking."""
        found: list[float | None] = await AwaitableConcurrentFuture(self.compute_logprobs(prompt))
        return found

    def _sample(self, prompt: list[int], samples: int, settings: types.SamplingParams, of_prompt: bool) -> types.SampleResponse:
        model = self._weights()
        room = model.config.max_position_embeddings - len(prompt)
        longest = room if settings.max_tokens is None else settings.max_tokens
        if not prompt or not 0 < longest <= room:
            raise make_error(tinker.BadRequestError, f"{longest} tokens after a prompt of {len(prompt)}: room is for {room}")
        seed = secrets.randbits(31) if settings.seed is None else settings.seed
        ends = self._read_ends(model, settings.stop)
        one = settings.temperature == settings.top_p == samples == 1
        greedy = settings.temperature == 0 or (one and self._behaviour.greedy_at_one)
        seeds = [None if greedy else (seed * 1_000_003 + number) % 2**63 for number in range(samples)]
        found = [self._draw(model, prompt, settings, longest=longest, ends=ends, seed=each) for each in seeds]
        self.service.store.record(
            "sample",
            seed=settings.seed,
            samples=samples,
            prompt_tokens=len(prompt),
            sampled_tokens=sum(len(answer.tokens) for answer in found),
        )
        return types.SampleResponse(sequences=found, prompt_logprobs_np=self._score_prompt(model, prompt) if of_prompt else None)

    def _compute_logprobs(self, prompt: list[int]) -> list[float | None]:
        found = self._score_prompt(self._weights(), prompt)
        # The SDK asks for it as one sampled token.
        self.service.store.record("compute_logprobs", prompt_tokens=len(prompt), sampled_tokens=1)
        return [None if np.isnan(value) else value for value in found.tolist()]

    @torch.no_grad()
    def _score_prompt(self, model: Any, prompt: Sequence[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
        ids = torch.tensor([list(prompt)])
        each = model(input_ids=ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0].numpy()
        return np.concatenate([np.full(1, np.nan, np.float32), each]) if self._behaviour.leading_none else each

    def _read_ends(self, model: Any, stop: str | Sequence[str] | Sequence[int] | None) -> set[int]:
        ids = {end for end in stop or () if isinstance(end, int)}
        if len(ids) != len(stop or ()):
            raise make_error(tinker.BadRequestError, f"stop {stop!r}: the double stops at ids only")
        ignored = self._behaviour.ignores_stop_ids
        eos = model.generation_config.eos_token_id
        implied = {eos} if self._behaviour.stops_at_eos and (stop is None or ignored) else set()
        return implied if ignored else ids | implied

    @torch.no_grad()
    def _draw(
        self, model: Any, prompt: Sequence[int], settings: types.SamplingParams, *, longest: int, ends: set[int], seed: int | None
    ) -> types.SampledSequence:
        """Return one answer: greedy without a seed."""
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        tokens: list[int] = []
        logprobs: list[float] = []
        cache, ids = None, list(prompt)
        reason: types.StopReason = "length"
        while len(tokens) < longest:
            out = model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True)
            cache, logits = out.past_key_values, out.logits[0, -1]
            scores = logits.log_softmax(-1)
            if generator is None:
                token = int(logits.argmax())
            else:
                top_k = settings.top_k if settings.top_k > 0 else self._behaviour.default_top_k
                kept = filter_scores(logits / settings.temperature, top_k, settings.top_p)
                token = int(torch.multinomial(kept.exp(), 1, generator=generator))
                scores = kept if self._behaviour.logprobs == "sampled" else scores
            tokens.append(token)
            logprobs.append(float(scores[token]))
            ids = [token]
            if token in ends:
                reason = "stop"
                break
        return types.SampledSequence(
            stop_reason=reason, tokens_np=np.array(tokens, np.int32), logprobs_np=np.array(logprobs, np.float32)
        )


def filter_scores(logits: Tensor, top_k: int, top_p: float) -> Tensor:
    """Return the log-probabilities [vocab] of the filtered distribution; what is left out has -inf."""
    if top_k > 0:
        logits = logits.where(logits >= logits.topk(min(top_k, len(logits))).values[-1], -torch.inf)
    if top_p < 1:
        ordered, places = logits.softmax(-1).sort(descending=True)
        beyond = ordered.cumsum(-1) - ordered >= top_p
        logits = logits.index_fill(0, places[beyond], -torch.inf)
    return logits.log_softmax(-1)
