"""The doubles of `tinker.ServiceClient` and of its client for checkpoints."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import tinker
import torch
from tinker import types
from transformers import AutoConfig, AutoTokenizer

from tinker_double.behaviour import Behaviour
from tinker_double.lora_model import ALPHA, LoraModel, load_base
from tinker_double.sampling import SamplingClientDouble
from tinker_double.store import Store, make_error
from tinker_double.training import TrainingClientDouble


class ServiceDouble:
    """A server and the client that speaks to it. Requests are served one after the other, in their order."""

    def __init__(self, root: Path, behaviour: Behaviour | None = None, *, base_models: Sequence[str] = ()) -> None:
        """Take the folder of the server, and the local folders of the models that its capabilities list.

        Any other folder of a model can be asked for too.
        """
        self.behaviour = behaviour or Behaviour()
        self.store = Store(root)
        self.load_tokenizer: Callable[[str], Any] = cache(AutoTokenizer.from_pretrained)
        self._base_models = base_models
        self._worker = ThreadPoolExecutor(1, "tinker-double", initializer=torch.set_num_threads, initargs=(1,))

    @property
    def counts(self) -> Counter[str]:
        """What was asked of the folder by all processes: `sample_requests`, `sampled_tokens`, `trained_tokens` and so on."""
        return self.store.count()

    def submit(self, act: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        """Have the server do something after all that it was asked before."""
        return self._worker.submit(act, *args, **options)

    def get_server_capabilities(self) -> types.GetServerCapabilitiesResponse:
        """Return the models with the longest context of each."""
        longest = {name: AutoConfig.from_pretrained(name).max_position_embeddings for name in self._base_models}
        named = self.behaviour.names_models
        return types.GetServerCapabilitiesResponse(
            supported_models=[
                types.SupportedModel(model_name=name if named else None, max_context_length=longest[name] if named else None)
                for name in longest
            ]
        )

    def create_lora_training_client(
        self,
        base_model: str,
        rank: int = 32,
        seed: int | None = None,
        train_mlp: bool = True,
        train_attn: bool = True,
        train_unembed: bool = True,
        user_metadata: dict[str, str] | None = None,
    ) -> TrainingClientDouble:
        """Return a client of a new adapter. The head is never trained, as its weights are mostly those of the embedding."""
        lora = {"rank": rank, "seed": seed, "train_mlp": train_mlp, "train_attn": train_attn}
        return self._create({"base_model": base_model, "lora": lora, "user_metadata": user_metadata})

    def create_training_client_from_state(self, path: str, user_metadata: dict[str, str] | None = None) -> TrainingClientDouble:
        """Return a client of a new model with the weights of a saved state."""
        return self._continue(path, user_metadata, optimizer=False)

    def create_training_client_from_state_with_optimizer(
        self, path: str, user_metadata: dict[str, str] | None = None
    ) -> TrainingClientDouble:
        """Return a client of a new model with the weights and the optimizer of a saved state."""
        return self._continue(path, user_metadata, optimizer=True)

    def create_sampling_client(self, model_path: str | None = None, base_model: str | None = None) -> SamplingClientDouble:
        """Return a client of saved weights, or of a base model."""
        if model_path is not None:
            settings = self.store.read_settings(model_path)
            model = self.submit(self._load_merged, settings, model_path).result()
            return SamplingClientDouble(self, lambda: model)
        if base_model is None:
            raise ValueError("Either model_path or base_model must be provided")
        if not self.behaviour.samples_base:
            answer = httpx.Response(200, request=httpx.Request("POST", "http://double.invalid"))
            raise tinker.APIResponseValidationError(answer, body=None)
        base = self.submit(load_base, base_model).result()
        return SamplingClientDouble(self, lambda: base)

    def create_rest_client(self) -> RestClientDouble:
        """Return the client for checkpoints."""
        return RestClientDouble(self)

    def _create(self, settings: Mapping[str, Any]) -> TrainingClientDouble:
        model = self.submit(LoraModel, settings["base_model"], **settings["lora"]).result()
        return TrainingClientDouble(self, self.store.add_model(settings), settings["base_model"], model)

    def _continue(self, path: str, user_metadata: dict[str, str] | None, *, optimizer: bool) -> TrainingClientDouble:
        client = self._create({**self.store.read_settings(path), "user_metadata": user_metadata})
        self.submit(client.restore, path, optimizer=optimizer).result()
        return client

    def _load_merged(self, settings: Mapping[str, Any], path: str) -> Any:
        model = LoraModel(settings["base_model"], **settings["lora"])
        model.load(self.store.read(path, "adapter_model"))
        return model.merge()


class RestClientDouble:
    """Downloads and deletes checkpoints."""

    def __init__(self, service: ServiceDouble) -> None:
        self.service, self._store = service, service.store

    def get_checkpoint_archive_url_from_tinker_path(self, path: str) -> Future[types.CheckpointArchiveUrlResponse]:
        """Return where an archive of the adapter lies; its `adapter_config.json` names no modules, as SkyRL's."""
        return self.service.submit(self._archive, path)

    def delete_checkpoint_from_tinker_path(self, path: str) -> Future[None]:
        """Delete a checkpoint."""
        return self.service.submit(lambda: shutil.rmtree(self._store.find(path)))

    def _archive(self, path: str) -> types.CheckpointArchiveUrlResponse:
        folder = self._store.find(path)
        if not self.service.behaviour.downloads:
            raise make_error(tinker.NotFoundError, "Not Found")
        settings = self._store.read_settings(path)
        config = {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": settings["base_model"],
            "r": settings["lora"]["rank"],
            "lora_alpha": ALPHA,
            "target_modules": None,
        }
        (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
        archive = folder.with_suffix(".tar.gz")
        with tarfile.open(archive, "w:gz") as file:
            for name in ("adapter_config.json", "adapter_model.safetensors"):
                file.add(folder / name, name)
        return types.CheckpointArchiveUrlResponse(url=archive.as_uri(), expires=datetime.now(UTC) + timedelta(hours=1))
