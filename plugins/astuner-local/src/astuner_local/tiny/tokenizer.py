"""The tiny model's tokenizer: byte-level BPE, single digits, ChatML with tool calls."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

PAD = "<|endoftext|>"
TURN_START = "<|im_start|>"
TURN_END = "<|im_end|>"
TOOL_MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

VOCAB_SIZE = 512
"""An upper bound: the corpus ends earlier."""


def chat_template() -> str:
    """Return the chat template of the model, for OpenAI-style messages."""
    return resources.files(__package__).joinpath("chat_template.jinja").read_text(encoding="utf-8")


def token_id(tokenizer: PreTrainedTokenizerFast, token: str) -> int:
    """Return the id of one token."""
    number = tokenizer.convert_tokens_to_ids(token)
    assert isinstance(number, int)
    return number


def train_tokenizer(corpus: Iterable[str], vocab_size: int = VOCAB_SIZE) -> PreTrainedTokenizerFast:
    """Train on texts without template marks. All bytes are in the vocabulary, so any text can be encoded.

    The vocabulary has at most `vocab_size` entries besides the marks of tool calls.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\d"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    bpe.decoder = decoders.ByteLevel()
    # The marks of a tool call are tokens but not special ones: decoding without special tokens must leave them to the parser.
    marks = [AddedToken(mark, special=False, normalized=False) for mark in TOOL_MARKS]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, TURN_START, TURN_END],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    bpe.train_from_iterator(corpus, trainer)
    bpe.add_tokens(marks)
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]  # transformers ships it without types
        tokenizer_object=bpe, eos_token=TURN_END, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = chat_template()
    return tokenizer


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, directory: Path) -> None:
    """Write the tokenizer under a class that transformers before 5 can load too, unlike the default."""
    tokenizer.save_pretrained(directory)
    file = directory / "tokenizer_config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
