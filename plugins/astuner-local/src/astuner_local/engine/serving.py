"""Runs the batch engine as a task of an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from astuner.contract.errors import AstunerError
from astuner.contract.schema import Chunk, Request
from astuner_local.compiled.kernels import load_kernels
from astuner_local.device import Device, choose_device
from astuner_local.engine.batch import BatchEngine, EngineStats
from astuner_local.engine.reproducible import is_reproducible
from astuner_local.engine.slots import Generation
from astuner_local.engine.torch_settings import TorchSettings
from astuner_local.forward.choose import make_forward, parameter_dtype

if TYPE_CHECKING:
    from astuner_local.forward.seam import Forward

_T = TypeVar("_T")

_SLOW_S = 0.02
"""A step that takes longer runs in a thread, so that it does not block the loop's other tasks."""
_FLUSH_S, _FLUSH_READER_S = 0.1, 0.01
"""How often tokens are handed over, at least and per reader: waking a reader for each would cost more than computing it."""


def load(path: str, dtype: str, *, device: Device = "auto", threads: int | None = None) -> nn.Module:
    """Load a causal language model for inference; `dtype` `auto` is the one of the checkpoint."""
    from transformers.utils.logging import disable_progress_bar

    from astuner.settings.config.adapters import ADAPTER_FILE
    from astuner_local.trainer.model_io import load_model, load_weights, read_config

    if threads is not None:
        torch.set_num_threads(threads)
    where = choose_device(device)
    if (Path(path) / ADAPTER_FILE).is_file():
        adapted: nn.Module = load_model(path, dtype, device=where)
        return adapted.eval()
    read_config(path)
    disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers' own bars would run through the transcripts
    model: nn.Module = load_weights(path, dtype)
    return model.to(where).eval()


