"""The tokenizer of a run's model, copied into the run directory: its token ids are text also after the model has gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from astuner.runs.store.atomic import explain_os_errors, write_bytes
from astuner.runs.store.directory import RunDirectory
from astuner.settings.config.adapters import read_adapters
from astuner.settings.config.model import Model
from astuner.settings.config.pretrained import find_download
from astuner.shared.private_files import DIRECTORY_MODE

FILE = "tokenizer.json"
OTHERS = ("tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "chat_template.json")
"""Copied where they exist."""


def keep_tokenizer(directory: RunDirectory, model: Model) -> bool:
    """Copy the tokenizer of a local model, or of one from the hub that was downloaded; return whether the run has one now.

    `model` is the section of the configuration, whose template the copy has. Nothing fails without a tokenizer: a model may have
    no such file, and one from the hub may not be downloaded yet.
    """
    if (directory.tokenizer / FILE).is_file():
        return True
    for source in _list_models(model.path):
        content = _read(source, FILE)
        if content is None:
            continue
        with explain_os_errors(directory.tokenizer):
            directory.tokenizer.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        for name in OTHERS:
            if (other := _read(source, name)) is not None:
                write_bytes(directory.tokenizer / name, other)
        if model.chat_template is not None:
            write_bytes(directory.tokenizer / "chat_template.jinja", model.chat_template.encode())
        # The last one: it marks the copy as whole.
        write_bytes(directory.tokenizer / FILE, content)
        return True
    return False


def _list_models(model_path: str) -> Iterator[str]:
    """Yield the model, and the one that it is an adapter of."""
    if not model_path:
        return
    yield model_path
    if (adapters := read_adapters(Path(model_path))) is not None:
        yield adapters.base


def _read(model: str, name: str) -> bytes | None:
    """Return the content of a model's file; None if it is not on this machine."""
    file = Path(model, name) if Path(model).is_dir() else find_download(model, name)
    try:
        return None if file is None else file.read_bytes()
    except OSError:
        return None
