"""The engine's core: one forward pass per step over everything that can run."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
import torch
from attrs import define
from torch import Tensor

from astuner.contract.errors import AstunerError
from astuner.contract.schema import Request
from astuner_local.compiled.kernels import fits_kernels
from astuner_local.engine.attention import StepAttention
from astuner_local.engine.compiled_attention import CompiledAttention
from astuner_local.engine.exact_rows import find_row_multiple
from astuner_local.engine.kv_cache import ROWS, KvCache, round_up
from astuner_local.engine.placement import Placement
from astuner_local.engine.plan import Plan, make_plan
from astuner_local.engine.sampler import Sampler
from astuner_local.engine.slots import Generation
from astuner_local.trainer.pass_size import CPU_CACHE_BYTES

if TYPE_CHECKING:
    from astuner_local.compiled.kernels import Kernels
    from astuner_local.forward.seam import Forward

_IDLE_SHARE = 4


@define
class EngineStats:
    """Counters since the start."""

    steps: int = 0
    decoded: int = 0
    """Tokens sampled."""
    prefilled: int = 0
    """Prompt tokens computed."""
    shared: int = 0
    """Prompt tokens already computed, by this session or another."""


class BatchEngine:
    """Continuous batching over a `Forward`: requests join at any step, and each step advances all of them.

    The ids and log-probabilities of a request depend only on its ids, its sampling parameters and the weights; bit for bit on a
    CPU in float32, where every matrix product gets a multiple of `exact_rows` rows. One caller at a time, except for `submit`.
    """

    def __init__(
        self,
        forward: Forward,
        *,
        max_model_len: int,
        max_num_seqs: int = 64,
        device: torch.device | str = "cpu",
        kv_tokens: int | None = None,
        prefill_tokens: int = 1024,
        kernels: Kernels | None = None,
    ) -> None:
        """Run at most `max_num_seqs` requests at once and `prefill_tokens` prompt tokens per step.

        The KV cache holds up to `kv_tokens` tokens (default: 4 GiB of them, on CUDA half of the free memory), never less than
        `ROWS` sequences of `max_model_len`. Attention is computed by `kernels`, if given and fit for the forward's heads.
        """
        self._forward = forward
        self._device = torch.device(device)
        self._max_model_len = max_model_len
        self._max_num_seqs = max_num_seqs
        self._prefill_tokens = prefill_tokens
        self._arrived: deque[Generation] = deque()
        self._waiting: deque[Generation] = deque()
        self._cache = KvCache(
            num_layers=forward.num_layers,
            num_kv_heads=forward.num_kv_heads,
            head_dim=forward.head_dim,
            dtype=self._kv_dtype(),
            device=self._device,
        )
        self._slots = Placement(
            self._cache,
            max_rows=_IDLE_SHARE * max_num_seqs,
            max_length=max_model_len,
            max_tokens=kv_tokens or self._affordable_tokens(),
        )
        fits = fits_kernels(forward.num_heads, forward.num_kv_heads, forward.head_dim)
        self._kernels = kernels if kernels is not None and fits and kernels.dtype == self._cache.dtype else None
        self._sampler: tuple[list[Generation], Sampler] | None = None
        self.stats = EngineStats()

    @property
    def busy(self) -> bool:
        """Whether any request runs or waits."""
        return bool(self._arrived or self._waiting or self._slots.running)

    @property
    def running(self) -> bool:
        """Whether a step that admits nothing would have something to do."""
        return bool(self._slots.running)

    def submit(self, request: Request) -> Generation:
        """Queue a request; may be called during a step. A prompt that leaves no room for a token ends at once with `length`."""
        sampling = request.sampling
        prompt = np.asarray(request.prompt_ids, np.int32)
        if prompt.ndim != 1 or not len(prompt):
            raise ValueError(f"request {request.id}: the prompt is empty")
        if prompt.min() < 0 or prompt.max() >= self._forward.vocab_size:
            raise ValueError(f"request {request.id}: the prompt has ids outside of the vocabulary of {self._forward.vocab_size}")
        limit = max(0, min(sampling.max_tokens, self._max_model_len - len(prompt)))
        tokens = np.empty(len(prompt) + limit, np.int32)
        tokens[: len(prompt)] = prompt
        generation = Generation(
            request=request, tokens=tokens, known=len(prompt), limit=limit, stops=frozenset(sampling.stop_token_ids)
        )
        if limit:
            self._arrived.append(generation)
        else:
            generation.finish = "length"
        return generation

    def release(self, session: str) -> None:
        """Drop the cache of a session."""
        self._slots.release(session)

    @torch.no_grad()
    def refresh(self, forward: Forward | None = None) -> None:
        """Take over new weights, of another forward of the same shape if given; requests under way continue with them."""
        if forward is None:
            self._forward.refresh()
        else:
            self._forward = forward
        with torch.inference_mode():  # the cache was made in this dtype
            self._slots.forget()

    def drop(self, error: Exception) -> list[Generation]:
        """End all requests with an error, and drop the cache."""
        ended = [slot.generation for slot in self._slots.running if slot.generation is not None]
        ended += [*self._waiting, *self._arrived]
        for slot in list(self._slots.running):
            self._slots.finish(slot)
        self._waiting.clear()
        self._arrived.clear()
        self._slots.forget()
        for generation in ended:
            generation.error = error
        return ended

    @torch.inference_mode()
    def step(self, *, admit: bool = True) -> list[Generation]:
        """Advance everything by one forward pass; return the requests that got a token or ended.

        With `admit` false no waiting request is started.
        """
        while self._arrived:
            self._waiting.append(self._arrived.popleft())
        ended = self._drop_cancelled()
        if admit:
            self._admit()
        self._slots.make_room()
        self._requeue()
        self._slots.compact()
        plan = make_plan(self._slots.running, self._prefill_tokens)
        if plan is None:
            return ended
        hidden = self._run(plan)
        self.stats.steps += 1
        self.stats.shared = self._slots.shared
        for slot in plan.decoding:
            slot.length += 1
        for slot, stretch in plan.stretches:
            slot.length += stretch.size
            self.stats.prefilled += stretch.size
        return ended + self._sample(hidden, plan)

    def _drop_cancelled(self) -> list[Generation]:
        ended = []
        for slot in [slot for slot in self._slots.running if slot.generation is not None and slot.generation.cancelled]:
            assert slot.generation is not None
            ended.append(slot.generation)
            self._slots.finish(slot)
        ended += [generation for generation in self._waiting if generation.cancelled]
        if ended:
            self._waiting = deque(generation for generation in self._waiting if not generation.cancelled)
            for generation in ended:
                generation.finish = "abort"
        return ended

    def _admit(self) -> None:
        held: deque[Generation] = deque()
        while self._waiting and len(self._slots.running) < self._max_num_seqs:
            generation = self._waiting.popleft()
            if not self._slots.place(generation):
                held.append(generation)
        self._waiting = held + self._waiting
        self._requeue()

    def _requeue(self) -> None:
        """Put requests that lost their slot at the head of the queue."""
        self._waiting.extendleft(reversed(self._slots.preempted))
        self._slots.preempted.clear()

    def _pad(self, rows: int) -> int:
        """Return how many rows to compute, so that each gets its bits."""
        if rows <= self._forward.unpadded_rows:
            return rows
        return round_up(rows, find_row_multiple(self._cache.dtype, self._device, self._forward.head_dim))

    def _run(self, plan: Plan) -> Tensor:
        """Return the hidden states of all tokens of a step."""
        inputs = plan.lay_out(self._pad(plan.tokens))
        positions = torch.from_numpy(inputs.positions).to(self._device)
        ids = torch.from_numpy(inputs.ids).to(self._device)
        if self._kernels is not None:
            slots = torch.from_numpy(inputs.rows)
            compiled = CompiledAttention(self._kernels, self._cache, slots, positions, scale=self._forward.scale)
            return self._forward.hidden(ids, positions, compiled)
        attend = StepAttention(
            self._cache,
            scale=self._forward.scale,
            multiple=find_row_multiple(self._cache.dtype, self._device, self._forward.head_dim),
            destinations=self._cache.destinations(inputs.rows, inputs.positions),
            positions=positions,
            decoding=plan.rows,
            longest=inputs.longest,
            stretches=[stretch for _, stretch in plan.stretches],
        )
        return self._forward.hidden(ids, positions, attend)

    def _sample(self, hidden: Tensor, plan: Plan) -> list[Generation]:
        """Draw a token for every sequence whose last known token has run."""
        if not plan.wanted:
            return []
        rows = [row for _, row in plan.wanted]
        rows += [0] * (self._pad(len(rows)) - len(rows))
        logits = self._forward.logits(hidden.index_select(0, torch.tensor(rows, device=self._device)))
        generations = [slot.generation for slot, _ in plan.wanted if slot.generation is not None]
        counts = [len(generation.ids) for generation in generations]
        drawn = self._get_sampler(generations).draw(logits[: len(generations)], counts)
        self.stats.decoded += len(generations)
        for row, ((slot, _), generation) in enumerate(zip(plan.wanted, generations, strict=True)):
            token, logprob = drawn.ids[row], drawn.logprobs[row]
            generation.ids.append(token)
            generation.logprobs.append(logprob)
            generation.tokens[generation.known] = token
            generation.known += 1
            if row in drawn.tops:
                generation.tops.append(dict(drawn.tops[row]))
            if logprob != logprob:
                generation.error = AstunerError(
                    f"the model gives no finite logits after {generation.known - 1} tokens of request {generation.request.id}: "
                    "its weights have diverged"
                )
            elif token in generation.stops:
                generation.finish = "stop"
            elif len(generation.ids) >= generation.limit:
                generation.finish = "length"
            if generation.done:
                self._slots.finish(slot)
        return generations

    def _get_sampler(self, generations: list[Generation]) -> Sampler:
        if self._sampler is None or self._sampler[0] != generations:
            self._sampler = generations, Sampler([generation.request.sampling for generation in generations], self._device)
        return self._sampler[1]

    @torch.inference_mode()
    def _kv_dtype(self) -> torch.dtype:
        """Return the dtype in which the forward computes keys."""
        seen = []

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            seen.append(k.dtype)
            return q

        nothing = torch.zeros(ROWS, dtype=torch.long, device=self._device)
        self._forward.hidden(nothing, nothing, attend)
        return seen[0]

    def _affordable_tokens(self) -> int:
        free = torch.cuda.mem_get_info(self._device)[0] // 2 if self._device.type == "cuda" else CPU_CACHE_BYTES
        return free // self._cache.bytes_per_token
