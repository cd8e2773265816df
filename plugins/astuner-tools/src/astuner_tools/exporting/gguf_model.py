"""A Hugging Face folder as one GGUF file, which llama.cpp, Ollama and LM Studio load."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.contract.errors import RunFailed, UsageError
from astuner_tools.exporting.gguf_tokenizer import add_tokenizer, check_tokenizer
from astuner_tools.exporting.request import QUANTIZED

if TYPE_CHECKING:
    from gguf import GGMLQuantizationType, GGUFWriter, TensorNameMap
    from numpy.typing import NDArray

GGUF_FILE = "model.gguf"
NAMES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", QUANTIZED: "Q8_0"}
"""Of precisions, in the package `gguf`."""


@frozen(kw_only=True)
class Architecture:
    """A family of models as llama.cpp has it."""

    name: str
    rotates_pairs: bool = False
    """Rotary embeddings turn neighbouring dimensions, not the two halves: rows of queries and keys are reordered."""


@frozen(kw_only=True)
class TensorPlace:
    """Where a tensor lies, and where it goes."""

    file: Path
    name: str
    gguf_name: str
    shape: tuple[int, ...]


ARCHITECTURES = {
    "LlamaForCausalLM": Architecture(name="llama", rotates_pairs=True),
    "Qwen2ForCausalLM": Architecture(name="qwen2"),
    "Qwen3ForCausalLM": Architecture(name="qwen3"),
}
"""By the class that `config.json` names."""


def check_convertible(folder: Path) -> tuple[Architecture, dict[str, Any]]:
    """Return the architecture and the configuration of a model; raises `UsageError` for what no GGUF file can be written of."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        names = config.get("architectures") or [None]
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise UsageError(f"{folder / 'config.json'}: cannot be read: {error}") from error
    architecture = ARCHITECTURES.get(names[0])
    if architecture is None:
        known = ", ".join(ARCHITECTURES)
        raise UsageError(
            f"{folder / 'config.json'}: a GGUF file is written for {known}, and this model is {names[0]}. Use --format hf, and "
            "the converter of llama.cpp (convert_hf_to_gguf.py) on what it writes"
        )
    if config.get("use_sliding_window") or config.get("mlp_bias") or config.get("quantization_config"):
        raise UsageError(
            f"{folder / 'config.json'}: has use_sliding_window, mlp_bias or quantization_config, which is not converted; "
            "use --format hf"
        )
    _read_rope(config, folder)
    check_tokenizer(folder)
    return architecture, config


def write_gguf(folder: Path, file: Path, dtype: str, *, name: str) -> None:
    """Write the model in `folder`; matrices get `dtype`, a key of `NAMES`, and vectors float32, which llama.cpp wants.

    Raises `UsageError` for an architecture, a tokenizer or a tensor that llama.cpp does not have.
    """
    import numpy as np
    from gguf import MODEL_ARCH, GGUFWriter, LlamaFileType, get_tensor_name_map, quants

    architecture, config = check_convertible(folder)
    writer = GGUFWriter(file, architecture.name)
    writer.add_type("model")
    writer.add_name(name)
    writer.add_file_type(LlamaFileType.ALL_F32 if dtype == "float32" else LlamaFileType[f"MOSTLY_{NAMES[dtype]}"])
    writer.add_quantization_version(2)
    heads = _add_shape(writer, config, folder)
    places = _place_tensors(
        folder, config, get_tensor_name_map(MODEL_ARCH[architecture.name.upper()], config["num_hidden_layers"])
    )
    rows = next(place.shape[0] for place in places if place.name == "model.embed_tokens.weight")
    add_tokenizer(writer, folder, config, rows)
    kinds = {place: _choose_kind(place.shape, dtype) for place in places}
    for place, kind in kinds.items():
        writer.add_tensor_info(place.gguf_name, place.shape, np.dtype(np.float32), _count_bytes(place.shape, kind), kind)
    factors = _compute_frequency_factors(config, folder)
    if factors is not None:
        writer.add_tensor_info("rope_freqs.weight", factors.shape, factors.dtype, factors.nbytes)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        # One tensor in memory at a time.
        for place, kind in kinds.items():
            values = _read_tensor(place)
            values = _turn_pairs(values, place.name, heads) if architecture.rotates_pairs else values
            writer.write_tensor_data(quants.quantize(np.ascontiguousarray(values), kind))
        if factors is not None:
            writer.write_tensor_data(factors)
    except OSError as error:
        raise RunFailed(f"{file}: {error.strerror or error}; free some space, or name another directory") from error
    finally:
        writer.close()


