"""What the training passes of a model hold, in bytes, by its shape. Imports no torch.

The tensors that autograd keeps were counted one by one; `tests/trainer/test_pass_memory.py` compares the sums with the peaks of
torch's allocator.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from astuner.settings.memory_estimate import LINEAR, ModelShape
from astuner_local.forward.family_names import FAMILIES

FLOAT32 = 4
LOGITS_ALIVE = 2
"""Tensors of [tokens, vocabulary] at the peak of the loss: logits and probabilities."""
TRUNCATED = 33
"""Bytes of each logit for the choice of the nucleus: sorted values and their order, ranks, sums in double precision."""


@frozen(kw_only=True)
class PassOptions:
    """The options of a trainer that decide the memory of a pass."""

    item: int
    """Bytes of a number in matrix products."""
    lora_rank: int = 0
    targets: str | Sequence[str] = "all-linear"
    logits_per_pass: int = 2**25
    truncated: bool = False
    """Whether the sampler leaves out part of the vocabulary."""
    weight_item: int = FLOAT32
    """Bytes of a trained weight, and of its gradient."""
    moment_item: int = FLOAT32
    """Bytes of a moment of AdamW."""
    attention_item: int = FLOAT32
    """Bytes of a number in attention; on a CPU it is computed in float32."""


@frozen(kw_only=True)
class TrainingMemory:
    """Bytes at the peak of an update."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    """Kept for the backward pass, and what it holds of one layer itself."""
    logits: int
    """Of one piece of the vocabulary's projection; activations of the backward pass and logits are not there at once."""

    @property
    def total(self) -> int:
        """The sum."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.logits


def measure_states(shape: ModelShape, options: PassOptions) -> tuple[int, int, int]:
    """Return the bytes of weights, gradients and moments."""
    if not options.lora_rank:
        number = shape.parameters
        return number * options.weight_item, number * options.weight_item, 2 * number * options.moment_item
    adapters = shape.count_adapter_parameters(options.lora_rank, options.targets)
    weights = shape.parameters * options.item + adapters * options.weight_item
    return weights, adapters * options.weight_item, 2 * adapters * options.moment_item


def measure_training(shape: ModelShape, options: PassOptions, *, tokens: int, trained: int, recompute: bool) -> TrainingMemory:
    """Return the peak of an update whose passes have `tokens` tokens, `trained` of them trained, and more than one pass."""
    layer, copies = count_layer_bytes(shape, options), count_copied_bytes(shape, options)
    token = options.item * shape.width
    fused = shape.family in FAMILIES
    kept = shape.layers * tokens * (token if recompute else layer)
    # What is cast for fused layers is kept from pass to pass, elsewhere for the backward pass.
    kept += shape.layers * copies * (fused or not recompute)
    kept += tokens * 2 * token + trained * token  # the last norm, and the states that predict trained tokens
    item = FLOAT32 if options.lora_rank else options.item
    working = tokens * item * (shape.width + 4 * shape.inner) + FLOAT32 * 2 * shape.inner * shape.width * (not options.lora_rank)
    if recompute:
        working += tokens * layer + copies * (not fused)
    pieces = min(trained * shape.vocabulary, max(options.logits_per_pass, shape.vocabulary))
    logits = pieces * (FLOAT32 * LOGITS_ALIVE + TRUNCATED * options.truncated)
    if options.item != options.weight_item or options.lora_rank:
        logits += options.item * shape.table_parameters * (not options.lora_rank)
    if not options.lora_rank:
        # In float32 its gradient is added in place; in another precision it is made whole first, and cast.
        cast = options.item + options.weight_item * (options.item != options.weight_item)
        in_place = fused and options.item == FLOAT32
        added = 0 if in_place else shape.table_parameters * cast + pieces * options.item
        after = pieces * FLOAT32 + added
        logits = max(logits, after)
    weights, gradients, optimizer = measure_states(shape, options)
    return TrainingMemory(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        activations=kept + max(0, working - logits),
        logits=logits,
    )


def count_layer_bytes(shape: ModelShape, options: PassOptions) -> int:
    """Return what autograd keeps of a token in one layer."""
    width, inner, queries, keys = shape.width, shape.inner, shape.query_size, shape.key_size
    statistics = FLOAT32 * (shape.heads + 2)
    attention = options.attention_item * (2 * queries + 2 * keys)  # queries, keys, values, result
    norms = shape.qk_norm * options.item * (queries + keys)
    targets = set(LINEAR if isinstance(options.targets, str) else options.targets)
    if shape.family in FAMILIES:
        # Two norms with two tensors each, the input of the output projection; gate and up.
        narrow = FLOAT32 * options.lora_rank * len(targets & {*LINEAR})
        return options.item * (4 * width + queries + 2 * inner) + attention + norms + statistics + narrow
    if not options.lora_rank:
        return _count_general_bytes(shape, options.item) + attention + norms + statistics
    inputs = {**dict.fromkeys(LINEAR, width), "o_proj": queries, "down_proj": inner}
    if options.item == FLOAT32:
        # Projections of one input keep it once.
        once = [width * bool(targets & {"q_proj", "k_proj", "v_proj"}), width * bool(targets & {"gate_proj", "up_proj"})]
        once += [inputs[name] for name in ("o_proj", "down_proj") if name in targets]
        adapted = FLOAT32 * sum(once)
    else:
        # Each adapter makes its own copy in float32.
        adapted = FLOAT32 * sum(inputs[name] for name in targets if name in inputs)
    adapted += FLOAT32 * options.lora_rank * len(targets & inputs.keys())
    return 2 * FLOAT32 * width + options.item * 3 * inner + attention + norms + statistics + adapted


def _count_general_bytes(shape: ModelShape, item: int) -> int:
    """Return those of the layers of transformers, all of whose weights are trained, without the attention."""
    width, inner, queries = shape.width, shape.inner, shape.query_size
    if item == FLOAT32:
        return item * (6 * width + queries + 4 * inner)
    # Norms in float32; each projection casts its input.
    return FLOAT32 * 4 * width + item * (5 * width + queries + 4 * inner)


def count_copied_bytes(shape: ModelShape, options: PassOptions) -> int:
    """Return the copies of a layer's weights in the precision that is computed in, where it is not their own."""
    cast = not options.lora_rank and options.item != options.weight_item
    return options.item * shape.layer_parameters * cast
