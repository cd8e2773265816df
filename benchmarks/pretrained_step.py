"""One training step of a pretrained model of 135 M parameters: TRL's GRPOTrainer against ours, and ours against itself.

Each side runs in processes of its own, one at a time and in turns, so that each has its own peak of memory. A step is 2 prompts
x 8 answers of at most 24 tokens: rollout, rewards, advantages, one update, with the divergence from the first model in the loss.
Both take the same prompts in the same order. CPU seconds; the first step of each process is left out. Before any figure is
printed, ours computes loss and gradient on the rows of TRL's first step.

    python benchmarks/pretrained_step.py trl full --rounds 3              # needs `pip install trl==1.16.0`
    python benchmarks/pretrained_step.py trl full --task shop
    python benchmarks/pretrained_step.py full lora bfloat16 --rounds 3
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", TOKENIZERS_PARALLELISM="false", HF_DATASETS_OFFLINE="1")

REPOSITORY = Path(__file__).parents[1]
CACHED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "astuner" / "models" / "smollm2-135m"
SAMPLES, NEW_TOKENS, LR, BETA, RANK = 8, 24, 1e-5, 0.002, 16
SIDES = ("trl", "full", "lora", "bfloat16", "without-kl")
SYSTEM = "You work in a shop. To see a price, write LOOKUP and the item.\nExample:\nQuestion: How much is a pen?\nYou: LOOKUP pen"
Messages = list[dict[str, str]]


def read_prompts(task: str) -> list[Messages]:
    """Return the conversations of a tutorial, up to the model's first answer."""
    lines = (REPOSITORY / "tutorial" / task / "train.jsonl").read_text().splitlines()
    queries = [json.loads(line)["main_query"] for line in lines]
    if task == "shop":
        return [[{"role": "system", "content": SYSTEM}, {"role": "user", "content": query}] for query in queries]
    return [[{"role": "user", "content": f"{query}\n\nAnswer with only one word, positive or negative."}] for query in queries]


def reward(text: str) -> float:
    """Return a reward without ties, so that no row is without signal."""
    return len(text) % 7 / 7 + 1e-3 * random.random()