def _add_shape(writer: GGUFWriter, config: Mapping[str, Any], folder: Path) -> tuple[int, int]:
    """Add the sizes; return the numbers of heads of queries and of keys."""
    heads = config["num_attention_heads"]
    key_heads = config.get("num_key_value_heads") or heads
    size = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_rope_dimension_count(size)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope = _read_rope(config, folder)
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        from gguf import RopeScalingType

        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    return heads, key_heads


def _read_rope(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the rotary embedding's base and scaling, as transformers before and after 5 write them."""
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    rope = {"rope_theta": config.get("rope_theta", 10_000.0), "rope_type": given.get("type", "default"), **given}
    if rope["rope_type"] not in ("default", "linear", "llama3"):
        raise UsageError(
            f"{folder / 'config.json'}: rotary embeddings of type {rope['rope_type']} are not converted; use --format hf"
        )
    return rope


def _compute_frequency_factors(config: Mapping[str, Any], folder: Path) -> NDArray[Any] | None:
    """Return what each frequency of Llama 3.1 and later is divided by, float32 (head size / 2,); None for other scalings."""
    rope = _read_rope(config, folder)
    if rope["rope_type"] != "llama3":
        return None
    import numpy as np

    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    lengths = 2 * np.pi * rope["rope_theta"] ** (np.arange(0, size, 2) / size)
    old, low, high = (rope[key] for key in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
    smooth = ((old / lengths - low) / (high - low)).clip(0, 1)
    factors: NDArray[Any] = (1 / ((1 - smooth) / rope["factor"] + smooth)).astype(np.float32)
    return factors


def _place_tensors(folder: Path, config: Mapping[str, Any], names: TensorNameMap) -> list[TensorPlace]:
    """Return every tensor of the model, except an output layer that is the embedding."""
    from safetensors import safe_open

    found = []
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118  # it cannot be iterated
                if config.get("tie_word_embeddings") and name == "lm_head.weight":
                    continue
                new = names.get_name(name, try_suffixes=(".weight", ".bias"))
                if new is None:
                    raise UsageError(f"{file}: has a tensor {name}, for which llama.cpp has no place; use --format hf")
                shape = tuple(opened.get_slice(name).get_shape())
                found.append(TensorPlace(file=file, name=name, gguf_name=new, shape=shape))
    return found


def _read_tensor(place: TensorPlace) -> NDArray[Any]:
    from safetensors import safe_open

    with safe_open(place.file, framework="pt") as opened:  # numpy has no bfloat16
        values: NDArray[Any] = opened.get_tensor(place.name).float().numpy()
    return values


def _turn_pairs(values: NDArray[Any], name: str, heads: tuple[int, int]) -> NDArray[Any]:
    """Put the two halves of each head's rows side by side, for queries and keys."""
    layer = name.split(".")[-2]
    if layer not in ("q_proj", "k_proj"):
        return values
    count = heads[0] if layer == "q_proj" else heads[1]
    halves = values.reshape(count, 2, values.shape[0] // count // 2, *values.shape[1:])
    return halves.swapaxes(1, 2).reshape(values.shape)


def _choose_kind(shape: Sequence[int], dtype: str) -> GGMLQuantizationType:
    from gguf import GGMLQuantizationType

    if len(shape) == 1:
        dtype = "float32"
    elif dtype == QUANTIZED and shape[-1] % 32:
        dtype = "float16"
    return GGMLQuantizationType[NAMES[dtype]]


def _count_bytes(shape: Sequence[int], kind: GGMLQuantizationType) -> int:
    from math import prod

    from gguf import quant_shape_to_byte_shape

    return prod(quant_shape_to_byte_shape(shape, kind))
