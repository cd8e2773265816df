"""What the double keeps on disk: models, checkpoints, and a line for each request."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import tinker
from safetensors.torch import load_file, save_file
from tinker.types import ParsedCheckpointTinkerPath
from torch import Tensor


def make_error(kind: type[tinker.APIStatusError], message: str) -> tinker.APIStatusError:
    """Return an error as the SDK raises it for an answer of that kind's status."""
    response = httpx.Response(kind.status_code, request=httpx.Request("POST", "http://double.invalid"))
    return kind(f"Error code: {kind.status_code} - {message}", response=response, body={"detail": message})


class Store:
    """The folder of a server: `MODEL/weights/NAME`, `MODEL/sampler_weights/NAME` and `requests.jsonl`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ledger = root / "requests.jsonl"
        root.mkdir(parents=True, exist_ok=True)

    def add_model(self, settings: Mapping[str, Any]) -> str:
        """Return the id of a new model, which no other process of the folder has got."""
        for number in count(1):
            folder = self.root / f"model-{number}"
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            (folder / "model.json").write_text(json.dumps(settings), encoding="utf-8")
            return folder.name
        raise AssertionError

    def read_settings(self, path: str) -> dict[str, Any]:
        """Return what the model of a checkpoint was created with."""
        settings: dict[str, Any] = json.loads((self.find(path).parents[1] / "model.json").read_text(encoding="utf-8"))
        return settings

    def write(self, model_id: str, place: str, tensors: Mapping[str, Mapping[str, Tensor]], *, overwrite: bool) -> str:
        """Write files of tensors as one checkpoint, whole or not at all; return its path."""
        folder = self.root / model_id / place
        if folder.exists() and not overwrite:
            raise make_error(tinker.ConflictError, f"checkpoint {place} of {model_id} already exists")
        part = folder.with_name(f".{folder.name}.{os.getpid()}")
        part.mkdir(parents=True)
        for name, values in tensors.items():
            save_file({key: value.detach().clone() for key, value in values.items()}, part / f"{name}.safetensors")
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
        return f"tinker://{model_id}/{place}"

    def find(self, path: str) -> Path:
        """Return the folder of a checkpoint."""
        parsed = ParsedCheckpointTinkerPath.from_tinker_path(path)
        folder = self.root / parsed.training_run_id / parsed.checkpoint_id
        if not folder.is_dir():
            raise make_error(tinker.NotFoundError, f"no checkpoint {path}")
        return folder

    def read(self, path: str, name: str) -> dict[str, Tensor]:
        """Return the tensors of one file of a checkpoint."""
        tensors: dict[str, Tensor] = load_file(self.find(path) / f"{name}.safetensors")
        return tensors

    def record(self, kind: str, **values: Any) -> None:
        """Append a request to the ledger."""
        with self.ledger.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, **values}) + "\n")

    def requests(self) -> list[dict[str, Any]]:
        """Return the requests of all processes, in their order."""
        return [json.loads(line) for line in self.ledger.read_text(encoding="utf-8").splitlines()] if self.ledger.exists() else []

    def count(self) -> Counter[str]:
        """Return the sums over all requests: one for each kind, as `sample_requests`, and those of tokens."""
        counts: Counter[str] = Counter()
        for request in self.requests():
            counts[f"{request['kind']}_requests"] += 1
            counts.update({key: value for key, value in request.items() if key.endswith("_tokens")})
        return counts
