"""Tokens per second (per CPU second on a CPU) of the in-process engine and of `transformers.generate`, on the same episodes.

python benchmarks/engine.py [--layers 2 --width 96 --heads 4 --kv-heads 4 --vocab 495 --episodes 64 --threads 1 --dtype float32]
                            [--device cpu]

Episodes come in groups of 8 that share their first prompt; the lengths of turns and of what the environment answers are drawn
beforehand and forced, so that every engine does the same work. `generate` runs as a static batch, left-padded, and computes each
prompt again in each turn. Weights are random: no text has a meaning here. All take turns; the figures are medians.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from attrs import frozen
from rich.console import Console
from rich.table import Table
from transformers import Qwen2Config, Qwen2ForCausalLM

from astuner.contract.schema import Request, Sampling
from astuner_local.compiled.kernels import load_kernels
from astuner_local.engine.batch import BatchEngine
from astuner_local.engine.plugin import LocalEngine
from astuner_local.forward.choose import make_forward

GROUP = 8
Taken = tuple[float, float]
"""CPU and wall seconds."""


class Clock:
    """Measures a block."""

    def __enter__(self) -> Clock:
        self._began = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        cpu, wall = self._began
        self.taken: Taken = time.process_time() - cpu, time.perf_counter() - wall


@frozen
class Episode:
    """What happens in an episode, whatever is sampled."""

    name: str
    prompt: list[int]
    turns: list[tuple[int, list[int]]]
    """(tokens sampled, ids that the environment answers)."""


def main() -> None:
    args = _arguments()
    torch.set_num_threads(args.threads)
    model = _model(args)
    dtype = getattr(torch, args.dtype)
    episodes = _episodes(args)
    tokens = sum(size for episode in episodes for size, _ in episode.turns)
    longest = max(len(e.prompt) + sum(size + len(answer) for size, answer in e.turns) for e in episodes)
    kernels = load_kernels(dtype, args.device) if args.compiled else None
    forward = make_forward(model, trainable=False, dtype=dtype, kernels=kernels)
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6

    def step_by_step() -> Taken:
        engine = BatchEngine(forward, max_model_len=longest, max_num_seqs=args.episodes, device=args.device, kernels=kernels)
        with Clock() as clock:
            play_batch(engine, episodes)
        return clock.taken

    def as_agents() -> Taken:
        return asyncio.run(play_engine(model, dtype, longest, episodes, compiled=args.compiled))

    def generate() -> Taken:
        with Clock() as clock:
            play_generate(cast, episodes)
        return clock.taken

    cast = model if args.dtype == "float32" else _model(args).to(dtype)
    runs: dict[str, Callable[[], Taken]] = {
        "generate, left-padded, prompts computed each turn": generate,
        "astuner local, step by step": step_by_step,
        "astuner local, async agents": as_agents,
    }
    # The first round, which allocates, does not count.
    rounds = [[run() for run in runs.values()] for _ in range(args.repeats + 1)][1:]
    table = Table(
        title=f"{millions:.2f} M parameters, {args.episodes} episodes, {tokens} tokens, {args.dtype}, {args.device}, "
        f"threads: {args.threads}"
    )
    # What a GPU does takes no CPU seconds.
    counted = 0 if args.device == "cpu" else 1
    for column in ("engine", "CPU s", "wall s", f"tokens / {('CPU', 'wall')[counted]} s", "ratio"):
        table.add_column(column, justify="left" if column == "engine" else "right")
    for name, takes in zip(runs, zip(*rounds, strict=True), strict=True):
        cpu, wall = (median(pair) for pair in zip(*takes, strict=True))
        ratio = median(each[0][counted] / take[counted] for each, take in zip(rounds, takes, strict=True))
        table.add_row(name, f"{cpu:.2f}", f"{wall:.2f}", f"{tokens / (cpu, wall)[counted]:.0f}", f"{ratio:.2f}")
    Console(width=110).print(table)


def play_batch(engine: BatchEngine, episodes: list[Episode]) -> None:
    """Play all episodes, each going on as soon as its turn is done."""
    streams = {episode.name: list(episode.prompt) for episode in episodes}
    running = [(episode, 0, engine.submit(_request(episode, 0, episode.prompt))) for episode in episodes]
    while running:
        engine.step()
        going = []
        for episode, turn, generation in running:
            if not generation.done:
                going.append((episode, turn, generation))
                continue
            stream = streams[episode.name]
            stream += generation.ids + episode.turns[turn][1]
            if turn + 1 < len(episode.turns):
                going.append((episode, turn + 1, engine.submit(_request(episode, turn + 1, stream))))
            else:
                engine.release(episode.name)
        running = going


async def play_engine(
    model: torch.nn.Module, dtype: torch.dtype, longest: int, episodes: list[Episode], *, compiled: bool
) -> Taken:
    """Play all episodes as concurrent agents of one event loop; starting the engine, and its trials, are not counted."""
    engine = LocalEngine.from_module(model, max_model_len=longest, max_num_seqs=len(episodes), dtype=dtype, compiled=compiled)
    await engine.start()

    async def agent(episode: Episode) -> None:
        stream = list(episode.prompt)
        for turn, (_, answer) in enumerate(episode.turns):
            async for chunk in engine.generate(_request(episode, turn, stream)):
                stream += chunk.ids
            stream += answer
        await engine.release(episode.name)

    with Clock() as clock:
        await asyncio.gather(*map(agent, episodes))
    await engine.close()
    return clock.taken


@torch.inference_mode()
def play_generate(model: Any, episodes: list[Episode]) -> None:
    """Play all episodes turn by turn as one padded batch; those whose turn is shorter wait for the others."""
    streams = {episode.name: list(episode.prompt) for episode in episodes}
    for turn in range(max(len(episode.turns) for episode in episodes)):
        batch = [episode for episode in episodes if turn < len(episode.turns)]
        width = max(len(streams[episode.name]) for episode in batch)
        ids = torch.zeros(len(batch), width, dtype=torch.long, device=model.device)
        mask = torch.zeros(len(batch), width, dtype=torch.long, device=model.device)
        for row, episode in enumerate(batch):
            stream = streams[episode.name]
            ids[row, width - len(stream) :] = torch.tensor(stream)
            mask[row, width - len(stream) :] = 1
        new = max(episode.turns[turn][0] for episode in batch)
        out = model.generate(
            input_ids=ids, attention_mask=mask, do_sample=True, top_k=0, max_new_tokens=new, min_new_tokens=new, pad_token_id=0
        )
        for row, episode in enumerate(batch):
            size, answer = episode.turns[turn]
            streams[episode.name] += out[row, width : width + size].tolist() + answer


def _request(episode: Episode, turn: int, prompt: list[int]) -> Request:
    sampling = Sampling(max_tokens=episode.turns[turn][0], seed=hash((episode.name, turn)) & 0xFFFFFFFF)
    return Request(id=f"{episode.name}/{turn}", session=episode.name, prompt_ids=list(prompt), sampling=sampling)


def _episodes(args: argparse.Namespace) -> list[Episode]:
    draw = random.Random(0)

    def ids(size: int) -> list[int]:
        return [draw.randrange(3, args.vocab) for _ in range(size)]

    episodes = []
    for number in range(args.episodes):
        if number % GROUP == 0:
            prompt = ids(draw.randint(20, 60))
        turns = [(draw.randint(6, 26), ids(draw.randint(4, 16))) for _ in range(draw.randint(2, 6))]
        episodes.append(Episode(name=str(number), prompt=prompt, turns=turns))
    return episodes


def _model(args: argparse.Namespace) -> Any:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=2 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.heads,
        num_key_value_heads=args.kv_heads,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
        # Logits of one size at every width: large ones would make a check in bfloat16 of their rounding alone.
        initializer_range=0.08 * (96 / args.width) ** 0.5,
    )
    model: Any = Qwen2ForCausalLM(config)
    return model.eval().to(args.device)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {
        "layers": 2,
        "width": 96,
        "heads": 4,
        "kv-heads": 4,
        "vocab": 495,
        "episodes": 64,
        "threads": 1,
        "repeats": 5,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--no-compiled", dest="compiled", action="store_false", help="Without the kernels in C.")
    parser.add_argument("--device", default="cpu", help="As torch names it: cpu, cuda.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
