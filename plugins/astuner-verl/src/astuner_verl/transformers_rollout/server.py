"""A server of this rollout: a transformers model in its own process, which answers waiting requests in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import torch
from attrs import define, frozen
from torch import Tensor
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.replica import TokenOutput

from astuner.settings.config.pretrained import guard_loading
from astuner_verl.transformers_rollout.sampling import SamplingSpec, distribution, draw
from astuner_verl.transformers_rollout.weights import ServedWeights


@frozen(kw_only=True, eq=False)
class Answer:
    """The sampled tokens of one request."""

    ids: list[int]
    logprobs: list[float]
    """In the sampled distribution."""


@define(eq=False)
class _PendingRequest:
    prompt: list[int]
    wanted: SamplingSpec
    answer: asyncio.Future[Answer]


class TransformersServer:
    """Ray actor. Requests waiting at the start of a batch form it; all are answered with its last one."""

    def __init__(self, config: Any, model_config: Any, device: str) -> None:
        """Load the model."""
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        settings = omega_conf_to_dataclass(model_config)
        dtype = torch.float32 if str(config.dtype) in ("float32", "fp32") else torch.bfloat16
        path = settings.local_path
        with guard_loading(path, weights=True):
            model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, trust_remote_code=False, use_safetensors=True)
        self._weights = ServedWeights(model.to(device).eval())
        self._device = device
        self._most = int(config.max_num_seqs)
        self._context = int(config.max_model_len)
        self._version: int | None = None
        self._queue: asyncio.Queue[_PendingRequest] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Answer once the model is loaded."""

    async def generate(
        self, request_id: str, prompt_ids: Sequence[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        """Sample an answer; raises `ValueError` for a prompt that fills the context."""
        room = self._context - len(prompt_ids)
        if room < 1:
            raise ValueError(f"a prompt of {len(prompt_ids)} tokens leaves no room in a context of {self._context}")
        if self._worker is None:
            self._worker = asyncio.create_task(self._answer_all())
        wanted = SamplingSpec.from_params(sampling_params, room)
        waiting = _PendingRequest(list(prompt_ids), wanted, asyncio.get_running_loop().create_future())
        await self._queue.put(waiting)
        answer = await waiting.answer
        extra = {"global_steps": self._version}
        return TokenOutput(token_ids=answer.ids, log_probs=answer.logprobs, stop_reason="completed", extra_fields=extra)

    async def load_weights(self, tensors: dict[str, Tensor], adapter: dict[str, Any] | None) -> None:
        """Take over some of the weights; with `adapter`, peft's settings, those of an adapter."""
        await asyncio.to_thread(self._weights.load, tensors, adapter)

    async def finish_weights(self, version: int | None) -> None:
        """Check that all weights arrived, and set their version; raises `RuntimeError` with the missing names."""
        self._weights.finish()
        self._version = version

    async def _answer_all(self) -> None:
        while True:
            batch = [await self._queue.get()]
            # Siblings arrive one after the other; waiting a moment for them pays off.
            await asyncio.sleep(0.005)
            while not self._queue.empty() and len(batch) < self._most:
                batch.append(self._queue.get_nowait())
            batch = [one for one in batch if not one.answer.cancelled()]
            if not batch:
                continue
            try:
                answers = await asyncio.to_thread(self._sample, batch)
            except Exception as error:  # noqa: BLE001  # reported to the callers
                for one in batch:
                    if not one.answer.done():
                        one.answer.set_exception(error)
                continue
            for one, answer in zip(batch, answers, strict=True):
                if not one.answer.done():
                    one.answer.set_result(answer)

    @torch.no_grad()
    def _sample(self, batch: Sequence[_PendingRequest]) -> list[Answer]:
        """Answer a batch: prompts padded on the left, KV cached, finished rows removed once half are finished."""
        device, prompts, wanted = self._device, [one.prompt for one in batch], [one.wanted for one in batch]
        longest = max(map(len, prompts))
        ids = torch.zeros(len(prompts), longest, dtype=torch.long)
        mask = torch.zeros(len(prompts), longest, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, longest - len(prompt) :] = torch.tensor(prompt)
            mask[row, longest - len(prompt) :] = 1
        inputs, mask = ids.to(device), mask.to(device)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        uniforms = [one.uniforms() for one in wanted]
        answers = [Answer(ids=[], logprobs=[]) for _ in prompts]
        rows = list(range(len(prompts)))
        """The request of each row of the batch."""
        cache: Any = None
        ended: set[int] = set()
        while len(ended) < len(prompts):
            found = self._weights.model(
                input_ids=inputs, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
            )
            cache = found.past_key_values
            asked = [wanted[row] for row in rows]
            logp = distribution(found.logits[:, -1], asked)
            at = torch.stack([uniforms[row][min(len(answers[row].ids), len(uniforms[row]) - 1)] for row in rows])
            sampled = draw(logp, asked, at)
            chosen = logp.gather(1, sampled.unsqueeze(1)).squeeze(1).tolist()
            for row, token, logprob in zip(rows, sampled.tolist(), chosen, strict=True):
                if row in ended:
                    continue
                answers[row].ids.append(token)
                answers[row].logprobs.append(logprob)
                if batch[row].answer.cancelled() or token in wanted[row].stop or len(answers[row].ids) >= wanted[row].max_tokens:
                    ended.add(row)
            inputs = sampled.unsqueeze(1)
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], 1)
            positions = mask.sum(-1, keepdim=True) - 1
            live = [place for place, row in enumerate(rows) if row not in ended]
            if live and len(live) <= len(rows) // 2:
                index = torch.tensor(live, device=device)
                cache.batch_select_indices(index)
                inputs, mask, positions = inputs[index], mask[index], positions[index]
                rows = [rows[place] for place in live]
        return answers

    # verl's interface of a server; this one keeps its memory, and is idle when weights change.

    async def wake_up(self, tags: list[str] | None = None) -> None:
        """Nothing to do: it never sleeps."""

    async def sleep(self) -> None:
        """Keep the weights, and free the memory of answers."""
        if self._device != "cpu":
            torch.cuda.empty_cache()

    async def clear_kv_cache(self) -> None:
        """Nothing is kept between requests."""

    async def release_kv_cache(self) -> None:
        """Nothing is kept between requests."""

    async def resume_kv_cache(self) -> None:
        """Nothing is kept between requests."""

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        """Nothing to do: running requests end."""

    async def resume_generation(self) -> None:
        """Nothing to do: nothing was stopped."""

    async def start_profile(self, **_: Any) -> None:
        """There is no profiler."""

    async def stop_profile(self) -> None:
        """There is no profiler."""
