"""The engine `local` and transformers at long contexts: CPU time of reading a prompt, and of one decoding step behind it.

python benchmarks/long_contexts.py [--size 10m|135m] [--contexts 1000 2000] [--rows 1 8] [--dtype float32] [--rounds 5]

Weights are random. Both sides take turns in one process, and each figure is the median over the rounds. transformers decodes with
its own cache, and without sampling. Prompts differ, so that no prefix is shared. The last columns compare the decoding step to
the linear layers in it. Ratios below 1 are faster.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from statistics import median

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from astuner.contract.schema import Request, Sampling
from astuner_local.compiled.kernels import Kernels, load_kernels
from astuner_local.engine.batch import BatchEngine
from astuner_local.forward.choose import make_forward
from astuner_local.forward.seam import Forward

SIZES = {
    "10m": {"hidden_size": 384, "layers": 6, "heads": 6, "kv_heads": 6, "intermediate_size": 1024, "vocab_size": 495},
    "135m": {"hidden_size": 576, "layers": 30, "heads": 9, "kv_heads": 3, "intermediate_size": 1536, "vocab_size": 49152},
}
"""The second one is that of SmolLM2-135M."""
NEW = 8
"""Decoding steps of a measurement."""


def main() -> None:
    """Print a line for each context and number of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="10m")
    parser.add_argument("--contexts", type=int, nargs="+", default=[1000, 2000])
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-compiled", dest="compiled", action="store_false", help="Without the kernels in C.")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = make_model(args.size, max(args.contexts) + NEW + 2).to(getattr(torch, args.dtype))
    kernels = load_kernels(model.dtype, "cpu") if args.compiled else None
    forward = make_forward(model, trainable=False, dtype=model.dtype, kernels=kernels)
    print(
        "| context | rows | prefill, ms a row | transformers | ratio | decode, ms a step | transformers | ratio "
        "| linear layers alone | ratio |"
    )
    print(f"|{'---|' * 10}")
    for context in args.contexts:
        for rows in args.rows:
            make = make_runs(model, forward, kernels, context, rows)
            # The first round, which allocates, does not count.
            taken, alone = [], []
            for number in range(args.rounds + 1):
                taken.append([measure(run) for run in make(number)])
                alone.append(measure_linears(model, kernels, rows))
            ours, theirs = ([median(pair) for pair in zip(*side, strict=True)] for side in zip(*taken[1:], strict=True))
            linears = median(alone[1:])
            cells = [f"{1000 * ours[0] / rows:.0f}", f"{1000 * theirs[0] / rows:.0f}", f"{ours[0] / theirs[0]:.2f}"]
            cells += [f"{1000 * ours[1]:.1f}", f"{1000 * theirs[1]:.1f}", f"{ours[1] / theirs[1]:.2f}"]
            cells += [f"{1000 * linears:.1f}", f"{ours[1] / linears:.2f}"]
            print(f"| {context:,} | {rows} | {' | '.join(cells)} |", flush=True)


def make_model(size: str, length: int) -> PreTrainedModel:
    """Return a model of random weights."""
    shape = SIZES[size]
    config = LlamaConfig(
        hidden_size=shape["hidden_size"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"],
        intermediate_size=shape["intermediate_size"],
        vocab_size=shape["vocab_size"],
        max_position_embeddings=length,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


Steps = Callable[[], None]
Runs = tuple[tuple[Steps, Steps], tuple[Steps, Steps]]
"""Of the engine and of transformers: what reads the prompts, and what decodes behind them."""


def make_runs(
    model: PreTrainedModel, forward: Forward, kernels: Kernels | None, context: int, rows: int
) -> Callable[[int], Runs]:
    """Return what makes the runs of a round by its number; the engine and its memory are the same in all of them."""
    longest = context + NEW + 2
    engine = BatchEngine(forward, max_model_len=longest, max_num_seqs=rows, prefill_tokens=rows * context, kernels=kernels)

    def make(number: int) -> Runs:
        draw = random.Random(number)
        prompts = [[draw.randrange(3, forward.vocab_size) for _ in range(context)] for _ in range(rows)]
        for row in range(rows):
            engine.release(str(row))

        def prefill() -> None:
            for row, prompt in enumerate(prompts):
                sampling = Sampling(max_tokens=NEW + 1, seed=row)
                engine.submit(Request(id=str(row), session=str(row), prompt_ids=prompt, sampling=sampling))
            engine.step()

        def decode() -> None:
            while engine.busy:
                engine.step()

        ids, state = torch.tensor(prompts), {}

        @torch.inference_mode()
        def prefill_theirs() -> None:
            state["out"] = model(input_ids=ids, use_cache=True, logits_to_keep=1)

        @torch.inference_mode()
        def decode_theirs() -> None:
            for _ in range(NEW):
                following = state["out"].logits[:, -1:].argmax(-1)
                state["out"] = model(input_ids=following, past_key_values=state["out"].past_key_values, use_cache=True)

        return (prefill, decode), (prefill_theirs, decode_theirs)

    return make


@torch.inference_mode()
def measure_linears(model: PreTrainedModel, kernels: Kernels | None, rows: int) -> float:
    """Return the CPU seconds of all linear layers on some rows, by torch or by the kernels, whichever is faster."""
    layers = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    inputs = {size: torch.randn(rows, size).to(model.dtype) for size in {layer.in_features for layer in layers}}
    taken = []
    for own in [None, kernels] if kernels else [None]:
        began = time.process_time()
        for layer in layers:
            x = inputs[layer.in_features]
            if own is None:
                layer(x)
            else:
                own.multiply(x, layer.weight, None, layer.in_features)
        taken.append(time.process_time() - began)
    return min(taken)


def measure(steps: tuple[Steps, Steps]) -> tuple[float, float]:
    """Return the CPU seconds of reading the prompts and of one decoding step."""
    taken = []
    for run in steps:
        began = time.process_time()
        run()
        taken.append(time.process_time() - began)
    return taken[0], taken[1] / NEW


if __name__ == "__main__":
    main()
