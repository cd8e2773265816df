"""A real tokenizer of transformers, trained on the spot, for tests with token ids."""

from __future__ import annotations

from importlib import resources
from typing import Any

from astuner.contract.errors import UsageError
from astuner.shared.install_hints import install_command

SPECIAL_TOKENS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
]


def tiny_tokenizer(template: str | None = None) -> Any:
    """Return a byte-level BPE tokenizer of 420 ids with ChatML's special tokens.

    `template` is a chat template; ChatML, with tools and reasoning, when None. Raises `UsageError` without the extra `rollout`.
    """
    try:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
        from transformers import PreTrainedTokenizerFast
    except ModuleNotFoundError as error:
        raise UsageError(f"playing episodes in a test needs {error.name}: {install_command('astuner-core[rollout]')}") from error

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    corpus = ['{"name": "add", "arguments": {"a": 1, "b": 2}}', "the user asks the assistant what two and two make, w12 w340 w56"]
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=SPECIAL_TOKENS, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    core.train_from_iterator(corpus * 4, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>")  # type: ignore[no-untyped-call]
    tokenizer.chat_template = template or resources.files("astuner.model.rendering").joinpath("chatml.jinja").read_text(
        encoding="utf-8"
    )
    return tokenizer
