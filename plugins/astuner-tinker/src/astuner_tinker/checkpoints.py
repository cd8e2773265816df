"""Checkpoints: a reference to the state on the server, and the adapters as PEFT reads them."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy2
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

from astuner.contract.errors import RunFailed, UsageError
from astuner.runs.store.atomic import write_json
from astuner.runs.store.directory import RunDirectory
from astuner.settings.config.adapters import ADAPTER_FILE
from astuner_tinker.options import Options
from astuner_tinker.service import KEY, Service, connect

STATE = "tinker.json"
"""The file of a checkpoint that says where its state is."""
SAVED = "tinker_saved"
"""The field of the run's state with the paths of the states on the server, by step."""
WEIGHTS = "adapter_model.safetensors"


def save_state(service: Service, client: Any, directory: Path, *, step: int, rank: int, model: str, tokenizer: Any) -> str:
    """Save weights and optimizer on the server under a name of their own, and write down where; return the path.

    The checkpoint says that it is one of adapters, and has the tokenizer, also where the weights are elsewhere.
    """
    name = f"astuner-{step}-{datetime.now(UTC):%Y%m%d%H%M%S}-{uuid4().hex[:8]}"
    path: str = service.ask(lambda: client.save_state(name), "a checkpoint").path
    state = {"path": path, "step": step, "server": service.server.url, "base_model": service.base_model, "model": model}
    base_url = None if service.server.name == "hosted" else service.server.url
    write_json(directory / STATE, {**state, "sdk": service.sdk, "rank": rank, "base_url": base_url})
    write_json(directory / ADAPTER_FILE, describe_adapters(model, rank))
    tokenizer.save_pretrained(directory)
    if service.options.download:
        download(service, client, directory, model=model, rank=rank)
    return path


def describe_adapters(model: str, rank: int) -> dict[str, Any]:
    """Return PEFT's configuration of adapters of which only this is known."""
    return {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": model, "r": rank, "lora_alpha": 32}


def read_state(checkpoint: Path) -> Mapping[str, Any]:
    """Return what a checkpoint says; raises `UsageError` if it is none of this backbone's."""
    file = checkpoint / STATE
    if not file.is_file():
        raise UsageError(f"{checkpoint}: holds no {STATE}: the backbone 'tinker' has not saved it")
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def find_base(path: str) -> tuple[str, str]:
    """Return a model here and the server's name for it: those of the base, for one that was exported from a checkpoint."""
    if not (Path(path) / STATE).is_file():
        return path, path
    state = read_state(Path(path))
    return str(state["model"]), str(state["base_model"])


def load_state(service: Service, checkpoint: Path, *, optimizer: bool) -> tuple[Any, int]:
    """Return a model with a checkpoint's state, and its step; raises `RunFailed` if the server has it no more."""
    state = read_state(checkpoint)
    try:
        return service.load_training_client(state["path"], optimizer=optimizer), state["step"]
    except RunFailed as error:
        message = f"{checkpoint} refers to {state['path']}, and {error}. If the server has lost it, begin a new run"
        raise RunFailed(message) from error


def forget_states(service: Service, directory: RunDirectory, step: int, paths: list[str]) -> None:
    """Note the states of a step, and delete those of checkpoints that are gone: a server keeps, and may bill, them for ever."""
    kept = {str(one) for one in (*directory.list_saved_steps(), step)}
    saved: dict[str, list[str]] = {**directory.state.get(SAVED, {}), str(step): paths}
    for gone in [one for one in saved if one not in kept]:
        for path in saved.pop(gone):
            with suppress(Exception):  # it may be gone already, and not every server deletes
                service.client.create_rest_client().delete_checkpoint_from_tinker_path(path).result()
    directory.write_state(**{SAVED: saved})


def download(service: Service, client: Any, directory: Path, *, model: str, rank: int) -> None:
    """Write the adapters as PEFT loads them; raises `RunFailed` if the server gives none."""
    try:
        files = service.ask(lambda: _fetch_files(service, client, f"astuner-{uuid4().hex[:12]}"), "the download")
    except RunFailed as error:
        message = f"{service.describe()} gives no adapters to download; the checkpoint is whole on the server: {error.__cause__}"
        raise RunFailed(message) from error
    if WEIGHTS not in files:
        raise RunFailed(f"{service.describe()}: {', '.join(files) or 'nothing'} was downloaded, and no {WEIGHTS}")
    for name in {ADAPTER_FILE, WEIGHTS} & set(files):
        (directory / name).write_bytes(files[name])
    mend_adapters(directory, model=model, rank=rank)


def download_checkpoint(checkpoint: Path, directory: Path) -> Path:
    """Write a checkpoint that only refers to its adapters with them, and return the directory; needs the key and the server."""
    from types import SimpleNamespace

    state = read_state(checkpoint)
    for file in (one for one in checkpoint.iterdir() if one.is_file()):
        copy2(file, directory)
    control = SimpleNamespace(stop=False, notify=lambda text, level="warning": None)
    # The address of a server may have changed since; the environment has the present one.
    url = os.environ.get("TINKER_BASE_URL") or state["base_url"]
    service = connect(Options(base_url=url), state["base_model"], "export", control)
    try:
        client, _ = load_state(service, checkpoint, optimizer=False)
        download(service, client, directory, model=state["model"], rank=state["rank"])
    finally:
        service.close()
    return directory


def mend_adapters(directory: Path, *, model: str, rank: int) -> None:
    """Name the base and all adapted modules in the configuration: PEFT leaves out, silently, what `target_modules` lacks."""
    from safetensors import safe_open

    with safe_open(directory / WEIGHTS, framework="numpy") as opened:
        names = list(opened.keys())
    modules = sorted({name.split(".lora_")[0].rsplit(".", 1)[-1] for name in names if ".lora_" in name})
    file = directory / ADAPTER_FILE
    given = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    write_json(file, {**describe_adapters(model, rank), **given, "base_model_name_or_path": model, "target_modules": modules})


def _fetch_files(service: Service, client: Any, name: str) -> dict[str, bytes]:
    """Return the files of the newest weights, by their names."""
    rest = service.client.create_rest_client()
    if hasattr(client, "save_weights_external"):  # newer SDKs
        urls = rest.get_external_weights_urls(client.save_weights_external(name).result().path).result().urls
        return {Path(place).name: _read(Request(url)) for place, url in urls.items()}
    path = client.save_weights_for_sampler(name).result().path
    try:
        request = Request(rest.get_checkpoint_archive_url_from_tinker_path(path).result().url)
    except ValueError:
        # SkyRL's paths have no part that says what kind of checkpoint it is, and the SDK refuses them.
        run, place = path.removeprefix("tinker://").split("/", 1)
        url = f"{service.server.url.rstrip('/')}/api/v1/training_runs/{run}/checkpoints/{place.rsplit('/', 1)[-1]}/archive"
        request = Request(url, headers={"X-API-Key": os.environ.get(KEY) or "tml-local"})
    with tarfile.open(fileobj=io.BytesIO(_read(request))) as archive:
        found = {Path(member.name).name: archive.extractfile(member) for member in archive.getmembers()}
        return {name: file.read() for name, file in found.items() if file is not None}


def _read(request: Request) -> bytes:
    with urlopen(request, timeout=600) as opened:
        content: bytes = opened.read()
    return content
