"""Checkpoints: a reference to the state on the server, and the adapters as PEFT reads them."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from astuner.contract.errors import RunFailed, UsageError
from astuner.runs.store.atomic import write_json
from astuner.runs.store.directory import RunDirectory
from astuner.settings.config.adapters import ADAPTER_FILE
from astuner_tinker.options import Options
from astuner_tinker.service import Service, connect

STATE = "tinker.json"
"""The file of a checkpoint that says where its state is."""
SAVED = "tinker_saved"
"""The field of the run's state with the paths of the states on the server, by step."""
WEIGHTS = "adapter_model.safetensors"


def save_state(service: Service, client: Any, directory: Path, *, step: int, model: str) -> str:
    """Save weights and optimizer on the server under a name of their own, and write down where; return the path."""
    name = f"astuner-{step}-{datetime.now(UTC):%Y%m%d%H%M%S}-{uuid4().hex[:8]}"
    path: str = service.ask(lambda: client.save_state(name), "a checkpoint").path
    state = {"path": path, "step": step, "server": service.server.url, "base_model": service.base_model, "model": model}
    write_json(
        directory / STATE, {**state, "sdk": service.sdk, "rank": service.options.rank, "base_url": service.options.base_url}
    )
    if service.options.download:
        download(service, client, directory, model=model)
    return path


def read_state(checkpoint: Path) -> Mapping[str, Any]:
    """Return what a checkpoint says; raises `UsageError` if it is none of this backbone's."""
    file = checkpoint / STATE
    if not file.is_file():
        raise UsageError(f"{checkpoint}: holds no {STATE}, so it is no checkpoint of the backbone 'tinker'")
    found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def load_state(service: Service, checkpoint: Path, *, optimizer: bool) -> tuple[Any, int]:
    """Return a model with a checkpoint's state, and its step; raises `RunFailed` if the server has it no more."""
    state = read_state(checkpoint)
    try:
        return service.load_training_client(state["path"], optimizer=optimizer), state["step"]
    except RunFailed as error:
        message = f"{checkpoint} refers to {state['path']} at {state['server']}, which cannot be loaded: {error}. "
        raise RunFailed(f"{message}Resume from an older checkpoint, or train on from exported adapters in a new run") from error


def forget_states(service: Service, directory: RunDirectory, step: int, paths: list[str]) -> None:
    """Note the states of a step, and delete those of checkpoints that are gone: a server keeps, and may bill, them for ever."""
    kept = {str(one) for one in (*directory.list_saved_steps(), step)}
    saved: dict[str, list[str]] = {**directory.state.get(SAVED, {}), str(step): paths}
    for gone in [one for one in saved if one not in kept]:
        for path in saved.pop(gone):
            with suppress(Exception):  # it may be gone already, and not every server deletes
                service.client.create_rest_client().delete_checkpoint_from_tinker_path(path).result()
    directory.write_state(**{SAVED: saved})


def download(service: Service, client: Any, directory: Path, *, model: str) -> None:
    """Write the adapters as PEFT loads them; raises `RunFailed` if the server gives none."""
    name = f"astuner-{uuid4().hex[:12]}"
    path = service.ask(lambda: client.save_weights_for_sampler(name), "weights to download").path
    content = service.ask(lambda: _fetch(service, path), "the download of the adapters")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive.getmembers():
            if (place := Path(member.name).name) in (ADAPTER_FILE, WEIGHTS) and (file := archive.extractfile(member)):
                (directory / place).write_bytes(file.read())
    if not (directory / WEIGHTS).is_file():
        raise RunFailed(f"{service.describe()}: the archive of {path} holds no {WEIGHTS}")
    mend_adapters(directory, model=model, rank=service.options.rank)


def download_checkpoint(checkpoint: Path, directory: Path) -> Path:
    """Write the adapters of a checkpoint that only refers to them, and return the directory; needs the key and the server."""
    from types import SimpleNamespace

    state = read_state(checkpoint)
    control = SimpleNamespace(stop=False, notify=lambda text, level="warning": None)
    options = Options(base_url=state["base_url"], base_model=state["base_model"], rank=state["rank"])
    service = connect(options, state["model"], "export", control)
    try:
        client, _ = load_state(service, checkpoint, optimizer=False)
        download(service, client, directory, model=state["model"])
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
    settings = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": 32, **given}
    write_json(file, {**settings, "base_model_name_or_path": model, "target_modules": modules})


def _fetch(service: Service, path: str) -> bytes:
    from urllib.request import Request, urlopen

    try:
        url = service.client.create_rest_client().get_checkpoint_archive_url_from_tinker_path(path).result().url
        request = Request(url)
    except ValueError:
        # SkyRL's paths have no part that says what kind of checkpoint it is, and the SDK refuses them.
        model, name = path.removeprefix("tinker://").split("/", 1)
        url = f"{service.server.url.rstrip('/')}/api/v1/training_runs/{model}/checkpoints/{name.rsplit('/', 1)[-1]}/archive"
        request = Request(url, headers={"X-API-Key": "tml-local"})
    with urlopen(request, timeout=600) as opened:
        content: bytes = opened.read()
    return content
