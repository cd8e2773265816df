"""Loading a tokenizer without loading torch, when its class is already known.

`AutoTokenizer` reads the model's configuration to choose a class, and that imports torch, which costs seconds in a process
that needs no torch otherwise. The class chosen for a local folder is remembered; as long as no file there and
no version of transformers changes, the same class loads the same tokenizer.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from astuner.settings.config.pretrained import guard_loading
from astuner.shared.user_cache import keep_cached, read_cached

NOT_THE_TOKENIZERS = (".safetensors", ".bin", ".pt", ".gguf")
"""Endings of model files that do not affect the tokenizer: a training step rewrites them."""


def load_tokenizer(model_path: str) -> Any:
    """Return the tokenizer of a local folder or a hub id, as `AutoTokenizer` does; raises `ConfigError`."""
    with guard_loading(model_path):
        return _load_tokenizer(model_path)


def _load_tokenizer(model_path: str) -> Any:
    name = _name_folder(model_path)
    remembered = None if name is None else read_cached("tokenizers", name)
    chosen = None if remembered is None or "torch" in sys.modules else _load_class(remembered)
    if chosen is not None:
        return chosen.from_pretrained(model_path, trust_remote_code=False)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_path, trust_remote_code=False)
    if name is not None and remembered is None and _is_reproducible(tokenizer, model_path):
        chosen = type(tokenizer)
        keep_cached("tokenizers", name, f"{chosen.__module__}:{chosen.__qualname__}".encode(), most_bytes=10_000)
    return tokenizer


def generation_ends(model_path: str) -> tuple[int, ...]:
    """Return the ids at which a model ends its turn, from the `generation_config.json` of a local folder or a hub id; often none.

    Read as plain JSON: transformers' own class for it imports torch.
    """
    from transformers.utils.hub import cached_file

    try:
        path = cached_file(model_path, "generation_config.json")
        ends = None if path is None else json.loads(Path(path).read_text(encoding="utf-8")).get("eos_token_id")
    except (OSError, ValueError, RecursionError, AttributeError):
        # A model may lack this file; its tokenizer and template define the end of a turn.
        return ()
    return tuple(end for end in (ends if isinstance(ends, list) else [ends]) if isinstance(end, int))


def _is_reproducible(tokenizer: Any, model_path: str) -> bool:
    """Whether the class alone recreates the same tokenizer."""
    if type(tokenizer).__module__.partition(".")[0] != "transformers":
        # A class that came with the model lives in a module that exists only once its folder was loaded.
        return False
    again = type(tokenizer).from_pretrained(model_path, trust_remote_code=False)
    return _describe(again) == _describe(tokenizer)


def _describe(tokenizer: Any) -> list[Any]:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    added = {number: str(word) for number, word in tokenizer.added_tokens_decoder.items()}
    text = None if backend is None else backend.to_str()
    return [text, added, tokenizer.special_tokens_map, tokenizer.chat_template, tokenizer.init_kwargs.keys()]


def _name_folder(model_path: str) -> str | None:
    """Return a name for a folder in its current state; None if it is not a local folder."""
    home = Path(model_path)
    if not home.is_dir():
        return None
    stats = [
        (entry.name, entry.stat().st_size, entry.stat().st_mtime_ns)
        for entry in sorted(os.scandir(home), key=lambda entry: entry.name)
        if entry.is_file() and not entry.name.endswith(NOT_THE_TOKENIZERS)
    ]
    facts = json.dumps([str(home.resolve()), version("transformers"), version("tokenizers"), stats])
    return hashlib.sha256(facts.encode()).hexdigest()[:32]


def _load_class(remembered: bytes) -> Any:
    try:
        module, _, name = remembered.decode().partition(":")
        return getattr(importlib.import_module(module), name) if module.startswith("transformers.") else None
    except (ImportError, AttributeError, ValueError):
        return None
