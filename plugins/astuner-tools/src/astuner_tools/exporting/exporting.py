"""Writing a checkpoint in the format that was asked for, with its card, and uploading it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from attrs import frozen

from astuner.cli.own_venv import enter_venv
from astuner.contract.errors import UsageError
from astuner.runs.inspection.run import Run
from astuner.runs.inspection.run_search import open_run
from astuner.runs.store.atomic import check_free, write_directory
from astuner.runs.store.checkpoints import check_intact, find_better_step, find_checkpoint
from astuner.settings.config.adapters import ADAPTER_FILE, read_adapters
from astuner_tools.exporting.base_model import find_base, hide_paths
from astuner_tools.exporting.model_card import Export, write_card

if TYPE_CHECKING:
    from astuner.contract.protocols import Backbone
    from astuner_tools.exporting.request import ExportRequest


@frozen(kw_only=True)
class Source:
    """What is exported."""

    path: Path
    run: Run | None
    """None for adapters that belong to no run."""
    write: Callable[[Path, bool, str | None], None]
    """Writes the model into an empty directory: whether adapters are merged, and the precision."""


def export_run(request: ExportRequest) -> Iterator[str]:
    """Write the model; yield what was done. Raises `UsageError` before anything is loaded if it cannot be."""
    check_free(request.out)
    source = _find_source(request)
    adapters = read_adapters(source.path)
    kind = request.kind or ("adapter" if adapters else "hf")
    if kind == "adapter" and adapters is None:
        raise UsageError(f"{source.path}: has no LoRA adapters, since all weights were trained; use --format hf")
    if kind == "adapter" and request.dtype is not None:
        raise UsageError("--dtype needs --format hf or gguf here: an adapter without its base keeps its own precision")
    base = find_base(adapters.base if adapters else None, source.run, request.base)
    if request.push is not None:
        from astuner_tools.exporting.hub import check_login

        if kind == "adapter" and base.hub_name is None:
            raise UsageError(
                "--push: the adapters belong to a model in a directory of this machine, which others cannot load. Name the same "
                "model on the hub with --base OWNER/NAME, or upload a whole model with --format hf"
            )
        check_login(request.push, public=request.public)
    if kind == "gguf":
        from astuner_tools.exporting.gguf_model import check_convertible

        for folder in (source.path, base.folder):
            if folder is not None and (folder / "config.json").is_file():
                check_convertible(folder)
                break
    with write_directory(request.out) as made:
        dtype = _write(source, kind, request, made)
        hide_paths(made, base)
        write_card(made, source.run, Export(kind=kind, step=_read_step(source), dtype=dtype, base=base, name=request.out.name))
    better = find_better_step(source.run.directory) if source.run is not None and request.checkpoint == "last" else None
    hint = f"; the validation of step {better} was better: --checkpoint best exports that one" if better else ""
    yield f"exported {source.path} to {request.out}{hint}"
    if request.push is not None:
        from astuner_tools.exporting.hub import push

        yield f"uploaded it to {push(request.out, request.push, public=request.public)}"


def _find_source(request: ExportRequest) -> Source:
    path = Path(request.run)
    # A checkpoint may describe adapters that lie elsewhere: only its backbone exports it.
    if os.path.isfile(path / ADAPTER_FILE) and any(path.glob("adapter_model*")):
        from astuner.runs.training.export import export_model

        check_intact(path)
        return Source(
            path=path, run=None, write=lambda out, merged, dtype: export_model(path, out, merge_lora=merged, dtype=dtype)
        )
    run = open_run(request.run)
    name = run.directory.run.get("backbone")
    if name is None:
        raise UsageError(f"{run.path}: its run.json does not name a backbone, so nothing is known of its checkpoints")
    enter_venv(name, Path.cwd())
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.drivers import construct, load

    candidate = Catalog.discover().find("backbone", name, config_dir=Path.cwd(), key="backbone")
    chosen = find_checkpoint(run.directory, request.checkpoint)
    check_intact(chosen, [run.directory.checkpoint(step) for step in run.directory.list_saved_steps()])
    chosen = _choose_adapter(chosen, request.adapter)
    backbone = cast("Backbone", construct(candidate, load(candidate), None, None))
    return Source(
        path=chosen, run=run, write=lambda out, merged, dtype: backbone.export(chosen, out, merge_lora=merged, dtype=dtype)
    )


def _choose_adapter(checkpoint: Path, name: str | None) -> Path:
    """Return the directory of the chosen model in a checkpoint; raises `UsageError` if there is another number of them."""
    names = sorted(file.parent.name for file in checkpoint.glob(f"*/{ADAPTER_FILE}"))
    if name is None and not names:
        return checkpoint
    if name in names:
        return checkpoint / str(name)
    asked = "has several models" if name is None else f"has no model '{name}'"
    remedy = f"give --adapter one of {', '.join(names)}" if names else "leave out --adapter"
    raise UsageError(f"{checkpoint}: {asked}; {remedy}")


def _write(source: Source, kind: str, request: ExportRequest, made: Path) -> str | None:
    """Write the files of the model; return the precision of a GGUF file."""
    if kind != "gguf":
        source.write(made, kind == "hf", request.dtype)
        return request.dtype
    from astuner_tools.exporting.gguf_model import GGUF_FILE, write_gguf
    from astuner_tools.exporting.ollama import write_modelfile
    from astuner_tools.exporting.request import QUANTIZED

    # Next to what becomes the export, on the same disk; it goes with its hidden directory.
    whole = made.with_name("whole")
    whole.mkdir()
    source.write(whole, True, None if request.dtype == QUANTIZED else request.dtype)
    config = json.loads((whole / "config.json").read_text(encoding="utf-8"))
    dtype = request.dtype or str(config.get("dtype") or config.get("torch_dtype") or "float32")
    write_gguf(whole, made / GGUF_FILE, dtype, name=request.out.name)
    write_modelfile(whole, made, GGUF_FILE)
    return dtype


def _read_step(source: Source) -> int | None:
    # Of several models each has a directory in that of the checkpoint.
    whole = source.path if source.path.name.startswith("step_") else source.path.parent
    number = whole.name.removeprefix("step_")
    return int(number) if source.run is not None and number.isdigit() else None
