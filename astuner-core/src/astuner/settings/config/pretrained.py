"""Models that others made: loaded without code of theirs and without pickles, and refused in one line if they are broken.

Whoever calls a `from_pretrained` passes `trust_remote_code=False`, for weights also `use_safetensors=True`, and does so inside of
`loading`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from astuner.contract.errors import AstunerError, ConfigError, Problem
from astuner.contract.plain_values import mend_text

KEY = "astuner.model.path"
_LONGEST = 300


@contextmanager
def loading(path: str | Path, key: str = KEY, *, weights: bool = False) -> Iterator[None]:
    """Turn whatever a library raises while it reads a model into `ConfigError`; files that need no library are checked first."""
    check_model_files(path, key, weights=weights)
    try:
        yield
    except (AstunerError, MemoryError):
        raise
    except Exception as error:
        if type(error).__name__ == "OutOfMemoryError":
            raise
        raise _refuse(key, _describe_failure(path, error)) from error


def check_model_files(path: str | Path, key: str = KEY, *, weights: bool = False) -> None:
    """Raise `ConfigError` for a directory whose files ask for code, or with `weights` hold them as pickles alone.

    Nothing is known here of a model that is not a directory.
    """
    directory = Path(path)
    for name in ("config.json", "tokenizer_config.json", "generation_config.json", "adapter_config.json"):
        if (directory / name).is_file():
            asked = next(_find_code(_read_object(directory / name, key)), None)
            if asked is not None:
                message = f"{directory / name}: {asked[0]} asks for code ({asked[1]}), which is not run; delete the key"
                raise _refuse(key, message)
    pickles = sorted(file.name for stem in ("pytorch_model", "adapter_model") for file in directory.glob(f"{stem}*.bin"))
    if weights and pickles and not any(directory.glob("*.safetensors")):
        message = (
            f"{directory} has its weights in a pickle ({pickles[0]}), and pickles are not read. If you trust it, load it with "
            "transformers or peft, and write it again with save_pretrained, which makes safetensors"
        )
        raise _refuse(key, message)


def _read_object(file: Path, key: str) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _refuse(key, f"{file} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise _refuse(key, f"{file} must hold a JSON object")
    return found


def _find_code(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield keys that make a library load code although none is trusted: kernels of the hub, modules by their name."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _find_code(inner, f"{key}.{name}" if key.endswith("implementation") else name)
        if value.get("megatron_config") is not None:
            yield "megatron_core", str(value.get("megatron_core"))
    elif isinstance(value, str) and "_implementation" in key and "/" in value:
        yield key, value


def _describe_failure(path: str | Path, error: Exception) -> str:
    said = mend_text(str(error)).strip()
    if "trust_remote_code" in said:
        return f"{path} brings code of its own (auto_map in its files), which is not run; use a model that transformers knows"
    first = said.partition("\n")[0][:_LONGEST]
    kind = "" if isinstance(error, OSError | ValueError) and first else f"{type(error).__name__}: "
    return f"{path} cannot be loaded: {kind}{first}"


def _refuse(key: str, message: str) -> ConfigError:
    return ConfigError([Problem(key=key, message=message)])
