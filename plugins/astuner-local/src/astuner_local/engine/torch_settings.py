"""What torch keeps for a whole process or thread, and users' code in the same process may change."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import torch
from attrs import frozen


def _read_determinism() -> tuple[bool, bool, bool]:
    on, only_warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    return on, only_warns, torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]  # set by name


def _write_determinism(found: tuple[bool, bool, bool]) -> None:
    torch.use_deterministic_algorithms(found[0], warn_only=found[1])
    torch.utils.deterministic.fill_uninitialized_memory = found[2]  # type: ignore[attr-defined]  # as above


def _flushes_denormals() -> bool:
    # Torch has no function for this mode of the processor, which holds for Python's numbers too.
    return _SMALLEST_NORMAL * 0.5 == 0.0


_SMALLEST_NORMAL = sys.float_info.min

_SETTINGS: Sequence[tuple[Callable[[], Any], Callable[[Any], Any]]] = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (_read_determinism, _write_determinism),
    (_flushes_denormals, torch.set_flush_denormal),
    (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    (torch.backends.cuda.mem_efficient_sdp_enabled, torch.backends.cuda.enable_mem_efficient_sdp),
    (torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
)
"""How each is read and written."""


@frozen
class TorchSettings:
    """The settings that a run computes with. Random numbers are not among them: torch's generator is not used."""

    values: Sequence[Any]
    """Of `_SETTINGS`."""
    device: torch.device
    """Where tensors are made by default."""

    @classmethod
    def read(cls) -> Self:
        """Return those of this moment."""
        return cls([read() for read, _ in _SETTINGS], torch.get_default_device())

    def restore(self) -> None:
        """Set what differs from them."""
        for (read, write), value in zip(_SETTINGS, self.values, strict=True):
            if read() != value:
                write(value)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Compute with these settings while the block lasts, and put back what users' code has set after it.

        Autocast and inference mode are off inside; whether gradients are computed is for the code in the block to say.
        """
        with ExitStack() as stack:
            for (read, write), value in zip(_SETTINGS, self.values, strict=True):
                if (found := read()) != value:
                    stack.callback(write, found)
                    write(value)
            if torch.get_default_device() != self.device:
                stack.enter_context(self.device)
            for kind in ("cpu", "cuda"):
                if torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, enabled=False))
            if torch.is_inference_mode_enabled():
                stack.enter_context(torch.inference_mode(mode=False))
            yield


@contextmanager
def restore_torch_settings() -> Iterator[None]:
    """Restore the settings, the random numbers and the progress bars at the end: a notebook or a sweep continues after a run."""
    from transformers.utils import logging

    before, random, shows_bars = TorchSettings.read(), torch.get_rng_state(), logging.is_progress_bar_enabled()
    try:
        yield
    finally:
        before.restore()
        torch.set_rng_state(random)
        if shows_bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # transformers ships it without types
