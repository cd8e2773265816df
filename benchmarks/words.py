"""A tokenizer of about the size of text that real ones have: 8,000 tokens learnt from Python's own help texts, offline."""

from __future__ import annotations

from pydoc_data.topics import topics
from typing import Any

from astuner_devkit.tokenizer import SPECIAL_TOKENS, tiny_tokenizer


def help_tokenizer() -> Any:
    """Return a byte-level BPE tokenizer with the ChatML template of the test kit."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=8000, special_tokens=SPECIAL_TOKENS, show_progress=False, initial_alphabet=alphabet)
    core.train_from_iterator(topics.values(), trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>")  # type: ignore[no-untyped-call]
    tokenizer.chat_template = tiny_tokenizer().chat_template
    return tokenizer
