"""A backbone's weights as files that a server can load."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    import torch

MEMORY = Path("/dev/shm")
"""A file system in memory, if there is one."""
ADAPTER = "adapter_config.json"
PREFIX = "astuner-weights-"
"""The prefix of our directories; the id of their process follows."""
SPARE = 1.2
"""Required free space, as a multiple of the weights."""


@frozen(kw_only=True)
class StoredWeights:
    """Weights on disk."""

    directory: Path
    adapter: bool
    """Whether they are a LoRA adapter, on top of the server's model."""


@asynccontextmanager
async def store_weights(ref: Any, place: Path, *, dtype: str | None = None) -> AsyncIterator[StoredWeights]:
    """Yield the files of a module, peft-wrapped or not, or of a directory in transformers format.

    Those of a module are below `place`, in a directory that is complete when it appears and is removed at the end. `dtype` is the
    server's precision: nothing finer is written.
    """
    if isinstance(ref, (str, Path)):
        yield _read_directory(Path(ref))
        return
    if not hasattr(ref, "state_dict"):
        raise TypeError(f"weights are a torch module or a directory, not {ref!r:.100}")
    home = await asyncio.to_thread(_write, ref, place, dtype)
    try:
        yield StoredWeights(directory=home / "weights", adapter=_is_adapted(ref))
    finally:
        await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


def place_for(ref: Any, run_directory: Path, *, same_machine: bool) -> Path:
    """Return where to write the files of a module: memory that the servers share, if it has room, else the run directory."""
    if same_machine and hasattr(ref, "state_dict"):
        try:
            free = shutil.disk_usage(MEMORY).free
        except OSError:
            free = 0
        if free > SPARE * _size(ref):
            return MEMORY
    return run_directory / "weights"


def remove_leftovers(place: Path) -> None:
    """Remove the files of processes that were killed during an update."""
    for home in place.glob(f"{PREFIX}*"):
        pid = home.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not _is_alive(int(pid)):
            shutil.rmtree(home, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _read_directory(directory: Path) -> StoredWeights:
    return StoredWeights(directory=directory.absolute(), adapter=(directory / ADAPTER).is_file())


def _write(module: Any, place: Path, dtype: str | None) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=place))
    part = home / "part"
    try:
        if _is_adapted(module):
            # peft would check on the hub whether the vocabulary of the base has grown.
            module.save_pretrained(part, save_embedding_layers=False)
        else:
            _write_whole(module, part, dtype)
        part.rename(home / "weights")
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    return home


def _write_whole(module: Any, directory: Path, dtype: str | None) -> None:
    state = _cast(module.state_dict(), dtype)
    if hasattr(module, "save_pretrained"):
        # It knows the checkpoint's names for what the module has merged or renamed.
        module.save_pretrained(directory, state_dict=state)
        return
    from safetensors.torch import save_file

    directory.mkdir()
    save_file(_drop_shared(state), directory / "model.safetensors")


def _cast(state: dict[str, torch.Tensor], dtype: str | None) -> dict[str, torch.Tensor]:
    import torch

    target: torch.dtype | None = getattr(torch, dtype, None) if dtype else None
    if target is None:
        return state
    done: dict[int, torch.Tensor] = {}

    def cast(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or tensor.element_size() <= target.itemsize:
            return tensor
        # Tied weights stay one tensor. Copied to main memory: training fills the device.
        if tensor.data_ptr() not in done:
            done[tensor.data_ptr()] = tensor.to(device="cpu", dtype=target)
        return done[tensor.data_ptr()]

    return {name: cast(tensor) for name, tensor in state.items()}


def _drop_shared(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return each tensor once, under its first name: vLLM ties what the model's configuration ties."""
    kept: dict[int, str] = {}
    for name, tensor in state.items():
        kept.setdefault(tensor.data_ptr(), name)
    return {name: state[name].contiguous() for name in kept.values()}


def _is_adapted(module: Any) -> bool:
    return hasattr(module, "peft_config")


def _size(module: Any) -> int:
    wanted = [p for p in module.parameters() if p.requires_grad] if _is_adapted(module) else module.parameters()
    return sum(int(p.numel() * p.element_size()) for p in wanted)
