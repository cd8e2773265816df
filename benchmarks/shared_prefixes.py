"""An update of siblings that share a long prompt, in passes that count shared tokens once, against passes that count padded rows.

The workload: 8 rows of one group, 2,000 shared and 32 own tokens each, 10.8 M parameters in float32, one thread. The second side
gives each pass as many rows as rows x longest row allow, which is what a limit on padded tokens permits. Both sides take turns in
processes that begin alike; printed are medians of CPU seconds, the tokens computed, the norms of the gradients, and peak memory.

    python benchmarks/shared_prefixes.py [--rounds 5 --limit 4158 --prefix 2000 --own 32 --rows 8]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from unittest import mock

SIDES = ("packed", "padded")


def main() -> None:
    args = _parse_arguments()
    if args.side:
        print(json.dumps(measure(args)))
        return
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for _ in range(args.rounds):
        for side in SIDES:
            command = [sys.executable, __file__, *sys.argv[1:], "--side", side]
            found[side].append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    print(f"{args.rows} rows of {args.prefix:,} shared and {args.own} own tokens, at most {args.limit:,} a pass")
    for side, runs in found.items():
        seconds, peak = (statistics.median(run[key] for run in runs) for key in ("seconds", "peak_mb"))
        computed, norm = runs[0]["computed"], runs[0]["norm"]
        print(f"{side}: {seconds:.2f} CPU s, {computed:,.0f} tokens computed, gradient's norm {norm:.6f}, peak +{peak:.0f} MB")
    first, second = (statistics.median(run["seconds"] for run in found[side]) for side in SIDES)
    print(f"ratio {second / first:.2f}")


def measure(args: argparse.Namespace) -> dict[str, float]:
    """Return what one update took."""
    import numpy as np
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from astuner.contract.schema import Sample
    from astuner_local.trainer.options import TrainerOptions
    from astuner_local.trainer.rows import TrainRow
    from astuner_local.trainer.trainer import Trainer

    torch.set_num_threads(1)
    torch.manual_seed(0)
    shape = Qwen3Config(
        vocab_size=4096,
        hidden_size=384,
        intermediate_size=1024,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=8,
        head_dim=48,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    draw = np.random.default_rng(0)
    prompt = draw.integers(0, 4096, args.prefix)
    rows = []
    for number in range(args.rows):
        ids = np.concatenate([prompt, draw.integers(0, 4096, args.own)]).astype(np.int32)
        sample = Sample(
            episode_id=str(number),
            task_id="one",
            repeat=number,
            agent="agent",
            ids=ids,
            mask=np.arange(len(ids)) >= args.prefix,
            logprobs=np.full(len(ids), -8.0, np.float32),
            calls=(0,),
        )
        rows.append(TrainRow(sample=sample, advantage=(-1.0) ** number, group="one"))
    trainer = Trainer(Qwen3ForCausalLM(shape).float(), TrainerOptions(lr=1e-4, micro_batch_tokens=args.limit))
    before, began = _read_peak(), time.process_time()
    if args.side == "padded":
        with mock.patch("astuner_local.trainer.step.micro_batches", _deal_padded(args.limit)):
            metrics = trainer.update(rows, 1)
    else:
        metrics = trainer.update(rows, 1)
    seconds = time.process_time() - began
    return {
        "seconds": seconds,
        "computed": metrics["tokens/computed"],
        "norm": metrics["grad/norm"],
        "peak_mb": _read_peak() - before,
    }


def _deal_padded(limit: int):  # type: ignore[no-untyped-def]
    def deal(rows: Sequence[object], **_: object) -> list[list[int]]:
        longest = max(len(row.sample.ids) for row in rows)  # type: ignore[attr-defined]
        most = max(1, limit // longest)
        return [list(range(start, min(start + most, len(rows)))) for start in range(0, len(rows), most)]

    return deal


def _read_peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rounds", 5), ("limit", 4158), ("prefix", 2000), ("own", 32), ("rows", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
