"""The official chat templates of model families, read from the release of TRL that ships them, on tokenizers made on the spot."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from astuner.model.rendering import TemplateRenderer
from astuner_devkit.tokenizer import tiny_tokenizer

FAMILIES = {
    "qwen2_5": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "qwen3_instruct_2507": "<|im_end|>",
    "qwen3_5_think": "<|im_end|>",
    "qwen3_5_nothink": "<|im_end|>",
    "qwen3_6": "<|im_end|>",
    "llama3": "<|eot_id|>",
    "llama3_1": "<|eot_id|>",
    "llama3_2": "<|eot_id|>",
    "gemma": "<end_of_turn>",
    "gemma3": "<end_of_turn>",
    "phi3": "<|end|>",
    "phi3_5": "<|end|>",
    "glm4moe": "<|user|>",
    "gptoss": "<|return|>",
    "deepseekv3": "<｜end▁of▁sentence｜>",
    "deepseek_r1_distill": "<｜end▁of▁sentence｜>",
    "nemotron_3_nano": "<|im_end|>",
    "nemotron_3_super": "<|im_end|>",
    "cohere": "<|END_OF_TURN_TOKEN|>",
    "cohere2": "<|END_OF_TURN_TOKEN|>",
    "lfm2": "<|im_end|>",
    "lfm2_2_5": "<|im_end|>",
}
"""TRL's name of each template, and the token that ends a turn."""

SPECIAL = re.compile(r"<\|[\w/]+?\|>|<｜[^<>]+?｜>|<(?:start|end)_of_turn>|\[gMASK\]|<sop>|</?arg_(?:key|value)>")
"""What the tokenizers of these families hold as special tokens."""


@cache
def read_template(name: str) -> str:
    try:
        folder = Path(str(distribution("trl").locate_file("trl/chat_templates")))
    except PackageNotFoundError:
        raise AssertionError("the official templates come from TRL's files: pip install --no-deps trl==1.16.0") from None
    return (folder / f"{name}.jinja").read_text(encoding="utf-8")


def make_tokenizer(name: str) -> Any:
    tokenizer = tiny_tokenizer(read_template(name))
    end = FAMILIES.get(name, "<|im_end|>")
    specials = sorted({end, *SPECIAL.findall(tokenizer.chat_template)})
    tokenizer.add_special_tokens({"bos_token": "<s>", "additional_special_tokens": specials})
    tokenizer.eos_token = end
    return tokenizer


@cache
def official_renderer(name: str, **options: Any) -> TemplateRenderer:
    return TemplateRenderer(make_tokenizer(name), **options)
