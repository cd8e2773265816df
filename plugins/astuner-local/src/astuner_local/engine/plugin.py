"""The engine `local`: the in-process engine, over its own model or the live module of the trainer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from attrs import evolve, field, frozen
from attrs.validators import ge, optional

from astuner.contract.protocols import RunInfo, settle_sequences
from astuner.contract.schema import Capabilities, Chunk, Request

if TYPE_CHECKING:
    import torch
    from torch import nn

    from astuner.episodes.rollout.recipe import Recipe
    from astuner_local.engine.serving import Serving


@frozen(kw_only=True)
class LocalOptions:
    """Options of the engine `local`, in `rollout.local`."""

    max_num_seqs: int | None = field(default=None, validator=optional(ge(1)))
    """Sequences decoded at the same time; `rollout.max_num_seqs` when not given."""
    kv_tokens: int | None = field(default=None, validator=optional(ge(1)))
    """Tokens that the KV cache may hold; when not given, what fits in 4 GiB, or in half of a GPU's free memory."""
    prefill_tokens: int = field(default=1024, validator=ge(16))
    """Prompt tokens computed in one step, between two tokens of decoding requests."""
    threads: int | None = field(default=None, validator=optional(ge(1)))
    """Torch's threads in this process; its own choice when not given."""
    compiled: bool = True
    """Compute attention and products of few rows on a CPU by kernels in C, if the machine has a C compiler."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes the GPU when there is one."""


OWN_ENGINES = ("local",)
"""Engine names with which the backbone `local` runs this engine over its own module."""


def engine_options(recipe: Recipe) -> LocalOptions:
    """Return the user's options for this engine; the defaults when another one is used."""
    if recipe.engine is None or recipe.engine.candidate.name not in OWN_ENGINES:
        return LocalOptions()
    return recipe.engine.options or LocalOptions()


class LocalEngine:
    """Generates in this process, with continuous batching; KV is kept between the calls of a session.

    The same request gives the same ids and bits whatever else is in the batch, if `capabilities.reproducible` says so:
    on a CPU in float32. It lives in the event loop in which `start` is called.
    """

    Options: ClassVar[type[LocalOptions]] = LocalOptions

    def __init__(self, opener: Callable[[], Serving], capabilities: Capabilities) -> None:
        """Use `from_run` or `from_module`. `opener` is called by `start`."""
        self._opener = opener
        self._capabilities = capabilities
        self._serving: Serving | None = None
        self._threads_before = 0

    @classmethod
    def from_run(cls, options: LocalOptions | None, run_info: RunInfo) -> LocalEngine:
        """Make an engine that loads `model.path` when it is started."""
        options = options or LocalOptions()
        config = run_info.config
        max_model_len = config.rollout.max_model_len
        path, dtype = config.model.path, config.model.dtype

        def open_serving() -> Serving:
            from astuner_local.engine.serving import Serving, load

            model = load(path, dtype, device=options.device, threads=options.threads)
            on_gpu = next(model.parameters()).is_cuda
            sequences = options.max_num_seqs or settle_sequences(config.rollout, engines=1, gpu=on_gpu).value
            return Serving(
                model,
                dtype=None,
                max_model_len=max_model_len,
                max_num_seqs=sequences,
                kv_tokens=options.kv_tokens,
                prefill_tokens=options.prefill_tokens,
                compiled=options.compiled,
            )

        return cls(open_serving, Capabilities(weight_updates=True, max_model_len=max_model_len))

    @classmethod
    def from_module(
        cls,
        model: nn.Module,
        *,
        max_model_len: int,
        max_num_seqs: int = 64,
        dtype: torch.dtype | str | None = None,
        kv_tokens: int | None = None,
        prefill_tokens: int = 1024,
        version: int = 0,
        compiled: bool = True,
    ) -> LocalEngine:
        """Make an engine over a live module, which computes in `dtype` (the module's own when None).

        `version` is that of its weights; `compiled` is the option of that name.

        `update_weights(module, version)` serves the module's later weights.
        """
        from astuner_local.engine.serving import Serving

        serving = Serving(
            model,
            dtype=dtype,
            max_model_len=max_model_len,
            max_num_seqs=max_num_seqs,
            kv_tokens=kv_tokens,
            prefill_tokens=prefill_tokens,
            version=version,
            compiled=compiled,
        )
        return cls(lambda: serving, Capabilities(weight_updates=True, max_model_len=max_model_len))

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do; a trial at the start decides `reproducible`."""
        return self._capabilities

    async def start(self) -> None:
        """Load the model if necessary, and serve in the running event loop."""
        if self._serving is None:
            import torch

            self._threads_before = torch.get_num_threads()
            self._serving = self._opener()
            self._capabilities = evolve(self._capabilities, reproducible=self._serving.is_reproducible())
            self._serving.start()

    def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the tokens of a request as they come. Closing the iterator cancels the request."""
        return self._require_serving().generate(request)

    async def release(self, session: str) -> None:
        """Free the KV cache of a session."""
        await self._require_serving().release(session)

    async def update_weights(self, ref: nn.Module | str | Path | None, version: int) -> None:
        """Serve the weights of a module or a directory (None: of the module it is over), and drop all kept keys and values.

        Requests under way continue with the new weights; their chunks mark the change.
        """
        await self._require_serving().update_weights(ref, version)

    async def pause(self) -> None:
        """Start no new request until `resume`; those under way continue."""
        self._require_serving().paused = True

    async def resume(self) -> None:
        """Start requests again after `pause`."""
        self._require_serving().resume()

    async def close(self) -> None:
        """Stop; requests under way end with `abort`."""
        if self._serving is not None:
            import torch

            serving, self._serving = self._serving, None
            await serving.close()
            torch.set_num_threads(self._threads_before)

    @property
    def stats(self) -> Any:
        """Counters of the engine's steps and tokens, `batch.EngineStats`."""
        return self._require_serving().stats

    def _require_serving(self) -> Serving:
        if self._serving is None:
            raise RuntimeError("the engine is not running: await engine.start() comes first, and close() is final")
        return self._serving
