"""New weights for a running vLLM from safetensors files, through its weight-transfer interface. Runs in vLLM's workers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from vllm.distributed.weight_transfer.base import WeightTransferEngine, WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding
from vllm.model_executor.model_loader.reload import layerwise
from vllm.model_executor.model_loader.reload.layerwise import finalize_layerwise_reload, initialize_layerwise_reload
from vllm.platforms import current_platform

from astuner_vllm.seeded_draws import undo_discarded_draws

if current_platform.is_cpu():
    # Each of our workers imports this module while loading its model, before the first step.
    from vllm.v1.worker.cpu_model_runner import CPUModelRunner

    undo_discarded_draws(CPUModelRunner)


@dataclass
class NoInit(WeightTransferInitInfo):
    """Files need no rendezvous."""


@dataclass
class FileUpdate(WeightTransferUpdateInfo):
    """The location of the new weights."""

    path: str
    """A safetensors file, or a directory with one or several, as transformers saves a model."""


class WeightFiles(WeightTransferEngine[NoInit, FileUpdate]):
    """Loads all weights of a model from readable files, in one call.

    The whole update happens in `update_weights`, so that an unreadable path leaves the served weights unchanged.
    """

    init_info_cls = NoInit
    update_info_cls = FileUpdate

    def init_transfer_engine(self, init_info: NoInit) -> None:
        """Prepare nothing."""

    def start_weight_update(self) -> None:
        """Prepare nothing."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Load the files, and wait until they are on the device."""
        self.receive_weights(self.parse_update_info(update_info))
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: FileUpdate) -> None:
        """Load the files into the model. Raises `ValueError` if a weight is missing."""
        files = weight_files(Path(update_info.path))
        expected = {_own_name(name) for name, _ in self.model.named_parameters()}
        checked = self.model_config.quantization is None
        initialize_layerwise_reload(self.model)
        try:
            loaded = self.model.load_weights(read_tensors(files))
        finally:
            with _drop_warnings_of_layers() if checked else nullcontext():
                finalize_layerwise_reload(self.model, self.model_config)
            pack_tied_heads(self.model)
        if loaded is not None and checked and (missing := sorted(expected - set(map(_own_name, loaded)))):
            raise ValueError(f"{update_info.path} lacks {len(missing)} weights of the model, {missing[0]} among them")

    def finish_weight_update(self) -> None:
        """Nothing to do."""

    def shutdown(self) -> None:
        """Nothing to release."""


@contextmanager
def _drop_warnings_of_layers() -> Iterator[None]:
    """Leave out vLLM's "Failed to load weights": it names each layer without own weights, and missing ones are found here."""
    log = logging.getLogger(layerwise.__name__)
    keep = log.filters[:]
    log.addFilter(lambda record: record.msg != "%s: Failed to load weights")
    try:
        yield
    finally:
        log.filters[:] = keep


def _own_name(name: str) -> str:
    # If adapters may be loaded, vLLM wraps their layers.
    return name.replace(".base_layer.", ".")


def weight_files(path: Path) -> list[Path]:
    """Return the safetensors files of a path, opened once to check that they are complete."""
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise FileNotFoundError(f"no *.safetensors in {path}")
    for file in files:
        with safe_open(file, "pt"):
            pass
    return files


def read_tensors(files: list[Path]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of some files by name."""
    for file in files:
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  (no mapping)
                yield name, tensors.get_tensor(name)


def pack_tied_heads(model: torch.nn.Module) -> None:
    """Update heads that share the embedding's weight.

    On a CPU each layer multiplies with a packed copy of its weight. vLLM does not renew a tied head's copy when the embedding is
    loaded, so the head would keep the old weights. On a GPU there is no copy, and this changes nothing.
    """
    for module in model.modules():
        if isinstance(module, VocabParallelEmbedding) and getattr(module, "cpu_linear", None) is not None:
            module.quant_method.process_weights_after_loading(module)
