"""The tokenizer of a Hugging Face folder as the keys of a GGUF file: byte-level BPE whose splitting llama.cpp knows."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import UsageError

if TYPE_CHECKING:
    from gguf import GGUFWriter

PLAIN_BPE = ("continuing_subword_prefix", "end_of_word_suffix", "dropout", "byte_fallback", "fuse_unk")
"""Options of a BPE model that llama.cpp does not have."""
NORMALIZERS = (None, {"type": "NFC"})
"""NFC is left out of the file, as the converter of llama.cpp does: text that is composed already has the same ids."""


def check_tokenizer(folder: Path) -> str:
    """Return the name of the tokenizer's splitting in llama.cpp; raises `UsageError` for one that it does not have."""
    document = _read(folder / "tokenizer.json")
    model = document["model"]
    where = f"{folder / 'tokenizer.json'}"
    if model["type"] != "BPE":
        raise UsageError(f"{where}: a GGUF file is written for byte-level BPE, and this is {model['type']}; use --format hf")
    if odd := [name for name in PLAIN_BPE if model.get(name)]:
        raise UsageError(f"{where}: llama.cpp has no {', '.join(odd)} in byte-level BPE, so ids would differ; use --format hf")
    if document.get("normalizer") not in NORMALIZERS:
        kind = document["normalizer"].get("type")
        raise UsageError(f"{where}: llama.cpp does not normalize text as this tokenizer does ({kind}); use --format hf")
    steps = _list_steps(document.get("pre_tokenizer"))
    table = tomllib.loads(resources.files(__package__).joinpath("splitters.toml").read_text(encoding="utf-8"))["splitter"]
    for row in table:
        if row["steps"] == steps and row.get("ignores_merges", False) == bool(model.get("ignore_merges")):
            return str(row["name"])
    known = ", ".join(sorted({row["name"] for row in table}))
    raise UsageError(
        f"{where}: splits text in a way that is not one of {known}, so llama.cpp would give it other ids: "
        f"{json.dumps(steps)[:300]}. Use --format hf"
    )


def add_tokenizer(writer: GGUFWriter, folder: Path, config: Mapping[str, Any], vocabulary: int) -> None:
    """Add tokens, merges, special tokens and the chat template; `vocabulary` is the number of rows of the embedding."""
    from gguf import TokenType
    from tokenizers import Tokenizer

    name = check_tokenizer(folder)
    document = _read(folder / "tokenizer.json")
    texts = {number: text for text, number in document["model"]["vocab"].items()}
    kinds = dict.fromkeys(texts, TokenType.NORMAL)
    for added in document.get("added_tokens") or ():
        texts[added["id"]] = added["content"]
        kinds[added["id"]] = TokenType.CONTROL if added["special"] else TokenType.USER_DEFINED
    if max(texts) >= vocabulary:
        raise UsageError(f"{folder}: its tokenizer has the token id {max(texts)}, and its model only {vocabulary:,} tokens")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list([texts.get(number, f"[PAD{number}]") for number in range(vocabulary)])
    writer.add_token_types([kinds.get(number, TokenType.UNUSED) for number in range(vocabulary)])
    merges = document["model"]["merges"]
    writer.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in merges])
    _add_special_tokens(writer, folder, config, {text: number for number, text in texts.items()})
    # A tokenizer of which post-processing adds tokens: llama.cpp has a switch for each end.
    whole = Tokenizer.from_file(str(folder / "tokenizer.json"))
    plain, more = (whole.encode("a", add_special_tokens=add).ids for add in (False, True))
    writer.add_add_bos_token(more[0] != plain[0])
    writer.add_add_eos_token(more[-1] != plain[-1])
    if (template := read_chat_template(folder)) is not None:
        writer.add_chat_template(template)


def _add_special_tokens(writer: GGUFWriter, folder: Path, config: Mapping[str, Any], ids: Mapping[str, int]) -> None:
    ends = list_end_tokens(folder, config)
    if not ends:
        raise UsageError(f"{folder}: names no eos token, so a program that serves it would never stop; add eos_token_id")
    writer.add_eos_token_id(ends[0])
    if len(ends) > 1:
        writer.add_eot_token_id(ends[1])
    named = {key: _find_id(folder, key, ids) for key in ("bos", "pad", "unk")}
    bos = named["bos"] if named["bos"] is not None else config.get("bos_token_id")
    # Without one, llama.cpp takes token 11 for it, whatever that is.
    writer.add_bos_token_id(bos if isinstance(bos, int) else ends[0])
    if named["pad"] is not None:
        writer.add_pad_token_id(named["pad"])
    if named["unk"] is not None:
        writer.add_unk_token_id(named["unk"])


def list_end_tokens(folder: Path, config: Mapping[str, Any]) -> list[int]:
    """Return the ids that end an answer, of `generation_config.json` or else of `config.json`, the tokenizer's own first."""
    found: Any = None
    for place in (_read(folder / "generation_config.json"), config):
        found = found if found is not None else place.get("eos_token_id")
    ends = [found] if isinstance(found, int) else [number for number in found or () if isinstance(number, int)]
    own = _find_id(folder, "eos", {row["content"]: row["id"] for row in _read(folder / "tokenizer.json")["added_tokens"]})
    return list(dict.fromkeys([*([own] if own is not None else []), *ends]))


def _find_id(folder: Path, key: str, ids: Mapping[str, int]) -> int | None:
    token = _read(folder / "tokenizer_config.json").get(f"{key}_token")
    text = token.get("content") if isinstance(token, dict) else token
    return ids.get(text) if isinstance(text, str) else None


def read_chat_template(folder: Path) -> str | None:
    """Return the chat template, from its own file or from `tokenizer_config.json`."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    found = _read(folder / "tokenizer_config.json").get("chat_template")
    return found if isinstance(found, str) else None


def _list_steps(pre: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    steps = [] if pre is None else pre["pretokenizers"] if pre["type"] == "Sequence" else [pre]
    return [{key: value for key, value in step.items() if key != "trim_offsets"} for step in steps]


def _read(file: Path) -> dict[str, Any]:
    """Return a JSON object; an empty one without the file."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        found = {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: is not valid JSON: {error}") from error
    if file.name == "tokenizer.json" and not found:
        raise UsageError(f"{file}: is missing, and a GGUF file holds the tokenizer; use --format hf")
    return dict(found)
