"""Loading and saving models in Hugging Face's format."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.adapters import Adapters, read_adapters
from astuner.settings.config.pretrained import guard_loading


def load_model(
    path: str | Path,
    dtype: str = "auto",
    *,
    lora_rank: int = 0,
    lora_alpha: float = 16.0,
    target_modules: str | Sequence[str] = "all-linear",
    weight_dtype: str = "float32",
    device: torch.device | str = "cpu",
) -> Any:
    """Load a causal language model to train: all its weights, or with `lora_rank` adapters on it (a peft model).

    `path` is a directory, a Hugging Face id, or a directory that `save_hf` wrote, adapters included. Trained weights have
    `weight_dtype`, and adapters are float32; their frozen base has `dtype` (`auto`: its own). Saved adapters come as they are:
    their rank must be `lora_rank`, unless that is 0. Raises ConfigError with what is wrong.
    """
    path = str(path)
    if (adapters := read_adapters(Path(path))) is not None:
        return _load_adapter(Path(path), adapters, dtype, device, lora_rank)
    read_config(path)
    stored = getattr(torch, weight_dtype) if lora_rank == 0 else getattr(torch, compute_dtype(path, dtype))
    model = load_weights(path, stored).to(device)
    if lora_rank == 0:
        return model
    return add_adapters(model, lora_rank=lora_rank, lora_alpha=lora_alpha, target_modules=target_modules)


def add_adapters(
    model: Any,
    *,
    lora_rank: int,
    lora_alpha: float,
    target_modules: str | Sequence[str],
    key: str = "astuner.model.target_modules",
) -> Any:
    """Return a peft model of new adapters on a model; raises ConfigError if no module can carry them."""
    from peft import LoraConfig, get_peft_model

    targets = target_modules if isinstance(target_modules, str) else list(target_modules)
    settings = LoraConfig(r=lora_rank, lora_alpha=lora_alpha, target_modules=targets, task_type="CAUSAL_LM")  # type: ignore[arg-type]  # peft takes a float here
    try:
        return get_peft_model(model, settings)
    except ValueError as error:
        message = f"{target_modules!r} cannot carry adapters in this model: {error}"
        raise _config_error(key, message) from error


def share_weights(model: Any) -> Any:
    """Return a model of its own over the same tensors, so that adapters on one leave the other as it is."""
    tensors = chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def save_hf(model: nn.Module, tokenizer: Any, directory: Path) -> None:
    """Write a model that transformers loads: all weights as they are, or the adapter with the path of its base recorded."""
    directory.mkdir(parents=True, exist_ok=True)
    for settings in getattr(model, "peft_config", {}).values():
        base = settings.base_model_name_or_path
        if base and Path(base).exists():
            settings.base_model_name_or_path = str(Path(base).resolve())  # a checkpoint is read from other working directories
    # peft would check on the hub, at every save, whether the vocabulary of the base has grown. The base never changes here.
    more = {"save_embedding_layers": False} if hasattr(model, "peft_config") else {}
    model.save_pretrained(directory, **more)  # type: ignore[operator]  # transformers and peft both have it
    if tokenizer is not None:
        tokenizer.save_pretrained(directory)


def read_config(path: str, key: str = "astuner.model.path") -> PretrainedConfig:
    """Return the config of a causal language model, or raise ConfigError with what is wrong with the path."""
    local = Path(path)
    if not path:
        raise _config_error(key, "no model is given; set it to a directory in transformers format or a Hugging Face id")
    if local.exists() and not (local / "config.json").is_file():
        raise _config_error(key, f"{path} has no config.json: not a directory in transformers format")
    if not local.exists() and (local.is_absolute() or path.startswith(".") or path.count("/") > 1):
        raise _config_error(key, f"{path} does not exist")
    with guard_loading(path, key):
        config: PretrainedConfig = AutoConfig.from_pretrained(path, trust_remote_code=False)
    claimed = config.architectures or []
    causal = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING and not config.is_encoder_decoder
    if not causal or (claimed and not _causal_names(config).intersection(claimed)):
        kind = ", ".join(claimed) or config.model_type
        raise _config_error(key, f"{path} is a {kind}, not a causal language model; the agent's model must be one (…ForCausalLM)")
    return config


def load_weights(path: str, dtype: torch.dtype | str) -> Any:
    """Return a model as it is stored; raises `ConfigError`."""
    with guard_loading(path, weights=True):
        return AutoModelForCausalLM.from_pretrained(path, dtype=dtype, trust_remote_code=False, use_safetensors=True)


def compute_dtype(path: str | Path, dtype: str) -> str:
    """Return the dtype a model computes in: `dtype`, or for `auto` its checkpoint's, with bfloat16 for float16.

    Training in float16 would need its losses scaled.
    """
    if dtype != "auto":
        return dtype
    adapters = read_adapters(Path(path))
    config = read_config(adapters.base if adapters is not None else str(path))
    return "bfloat16" if config.dtype in (torch.bfloat16, torch.float16) else "float32"


def check_tokenizer(model: Any, renderer: Any, path: str | Path) -> None:
    """Raise ConfigError for the tokenizer of another model, whose ids this one does not have."""
    rows = model.get_input_embeddings().weight.shape[0]
    largest = max(*map(int, renderer.encode("What is 2 + 2?")), *renderer.turn_ends)
    if largest >= rows:
        message = f"the tokenizer of {path} belongs to another model: it makes the token id {largest}, and the model has {rows}"
        raise _config_error("astuner.model.path", message)


def load_adapter_weights(model: Any, directory: Path) -> None:
    """Give a peft model the weights of saved adapters of the same shape."""
    from peft import load_peft_weights, set_peft_model_state_dict

    with guard_loading(directory, weights=True):
        set_peft_model_state_dict(model, load_peft_weights(str(directory), device="cpu"))


def _load_adapter(directory: Path, adapters: Adapters, dtype: str, device: torch.device | str, lora_rank: int) -> Any:
    from peft import PeftModel

    has, base = adapters.lora_rank, adapters.base
    if lora_rank not in (0, has):
        raise _config_error("astuner.model.lora_rank", f"is {lora_rank}, but the adapters in {directory} have rank {has}")
    read_config(base)
    model = load_weights(base, getattr(torch, compute_dtype(base, dtype)))
    with guard_loading(directory, weights=True):
        adapted = PeftModel.from_pretrained(model, str(directory), is_trainable=True)
    for settings in adapted.peft_config.values():
        settings.base_model_name_or_path = base  # what the file says may be where the project was before it was moved
    return adapted.to(device)


def _causal_names(config: PretrainedConfig) -> set[str]:
    """Return the class names of causal language models: those of transformers, and what is registered for this config.

    The names are read from a table of texts: transformers' mapping of classes would import every model.
    """
    found: set[str] = set()
    for names in (*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values(), MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]):
        several = names if isinstance(names, tuple) else (names,)
        found.update(name if isinstance(name, str) else name.__name__ for name in several if name is not None)
    return found


def _config_error(key: str, message: str) -> ConfigError:
    return ConfigError([Problem(key=key, message=message)])