class Serving:
    """A batch engine over a module, and the streams of its readers."""

    def __init__(
        self,
        model: nn.Module,
        *,
        dtype: torch.dtype | str | None,
        max_model_len: int,
        max_num_seqs: int,
        kv_tokens: int | None = None,
        prefill_tokens: int = 1024,
        version: int = 0,
        compiled: bool = True,
    ) -> None:
        """Prepare, with weights of this version; nothing runs before `start`. `compiled` allows kernels in C."""
        self.paused = False
        self._model = model
        self._dtype: torch.dtype | None = getattr(torch, dtype) if isinstance(dtype, str) else dtype
        self._device = next(model.parameters()).device
        self._settings = TorchSettings.read()
        computes_in = self._dtype or parameter_dtype(model)
        self._kernels = load_kernels(computes_in, self._device.type) if compiled else None
        self._forward: Forward = make_forward(model, trainable=False, dtype=self._dtype, kernels=self._kernels)
        self._batch = BatchEngine(
            self._forward,
            max_model_len=max_model_len,
            max_num_seqs=max_num_seqs,
            device=self._device,
            kv_tokens=kv_tokens,
            prefill_tokens=prefill_tokens,
            kernels=self._kernels,
        )
        self._version = version
        self._streams: dict[Generation, _Stream] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._step_s = 0.0
        self._flushed = 0.0
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()

    @property
    def stats(self) -> EngineStats:
        """Counters since the start."""
        return self._batch.stats

    def is_reproducible(self) -> bool:
        """Whether a trial gave the same bits alone and in company; False without a trial where rounding rules it out."""
        exact = (self._dtype or parameter_dtype(self._model)) == torch.float32 and self._device.type == "cpu"
        return exact and is_reproducible(self._forward, self._kernels)

    def start(self) -> None:
        """Serve in the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._serve(), name="astuner-local-engine")

    def resume(self) -> None:
        """Start requests again."""
        self.paused = False
        self._wake.set()

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the chunks of a request; leaving the loop early cancels it."""
        if request.constraint is not None:
            raise AstunerError(f"request {request.id}: the engine 'local' has no constrained generation; ask its capabilities")
        generation = self._batch.submit(request)
        stream = _Stream(generation)
        if not generation.done:
            self._streams[generation] = stream
            self._wake.set()
        else:
            stream.flush(self._version)
        try:
            while True:
                chunk = await stream.chunks.get()
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk
                if chunk.finish_reason is not None:
                    return
        finally:
            self._streams.pop(generation, None)
            if not generation.done:
                generation.cancelled = True
                self._wake.set()

    async def release(self, session: str) -> None:
        """Drop the cache of a session."""
        async with self._turn:
            self._batch.release(session)

    async def update_weights(self, ref: nn.Module | str | Path | None, version: int) -> None:
        """Take over weights between two steps."""
        async with self._turn:
            self._flush_all()
            forward = None
            if ref is not None and ref is not self._model:
                with self._settings.hold():
                    forward = self._forward_over(ref)
            await self._run_in_thread(lambda: self._batch.refresh(forward))
            self._version = version

    async def close(self) -> None:
        """End the task, and every stream with `abort`."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for generation, stream in list(self._streams.items()):
            if not generation.done:
                generation.finish = "abort"
            stream.flush(self._version)
        self._streams.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    async def _serve(self) -> None:
        while True:
            if not (self._batch.running if self.paused else self._batch.busy):
                self._wake.clear()
                await self._wake.wait()
                continue
            async with self._turn:
                try:
                    advanced = await self._step()
                except Exception as error:  # noqa: BLE001  # the boundary: reported to all that wait for a token
                    advanced = self._batch.drop(error)
                self._hand_over(advanced)
            await asyncio.sleep(0)

    async def _step(self) -> list[Generation]:
        started = time.perf_counter()
        admit = not self.paused
        if self._step_s > _SLOW_S:
            advanced = await self._run_in_thread(lambda: self._batch.step(admit=admit))
        else:
            with self._settings.hold():
                advanced = self._batch.step(admit=admit)
        self._step_s += 0.2 * (time.perf_counter() - started - self._step_s)
        return advanced

    async def _run_in_thread(self, call: Callable[[], _T]) -> _T:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="astuner-local-engine")

        def compute() -> _T:
            with self._settings.hold():
                return call()

        running = asyncio.get_running_loop().run_in_executor(self._pool, compute)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # The thread cannot be stopped, and the engine must not be touched before it ends.
            await asyncio.gather(running, return_exceptions=True)
            raise

    def _hand_over(self, advanced: list[Generation]) -> None:
        for generation in advanced:
            if generation.done and (stream := self._streams.get(generation)):
                stream.flush(self._version)
        now = time.monotonic()
        if now - self._flushed > max(_FLUSH_S, _FLUSH_READER_S * len(self._streams)):
            self._flushed = now
            self._flush_all()

    def _flush_all(self) -> None:
        for stream in self._streams.values():
            stream.flush(self._version)

    def _forward_over(self, ref: nn.Module | str | Path) -> Forward:
        device: Any = self._device.type
        model = ref if isinstance(ref, nn.Module) else load(str(ref), "auto", device=device)
        forward = make_forward(model, trainable=False, dtype=self._dtype, kernels=self._kernels)
        for name in ("num_layers", "num_heads", "num_kv_heads", "head_dim", "vocab_size"):
            old, new = getattr(self._forward, name), getattr(forward, name)
            if old != new:
                raise AstunerError(f"the new weights are of another model: {name} is {new}, and was {old}")
        self._model, self._forward = model, forward
        return forward


class _Stream:
    """Carries a request's tokens to its reader."""

    def __init__(self, generation: Generation) -> None:
        self.chunks: asyncio.Queue[Chunk | Exception] = asyncio.Queue()
        self._generation = generation
        self._sent = 0
        self._ended = False

    def flush(self, version: int) -> None:
        """Hand over the tokens since the last call, and the end once."""
        generation, start = self._generation, self._sent
        end = len(generation.ids)
        if self._ended or (start == end and not generation.done):
            return
        self._sent, self._ended = end, generation.done
        if generation.error is not None:
            self.chunks.put_nowait(generation.error)
            return
        self.chunks.put_nowait(
            Chunk(
                ids=tuple(generation.ids[start:end]),
                logprobs=tuple(generation.logprobs[start:end]),
                top_logprobs=tuple(generation.tops[start:end]),
                weight_version=version,
                finish_reason=generation.finish,
            )
        )
