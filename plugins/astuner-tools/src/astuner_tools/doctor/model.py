"""Whether the model of a configuration is there and complete."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import evolve

from astuner_tools.doctor.rows import Row

_WEIGHTS = ("*.safetensors",)
_PICKLES = ("pytorch_model*.bin", "adapter_model*.bin")
_INDEXES = ("*.safetensors.index.json",)
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "*.tiktoken")


def model_rows(path: str, *, weightless: bool = False, environment: Mapping[str, str] = os.environ) -> Iterator[Row]:
    """Yield the parts of a model on disk, or of one in the cache of the Hugging Face hub.

    `path` is `model.path` as it is after loading: absolute, or a name. A `weightless` run needs only the tokenizer.
    """
    if Path(path).is_absolute():
        yield from _part_rows(Path(path), weightless)
        return
    snapshot = _find_snapshot(path, environment)
    if snapshot is not None:
        yield Row(area="model", what=path, detail="in the cache of the Hugging Face hub")
        yield from _part_rows(snapshot, weightless)
    elif _is_offline(environment):
        detail = "not in the cache, and HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids the download"
        yield Row(area="model", what=path, status="broken", detail=detail, remedy=f"hf download {path}")
    else:
        detail = "not in the cache: the run downloads it first"
        yield Row(area="model", what=path, status="warning", detail=detail, remedy=f"hf download {path}")


def _part_rows(directory: Path, weightless: bool) -> Iterator[Row]:
    for row in (_config_row(directory), _weights_row(directory)):
        yield evolve(row, status="warning") if weightless and row.status == "broken" else row
    tokenizer = _list_files(directory, _TOKENIZERS)
    if tokenizer:
        yield Row(area="model", what="tokenizer", detail=", ".join(tokenizer))
    else:
        yield _make_broken_row("tokenizer", f"none of {', '.join(_TOKENIZERS)} in {directory}")


def _config_row(directory: Path) -> Row:
    file = directory / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return _make_broken_row("config.json", f"not in {directory}")
    except (OSError, ValueError, RecursionError) as error:
        return _make_broken_row("config.json", f"cannot be read: {error}")
    if not isinstance(config, Mapping):
        return _make_broken_row("config.json", "is not a JSON object")
    architectures = config.get("architectures") or [config.get("model_type", "of unknown type")]
    return Row(area="model", what="config.json", detail=", ".join(map(str, architectures)))


def _weights_row(directory: Path) -> Row:
    there = _list_files(directory, _WEIGHTS)
    absent: set[str] = set()
    for index in _list_files(directory, _INDEXES):
        try:
            shards = json.loads((directory / index).read_text(encoding="utf-8"))["weight_map"].values()
        except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            return _make_broken_row("weights", f"{index} cannot be read: {error!r}")
        absent |= set(shards) - set(there)
    if absent:
        return _make_broken_row("weights", f"the index names files that are not there: {', '.join(sorted(absent))}")
    if not there:
        pickles = _list_files(directory, _PICKLES)
        found = f"; {pickles[0]} is a pickle, which is not read" if pickles else ""
        return _make_broken_row("weights", f"no *.safetensors in {directory}{found}")
    size = sum((directory / name).stat().st_size for name in there)
    return Row(area="model", what="weights", detail=f"{len(there)} file{'s' * (len(there) > 1)}, {size / 2**20:,.1f} MiB")


def _make_broken_row(what: str, detail: str) -> Row:
    remedy = "set model.path to a complete model in transformers format"
    return Row(area="model", what=what, status="broken", detail=detail, remedy=remedy)


def _list_files(directory: Path, patterns: tuple[str, ...]) -> list[str]:
    # `exists` follows links: the hub's cache consists of links, some of which may be broken.
    return sorted({path.name for pattern in patterns for path in directory.glob(pattern) if path.exists()})


def _find_snapshot(name: str, environment: Mapping[str, str]) -> Path | None:
    """Return the newest snapshot of a model in the hub's cache."""
    home = Path(environment.get("HF_HOME") or Path(environment.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    cache = Path(environment.get("HF_HUB_CACHE") or home / "hub").expanduser()
    folder = cache / f"models--{name.replace('/', '--')}" / "snapshots"
    snapshots = sorted(folder.glob("*/config.json"), key=lambda file: file.lstat().st_mtime)
    return snapshots[-1].parent if snapshots else None


def _is_offline(environment: Mapping[str, str]) -> bool:
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(environment.get(name, "").upper() in ("1", "ON", "YES", "TRUE") for name in names)
