"""A checkpoint as a model that other tools load, for backbones whose checkpoints are Hugging Face models or peft adapters."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import RunFailed, UsageError
from astuner.runs.store.atomic import check_free
from astuner.settings.config.adapters import ADAPTER_FILE, MANIFEST, read_adapters
from astuner.settings.config.pretrained import guard_loading

if TYPE_CHECKING:
    from torch import Tensor

ROUNDING = 1e-3
"""The largest difference of logits, relative to the largest logit, that float32 arithmetic in another order explains."""


def export_model(
    checkpoint: Path, out: Path, *, merge_lora: bool = False, dtype: str | None = None, leave_out: Collection[str] = ()
) -> None:
    """Copy the files of a checkpoint's model, except folders, the manifest and `leave_out`; merge adapters if asked.

    Weights get `dtype`; without it merged ones get that of the base, and others keep their own. Raises `UsageError` if there is
    nothing to export or `out` is in use, and `RunFailed` if the merged model does not compute what the adapters do.
    """
    adapted = (checkpoint / ADAPTER_FILE).is_file()
    if not adapted and not (checkpoint / "config.json").is_file():
        raise UsageError(f"{checkpoint}: no {ADAPTER_FILE} and no config.json, so there is no model to export")
    check_free(out)
    if adapted and not merge_lora and dtype is not None:
        raise UsageError("--dtype needs --merge-lora here: an adapter without its base keeps its own precision")
    out.mkdir(parents=True, exist_ok=True)
    merged = adapted and merge_lora
    if merged:
        _merge(checkpoint, out, dtype)
    elif not adapted and dtype is not None and not (dtype == read_dtype(checkpoint) and _holds_only(checkpoint, dtype)):
        _load(checkpoint, dtype).save_pretrained(out)
    for file in sorted(checkpoint.iterdir()):
        of_adapter = file.name.startswith("adapter_") or file.name == "README.md"
        skipped = file.name in (MANIFEST, *leave_out) or (merged and of_adapter) or (out / file.name).exists()
        if file.is_file() and not skipped:
            shutil.copy2(file, out / file.name)


def _load(model: Path | str, dtype: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    with guard_loading(model, weights=True):
        kind = getattr(torch, dtype)
        return AutoModelForCausalLM.from_pretrained(model, dtype=kind, trust_remote_code=False, use_safetensors=True)


def _holds_only(checkpoint: Path, dtype: str) -> bool:
    """Whether all weights have this precision; a trainer may write others than config.json says."""
    from safetensors import safe_open

    wanted = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}[dtype]
    for file in checkpoint.glob("*.safetensors"):
        with safe_open(file, framework="numpy") as opened:
            if any(opened.get_slice(name).get_dtype() != wanted for name in opened.keys()):  # noqa: SIM118  # it cannot be iterated
                return False
    return True


def _merge(checkpoint: Path, out: Path, dtype: str | None) -> None:
    import torch
    from peft import PeftModel

    adapters = read_adapters(checkpoint)
    if adapters is None:
        raise AssertionError("the caller has found adapters")
    base = adapters.base
    dtype = dtype or read_dtype(base)
    # float32: merging in half precision would round the adapters' update away.
    loaded = _load(base, "float32")
    with guard_loading(checkpoint, weights=True):
        model: Any = PeftModel.from_pretrained(loaded, str(checkpoint))
    wanted = _compute_logits(model)
    _untie_adapted_embeddings(model.get_base_model())
    model = model.merge_and_unload()
    differences = [_compare(_compute_logits(model), wanted)]
    for parameter in model.parameters():  # not the buffers, such as frequencies, which loading computes in float32
        parameter.data = parameter.data.to(getattr(torch, dtype))
    rounded = _compute_logits(model)
    model.save_pretrained(out)
    del loaded, model
    differences.append(_compare(_compute_logits(_load(out, dtype)), rounded))
    if max(differences) > ROUNDING:
        shutil.rmtree(out)
        raise RunFailed(
            f"{checkpoint}: the merged model computes something else than the adapters: its logits are up to "
            f"{max(differences):.1%} off. Nothing was exported; export the adapters without --merge-lora"
        )


def _untie_adapted_embeddings(model: Any) -> None:
    """Give embedding and output layer their own weights if adapters change one of them, and so not the other."""
    import torch
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils import ModulesToSaveWrapper

    layers = [model.get_input_embeddings(), model.get_output_embeddings()]
    if not model.config.tie_word_embeddings or not any(isinstance(one, BaseTunerLayer | ModulesToSaveWrapper) for one in layers):
        return
    output = layers[1]
    if isinstance(output, BaseTunerLayer):
        output = output.get_base_layer()
    elif isinstance(output, ModulesToSaveWrapper):
        output = output.original_module
    output.weight = torch.nn.Parameter(output.weight.detach().clone())
    model.config.tie_word_embeddings = False


def _compute_logits(model: Any) -> Tensor:
    import torch

    with torch.no_grad():
        ids = torch.arange(1, 33)[None] * 7919 % model.get_input_embeddings().weight.shape[0]
        logits: Tensor = model.eval()(input_ids=ids, use_cache=False).logits.float()
    return logits


def _compare(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).abs().max() / wanted.abs().max())


def read_dtype(model: Path | str) -> str:
    """Return the precision in which a model says that it was saved."""
    from transformers import AutoConfig

    with guard_loading(model):
        stored = AutoConfig.from_pretrained(model, trust_remote_code=False).dtype
    return "float32" if stored is None else str(stored).removeprefix("torch.")
