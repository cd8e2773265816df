"""GGUF files in llama.cpp, against the same model in transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from llama_cpp import Llama
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen3Config

from astuner_tools.exporting.gguf_model import write_gguf

PROMPTS = (
    "What is 2 + 3?",
    "12*34",
    "The capital of France is?",
    "Answer with one word.",
    "Hello\n\n\n42 times",
    "Wie heißt du? 😀",
    "I'll say it's   wide",
    "    indented 1234567",
    "List: a, b, c\n- 1\n- 2",
    "The price of a lamp, please",
)
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITTERS = {
    "smollm": (pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "gpt-2": (pre_tokenizers.ByteLevel(add_prefix_space=False),),
    "qwen2": (
        pre_tokenizers.Split(Regex(QWEN2), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ),
    "llama-bpe": (
        pre_tokenizers.Split(Regex(QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ),
}
SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.2,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
FAMILIES = {
    "llama, tied": LlamaConfig(**SIZES, tie_word_embeddings=True),
    "llama, untied, biases": LlamaConfig(**SIZES, tie_word_embeddings=False, attention_bias=True),
    "llama 3.1": LlamaConfig(**SIZES, rope_parameters=LLAMA3),
    "linear": LlamaConfig(**SIZES, rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}),
    "qwen2": Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SIZES, head_dim=32),
}


def load(file: Path) -> Llama:
    """Open a file with a cache in float32, as transformers has it; by default llama.cpp keeps it in float16."""
    return Llama(str(file), n_ctx=256, n_threads=1, type_k=0, type_v=0, verbose=False)


def answer(llama: Llama, ids: list[int], tokens: int) -> list[int]:
    found: list[int] = []
    for token in llama.generate(ids, temp=0.0, repeat_penalty=1.0):
        if token == llama.token_eos() or len(found) == tokens:
            break
        found.append(token)
    return found


def answer_by_transformers(model: Any, ids: list[int], tokens: int) -> list[int]:
    with torch.no_grad():
        found: list[int] = model.generate(torch.tensor([ids]), max_new_tokens=tokens, do_sample=False)[0, len(ids) :].tolist()
    ends = model.generation_config.eos_token_id
    return [token for token in found if token != ends]


def train_tokenizer(splitter: str, folder: Path) -> PreTrainedTokenizerFast:
    bpe = Tokenizer(models.BPE(ignore_merges=splitter == "llama-bpe"))
    bpe.pre_tokenizer = pre_tokenizers.Sequence(list(SPLITTERS[splitter]))
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False, min_frequency=1
    )
    bpe.train_from_iterator([*PROMPTS, "1234 12 34 123 42", "\n\n\n \n   "] * 3, trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|end|>")  # type: ignore[no-untyped-call]
    made.save_pretrained(folder)
    return made


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_text_has_the_ids_of_the_tokenizer(splitter: str, tmp_path: Path) -> None:
    tokenizer = train_tokenizer(splitter, tmp_path)
    save_model(FAMILIES["qwen2"], tmp_path, len(tokenizer))
    write_gguf(tmp_path, tmp_path / "model.gguf", "float32", name="mine")
    llama = load(tmp_path / "model.gguf")
    assert llama.metadata["tokenizer.ggml.pre"] == splitter
    for text in PROMPTS:
        assert llama.tokenize(text.encode(), add_bos=False) == tokenizer(text)["input_ids"], text


def save_model(config: Any, folder: Path, vocabulary: int) -> Any:
    torch.manual_seed(0)
    config.vocab_size, config.eos_token_id, config.bos_token_id = vocabulary, 0, None
    model = AutoModelForCausalLM.from_config(config).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            torch.nn.init.normal_(parameter, mean=0.0 if name.endswith("bias") else 1.0, std=0.2)
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_answers_of_every_family_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    tokenizer = train_tokenizer("smollm", tmp_path)
    model = save_model(FAMILIES[family], tmp_path, len(tokenizer))
    write_gguf(tmp_path, tmp_path / "model.gguf", "float32", name="mine")
    llama = load(tmp_path / "model.gguf")
    for text in PROMPTS:
        ids = tokenizer(text * 4)["input_ids"]
        assert answer(llama, ids, 12) == answer_by_transformers(model, ids, 12), text


def test_greedy_answers_of_a_tuned_model_are_those_of_its_hf_export(tuned: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tuned / "hf")
    model = AutoModelForCausalLM.from_pretrained(tuned / "hf", dtype=torch.float32).eval()
    llama = load(tuned / "float32" / "model.gguf")
    for text in PROMPTS:
        prompt = tokenizer.apply_chat_template([{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True)
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        assert llama.tokenize(prompt.encode(), add_bos=False, special=True) == ids
        assert answer(llama, ids, 24) == answer_by_transformers(model, ids, 24), text


@pytest.mark.parametrize(("dtype", "most"), [("float16", 2e-2), ("bfloat16", 2e-1), ("q8_0", 4e-1)])
def test_other_precisions_round_a_little(tuned: Path, dtype: str, most: float) -> None:
    found = [logits_of(tuned / name / "model.gguf") for name in ("float32", dtype)]
    difference = (found[0] - found[1]).abs().max().item()
    assert 0 < difference < most


def logits_of(file: Path) -> torch.Tensor:
    llama = Llama(str(file), n_ctx=256, n_threads=1, verbose=False, logits_all=True)
    llama.eval(llama.tokenize(PROMPTS[0].encode(), add_bos=False))
    return torch.tensor(llama.scores[: llama.n_tokens])


def test_the_files_are_smaller_the_fewer_bits_they_have(tuned: Path) -> None:
    sizes = [(tuned / name / "model.gguf").stat().st_size for name in ("float32", "float16", "q8_0")]
    assert sizes == sorted(sizes, reverse=True)


def test_the_chat_of_llama_cpp_has_the_chat_template(tuned: Path) -> None:
    llama = load(tuned / "float32" / "model.gguf")
    template = (tuned / "hf" / "chat_template.jinja").read_text(encoding="utf-8")
    assert llama.metadata["tokenizer.chat_template"] == template
