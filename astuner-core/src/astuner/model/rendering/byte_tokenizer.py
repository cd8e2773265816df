"""A tokenizer without a model: a token for each byte, and ChatML. For agents that a script answers before there is a model."""

from __future__ import annotations

from importlib import resources
from typing import Any

from astuner.model.rendering.template_renderer import TemplateRenderer, load_renderer
from astuner.settings.config.pretrained import is_on_disk

MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
BYTES_PER_TOKEN = 8
"""By which limits of length are raised: no fewer bytes than a token of a model's vocabulary holds on average."""
DATA_LENGTHS = ("max_prompt_length", "max_response_length")
ROLLOUT_LENGTHS = ("max_model_len", "max_response_length_in_one_turn")


def make_byte_tokenizer() -> Any:
    """Return a tokenizer of transformers with 256 bytes and the marks of ChatML; nothing is downloaded or trained."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(list(MARKS))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>")  # type: ignore[no-untyped-call]
    tokenizer.chat_template = resources.files(__package__).joinpath("chatml.jinja").read_text(encoding="utf-8")
    return tokenizer


def load_renderer_or_bytes(model_path: str, **options: Any) -> TemplateRenderer:
    """Load the renderer of a model that is on this machine, or make one of bytes; `options` are TemplateRenderer's."""
    if is_on_disk(model_path):
        return load_renderer(model_path, **options)
    return TemplateRenderer(make_byte_tokenizer(), **options)
