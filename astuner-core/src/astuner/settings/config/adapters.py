"""LoRA adapters as the model of a run: a directory that peft wrote, and how it fits the keys of the configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.contract.errors import ConfigError, Problem

if TYPE_CHECKING:
    from astuner.settings.config.model import Model

ADAPTER_FILE = "adapter_config.json"
"""A directory with this file holds adapters, and names the model that they belong to."""
MANIFEST = "manifest.json"
"""The file of a checkpoint that says where it was written, among other things (`astuner.runs.store.manifest`)."""


@frozen(kw_only=True)
class Adapters:
    """What the file says."""

    base: str
    """The name of a model, or its directory; of a checkpoint that was moved with its project, where the project is now."""
    lora_rank: int
    lora_alpha: float | None
    target_modules: str | tuple[str, ...] | None


def read_adapters(directory: Path) -> Adapters | None:
    """Return the adapters of a directory; None if it holds a whole model, or nothing.

    Raises `ConfigError` for a file that names no base or rank.
    """
    file = directory / ADAPTER_FILE
    if not os.path.isfile(file):
        return None
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8"))
        base, rank = found["base_model_name_or_path"], found["r"]
    except OSError as error:
        raise _refuse(file, f"it cannot be read: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _refuse(file, repr(error)) from error
    if not isinstance(base, str) or not base or not isinstance(rank, int):
        raise _refuse(file, f"base_model_name_or_path is {base!r} and r is {rank!r}")
    targets = found.get("target_modules")
    return Adapters(
        base=_find_moved(base, directory),
        lora_rank=rank,
        lora_alpha=found.get("lora_alpha"),
        target_modules=tuple(sorted(targets)) if isinstance(targets, list) else targets,
    )


def _find_moved(base: str, directory: Path) -> str:
    """Return the directory of the base; if it is gone, the one in the same place as seen from the adapters, if there is one."""
    if not os.path.isabs(base) or Path(base).exists():
        return base
    try:
        written_at = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))["written_at"]
        moved = os.path.abspath(directory.resolve() / os.path.relpath(base, written_at))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return base
    return moved if Path(moved).is_dir() else base


def _refuse(file: Path, why: str) -> ConfigError:
    message = f"{file} does not describe LoRA adapters ({why}): copy the directory again, or name another checkpoint"
    return ConfigError([Problem(key="astuner.model.path", message=message)])


def find_conflicts(adapters: Adapters, model: Model, user_keys: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each key that the user set and that the adapters do not have, with a message that names both values."""
    asked = model.target_modules if isinstance(model.target_modules, str) else tuple(sorted(model.target_modules))
    for name, wanted in (("lora_rank", model.lora_rank), ("lora_alpha", model.lora_alpha), ("target_modules", asked)):
        has = getattr(adapters, name)
        # peft writes the names that `all-linear` found; the backbone compares them with its model.
        if f"model.{name}" not in user_keys or has is None or wanted in (has, "all-linear"):
            continue
        meant = "0 (train all weights)" if name == "lora_rank" and wanted == 0 else repr(wanted)
        yield (
            f"model.{name}",
            f"model.path holds LoRA adapters with {name} {has!r}, and this asks for {meant}. Remove the key to train these "
            "adapters on, or merge them into their base first (`astuner export RUN --merge-lora --out DIRECTORY`).",
        )