def run_trl(arguments: argparse.Namespace) -> dict[str, Any]:
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(arguments.threads)
    seconds: list[float] = []
    tokens: list[int] = []

    class Clock(TrainerCallback):
        begun = 0.0

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.begun = time.process_time()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            seconds.append(time.process_time() - self.begun)

    def score(completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float]:
        tokens.append(sum(map(len, completion_ids)))
        return [reward(each[0]["content"]) for each in completions]

    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    if arguments.first:
        # The pad token is also the end of a turn, whose embedding gets no gradient in transformers.
        model.get_input_embeddings().padding_idx = None
    with tempfile.TemporaryDirectory() as directory:
        settings = GRPOConfig(
            output_dir=directory,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            per_device_train_batch_size=arguments.prompts * SAMPLES,
            num_generations=SAMPLES,
            max_completion_length=NEW_TOKENS,
            max_steps=arguments.steps,
            learning_rate=LR,
            lr_scheduler_type="constant",
            weight_decay=0.0,
            beta=BETA,
            shuffle_dataset=False,
            logging_steps=10**6,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        trainer = GRPOTrainer(
            model=model,
            processing_class=AutoTokenizer.from_pretrained(arguments.model, padding_side="left"),
            reward_funcs=score,
            args=settings,
            train_dataset=Dataset.from_dict({"prompt": read_prompts(arguments.task)}),
            callbacks=[Clock()],
        )
        usual = trainer._compute_loss

        def watch(module: Any, inputs: dict[str, Any]) -> Any:
            """Write inputs, loss and gradient of the first step for our side."""
            loss = usual(module, inputs)
            if arguments.first:
                named = dict(model.named_parameters())
                found = torch.autograd.grad(loss, list(named.values()), retain_graph=True)
                wanted = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages")
                kept = {name: inputs[name] for name in wanted}
                torch.save((kept, loss.item(), dict(zip(named, found, strict=True))), arguments.first)
            return loss

        trainer._compute_loss = watch
        trainer.train()
    return {"seconds": seconds, "rollout": [], "tokens": tokens}


def run_ours(arguments: argparse.Namespace) -> dict[str, Any]:
    import numpy as np
    import torch
    from transformers import AutoTokenizer

    from astuner.contract.schema import Request, Sample, Sampling
    from astuner_local.compiled.kernels import load_kernels
    from astuner_local.engine.batch import BatchEngine
    from astuner_local.forward.choose import make_forward
    from astuner_local.trainer.model_io import load_model
    from astuner_local.trainer.options import TrainerOptions
    from astuner_local.trainer.rows import TrainRow
    from astuner_local.trainer.trainer import Trainer

    torch.set_num_threads(arguments.threads)
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    dtype = "bfloat16" if arguments.side == "bfloat16" else "float32"
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = load_model(arguments.model, dtype, lora_rank=RANK if arguments.side == "lora" else 0)
    diverges = arguments.side != "without-kl"
    options = TrainerOptions(lr=LR, dtype=dtype, use_kl_loss=diverges, kl_loss_coef=BETA if diverges else 0.0)

    def make_row(prompt: Any, answer: Any, logprobs: Any, advantage: float, group: int, repeat: int) -> TrainRow:
        mask = np.arange(len(prompt) + len(answer)) >= len(prompt)
        sample = Sample(
            episode_id=f"{group}.{repeat}",
            task_id=str(group),
            repeat=repeat,
            agent="agent",
            ids=np.array([*prompt, *answer], np.int32),
            mask=mask,
            logprobs=np.array([*([0.0] * len(prompt)), *logprobs], np.float32),
            calls=(0,),
        )
        return TrainRow(sample=sample, advantage=advantage, group=str(group))

    if arguments.first:
        return compare_with_trl(model, options, arguments.first, make_row)
    trainer = Trainer(model, options)
    kernels = load_kernels(getattr(torch, dtype), "cpu")
    engine = BatchEngine(
        make_forward(model, trainable=False, dtype=getattr(torch, dtype), kernels=kernels),
        max_model_len=256,
        max_num_seqs=arguments.prompts * SAMPLES,
        kernels=kernels,
    )
    prompts = read_prompts(arguments.task)
    seconds, rollout, tokens = [], [], []
    for step in range(1, arguments.steps + 1):
        begun = time.process_time()
        if step > 1:
            engine.refresh()
        chosen = prompts[(step - 1) * arguments.prompts : step * arguments.prompts]
        ids = [list(tokenizer.apply_chat_template(each, add_generation_prompt=True)["input_ids"]) for each in chosen]
        runs = []
        for number in range(len(ids) * SAMPLES):
            group, seed = number // SAMPLES, step * 1000 + number
            sampling = Sampling(max_tokens=NEW_TOKENS, stop_token_ids=(tokenizer.eos_token_id,), seed=seed)
            name = f"{step}.{number}"
            runs.append(engine.submit(Request(id=name, session=name, prompt_ids=ids[group], sampling=sampling)))
        while engine.busy:
            engine.step()
        played = time.process_time()
        texts = tokenizer.batch_decode([run.ids for run in runs], skip_special_tokens=True)
        rewards = np.array(list(map(reward, texts))).reshape(-1, SAMPLES)
        advantages = (rewards - rewards.mean(1, keepdims=True)) / (rewards.std(1, ddof=1, keepdims=True) + 1e-4)
        rows = [
            make_row(ids[n // SAMPLES], run.ids, run.logprobs, float(advantages.flat[n]), n // SAMPLES, n % SAMPLES)
            for n, run in enumerate(runs)
        ]
        found = trainer.update(rows, step)
        seconds.append(time.process_time() - begun)
        rollout.append(played - begun)
        tokens.append(sum(len(run.ids) for run in runs))
    return {"seconds": seconds, "rollout": rollout, "tokens": tokens, "computed": found["tokens/computed"]}


def compare_with_trl(model: Any, options: Any, path: str, make_row: Any) -> dict[str, float]:
    """Return how far our loss and gradient on TRL's rows are from its own: absolute, and relative to the largest entry."""
    import torch

    from astuner_local.forward.choose import make_forward
    from astuner_local.trainer.pass_size import PassLimit
    from astuner_local.trainer.step import accumulate, prepare

    inputs, loss, gradient = torch.load(path, mmap=True)
    rows = []
    for number in range(len(inputs["prompt_ids"])):
        prompt = inputs["prompt_ids"][number][inputs["prompt_mask"][number].bool()].tolist()
        answer = inputs["completion_ids"][number][inputs["completion_mask"][number].bool()].tolist()
        advantage = float(inputs["advantages"][number])
        rows.append(make_row(prompt, answer, [0.0] * len(answer), advantage, *divmod(number, SAMPLES)))
    shares = [1 / sum(row.sample.trained for row in rows)] * len(rows)
    limit = PassLimit(tokens=8192, mask_entries=1 << 14)
    forward = make_forward(model, trainable=True)
    batches = prepare(rows, shares, limit=limit, share_prefixes=True, device=torch.device("cpu"))
    # TRL's reference is the model itself in its first step: the divergence is 0, and so is its gradient.
    found = sum(accumulate(forward, batch, options)["loss/policy"] for batch in batches)
    largest = max(float(each.abs().max()) for each in gradient.values())
    worst = max(float((p.grad - gradient[name]).abs().max()) for name, p in model.named_parameters())
    return {"loss": abs(found - loss), "gradient": worst / largest}


def read_peak() -> float:
    """Return the process's largest resident set, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def play(side: str, arguments: argparse.Namespace, first: str = "") -> dict[str, Any]:
    """Run one side in a process of its own; with `first`, to compare the two by that file."""
    given = [f"--{name}={getattr(arguments, name)}" for name in ("task", "prompts", "threads", "model")]
    steps = f"--steps={1 if first else arguments.steps}"
    command = [sys.executable, __file__, side, "--side", side, "--first", first, steps, *given]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def print_table(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    report: dict[str, Any] = {}
    print(f"{'':12}{'step':>8}{'rollout':>9}{'tokens':>8}{'peak GB':>9}{'time':>7}{'memory':>8}")
    for side, rounds in found.items():
        step, rollout = ([value for each in rounds for value in each[name][1:]] for name in ("seconds", "rollout"))
        row = {
            "cpu_s": statistics.median(step),
            "rollout_s": statistics.median(rollout) if rollout else None,
            "tokens": statistics.mean(value for each in rounds for value in each["tokens"][1:]),
            "peak_gb": max(each["peak_gb"] for each in rounds),
            "computed": rounds[0].get("computed"),
        }
        report[side] = row
        first = next(iter(report.values()))
        ratios = f"{first['cpu_s'] / row['cpu_s']:7.2f}{row['peak_gb'] / first['peak_gb']:8.2f}"
        shown = "" if row["rollout_s"] is None else f"{row['rollout_s']:.2f}"
        print(f"{side:12}{row['cpu_s']:8.2f}{shown:>9}{row['tokens']:8.0f}{row['peak_gb']:9.2f}{ratios}")
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sides", nargs="+", choices=SIDES, help="the first is what the others are compared with")
    parser.add_argument("--task", choices=("one_word", "shop"), default="one_word", help="the tutorial whose prompts are taken")
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3, help="of each process")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--model", default=str(CACHED))
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--first", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        found = run_trl(arguments) if arguments.side == "trl" else run_ours(arguments)
        print(json.dumps({**found, "peak_gb": read_peak()}))
        return
    if "trl" in arguments.sides:
        with tempfile.TemporaryDirectory() as directory:
            first = str(Path(directory, "first.pt"))
            play("trl", arguments, first)
            apart = play("full", arguments, first)
        print(f"same rows: loss differs by {apart['loss']:.1e}, gradient by {apart['gradient']:.1e} relative", flush=True)
        if apart["loss"] > 1e-5 or apart["gradient"] > 1e-4:
            raise SystemExit("TRL and ours do not compute the same")
    rounds: dict[str, list[dict[str, Any]]] = {side: [] for side in arguments.sides}
    for _ in range(arguments.rounds):
        for side in arguments.sides:
            rounds[side].append(play(side, arguments))
            print(side, rounds[side][-1], file=sys.stderr, flush=True)
    print(json.dumps(print_table(rounds)))


if __name__ == "__main__":
    main()
