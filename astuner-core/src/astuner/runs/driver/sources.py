"""What a run is made from besides its configuration: tasks, code, the model's files. `run.json` holds their fingerprints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from attrs import asdict

from astuner.contract.errors import RunFailed
from astuner.contract.protocols import ReaderTraits, read_traits
from astuner.runs.store.fingerprints import compare_fingerprints as compare
from astuner.runs.store.fingerprints import fingerprint_bytes, fingerprint_file, fingerprint_files, fingerprint_model, name_file
from astuner.settings.config.adapters import read_adapters
from astuner.settings.config.pretrained import find_download
from astuner.settings.plugins.kept_sources import KeepingLoader

if TYPE_CHECKING:
    from astuner.contract.protocols import Reader
    from astuner.episodes.rollout.sampler import TaskSampler
    from astuner.settings.planning.plan import Plan

_NOT_THE_PROJECT = frozenset({"site-packages", "dist-packages", "__pycache__", "launcher_record"})


def collect_sources(plan: Plan, reader: Reader, tasks: TaskSampler) -> dict[str, Any]:
    """Return the fingerprints of what the run is made from, as JSON values; names are relative to the YAML's directory."""
    directory = plan.loaded.directory.resolve()
    traits, able = read_traits(reader, ReaderTraits), cast("Any", reader)
    data: dict[str, Any] = {split: asdict(digest) for split, digest in tasks.digests.items()}
    data["files"] = fingerprint_files(able.list_files(), directory) if traits.lists_files else {}
    data["revisions"] = dict(able.list_revisions()) if traits.lists_revisions else {}
    return {"data": data, "code": collect_code(plan), "model": _fingerprint_models(plan.loaded.config.model.path)}


def collect_code(plan: Plan, earlier: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the fingerprints of the user's code that is loaded: modules below the YAML's directory, and what it names.

    Of a file whose text was not kept when it was loaded, the `earlier` fingerprint counts, if there is one.
    """
    directory = plan.loaded.directory.resolve()
    loaded = {name: (path, source) for name, path, source in _list_loaded_files()}
    found = {path: (name_file(path, directory), source) for path, source in loaded.values() if _is_of_project(path, directory)}
    for target in _list_targets(plan):
        module = target.rpartition(":")[0]
        path, source = (Path(module).resolve(), None) if module.endswith(".py") else loaded.get(module, (None, None))
        if path is not None and path.is_file():
            found.setdefault(path, (name_file(path, directory) if module.endswith(".py") else module, source))
    fingerprints = dict(earlier or {})
    for path, (name, source) in found.items():
        if source is not None:
            fingerprints[name] = fingerprint_bytes(source)
        elif name not in fingerprints and path.is_file():
            fingerprints[name] = fingerprint_file(path)
    return fingerprints


def check_models(plan: Plan, earlier: Mapping[str, Mapping[str, str]]) -> None:
    """Raise `RunFailed` if the files of the model are other ones than those with the `earlier` fingerprints."""
    now = _fingerprint_models(plan.loaded.config.model.path)
    changed = [
        f"{name} {what}" for part in earlier.keys() & now.keys() for name, what in compare(earlier[part], now[part]).items()
    ]
    if changed:
        raise RunFailed(
            f"the files of the model have changed while it was loaded: {'; '.join(changed)}. Nothing is saved. Put back what was "
            "there and start the same command with --resume, or take the new ones with --resume --accept-changes model"
        )


def _list_loaded_files() -> Iterator[tuple[str, Path, bytes | None]]:
    """Yield each module's name, its file, links resolved, and the text that it was loaded from if that was kept."""
    # Thousands of files lie in a few hundred folders; each folder is resolved once.
    resolve_folder = cache(os.path.realpath)
    for name, module in list(sys.modules.items()):
        # `sys.modules` may hold anything, lazy proxies included: read the dict, call nothing.
        origin = module.__dict__.get("__file__") if isinstance(module, ModuleType) else None
        if isinstance(origin, str) and origin.endswith(".py"):
            folder, file = os.path.split(origin)
            path = os.path.join(resolve_folder(folder), file)
            loader = getattr(module.__dict__.get("__spec__"), "loader", None)
            yield (
                name,
                Path(os.path.realpath(path) if os.path.islink(path) else path),
                loader.source if isinstance(loader, KeepingLoader) else None,
            )


def _is_of_project(path: Path, directory: Path) -> bool:
    if not path.is_relative_to(directory):
        return False
    parts = path.relative_to(directory).parts
    return not any(part in _NOT_THE_PROJECT or part.startswith(".") for part in parts)


def _list_targets(plan: Plan) -> Iterator[str]:
    """Yield `module:name` or `/file.py:name` of the workflow and of each component that no distribution brings."""
    if (workflow := plan.recipe.workflow) is not None:
        module, _, name = workflow.replace("->", ":").rpartition(":")
        yield f"{plan.loaded.directory / module if module.endswith('.py') else module}:{name}"
    for component in (plan.reader, *plan.recipe.judges, *plan.loggers, plan.backbone):
        if component.candidate.dist is None:
            yield component.candidate.target


def _fingerprint_models(path: str) -> dict[str, dict[str, str]]:
    """Return the files of the model, and of the base of its adapters; of one from the hub the commit of the local copy."""
    if not path:
        return {}
    directory = Path(path)
    if not directory.is_dir():
        cached = find_download(path, "config.json")
        return {"model": {"revision": f"0:{cached.parent.name}"}} if cached else {}
    adapters = read_adapters(directory)
    fingerprints = {"model": fingerprint_model(directory)}
    return (
        fingerprints
        if adapters is None
        else fingerprints | {f"base_{name}": base for name, base in _fingerprint_models(adapters.base).items()}
    )
