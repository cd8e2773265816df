"""From a GGUF file to a folder that every Hugging Face tool can load."""

from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, GenerationConfig

from astuner.contract.errors import UsageError
from astuner.settings.config.pretrained import guard_loading
from astuner_local.pretrained.gguf_file import Vocabulary
from astuner_local.pretrained.tokenizer import find_splitting, make_tokenizer
from astuner_local.tiny.maker import disable_progress_bars
from astuner_local.tiny.tokenizer import save_tokenizer

KEY = "the GGUF file"


def convert(file: Path, vocabulary: Vocabulary, out: Path, dtype: str) -> None:
    """Write weights, tokenizer, chat template and end tokens; raises `ConfigError` for models that transformers cannot read."""
    splitting = find_splitting(vocabulary.splitting, file)
    with guard_loading(file, KEY):
        tokenizer = make_tokenizer(vocabulary, splitting)
    with disable_progress_bars():
        _load_plain(file, vocabulary).to(getattr(torch, dtype)).save_pretrained(out)
        save_tokenizer(tokenizer, out)


def _load_plain(file: Path, vocabulary: Vocabulary) -> Any:
    """Return the model in float32 as if it had never been quantised: transformers refuses to save one that was."""
    # The loader draws a bar, in a log too.
    with guard_loading(file, KEY), redirect_stderr(StringIO()):
        quantised = AutoModelForCausalLM.from_pretrained(
            str(file.parent), gguf_file=file.name, dtype=torch.float32, trust_remote_code=False, use_safetensors=True
        )
    config = quantised.config
    for left in ("quantization_config", "_pre_quantization_dtype", "_name_or_path", "_model_name_or_path"):
        config.__dict__.pop(left, None)
    for key, value in config.to_dict().items():
        if type(value) is float:
            # The file has them in 32 bits: 9.999999747378752e-06 was 1e-05.
            setattr(config, key, float(str(np.float32(value))))
    for key in ("bos_token", "eos_token", "pad_token"):
        setattr(config, f"{key}_id", vocabulary.named.get(key))
    model = type(quantised)(config)
    lost = model.load_state_dict(quantised.state_dict(), strict=False)
    model.tie_weights()
    tied = set(model.all_tied_weights_keys or ())
    if missing := sorted({*lost.missing_keys, *lost.unexpected_keys} - tied):
        raise UsageError(
            f"{file}: some of its weights have no place in transformers' model, or are missing: {', '.join(missing[:5])}"
        )
    model.generation_config = GenerationConfig.from_model_config(config)
    model.generation_config.eos_token_id = list(vocabulary.ends) if len(vocabulary.ends) > 1 else vocabulary.ends[0]
    return model
