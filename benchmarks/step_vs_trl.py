"""One training step of astuner-local against one of TRL's GRPOTrainer: CPU seconds, same weights, same prompts, interleaved.

A step is what a user waits for: 8 prompts x 8 samples of at most 24 tokens, rewards, advantages, one update. After every step of
TRL ours is made on the prompts that it drew, with weights and random numbers of its own. TRL's clock runs from beginning to
end of its step, without its data loader and logging. The reward has no ties, so that no group is without signal and nothing is
skipped. Before any figure is printed, loss and gradient of both are compared on the rows of TRL's first step.

    python benchmarks/step_vs_trl.py --params tiny --steps 30      # 0.22 M parameters, warm-started on the task
    python benchmarks/step_vs_trl.py --params 10m --steps 6        # 10.8 M parameters, random weights

Needs `pip install trl==1.16.0` next to astuner-local.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", TOKENIZERS_PARALLELISM="false")

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from astuner.contract.schema import Request, Sample, Sampling
from astuner_local.engine.batch import BatchEngine
from astuner_local.forward.choose import make_forward
from astuner_local.tiny.tokenizer import train_tokenizer
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.pass_size import PassLimit
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.step import accumulate, prepare
from astuner_local.trainer.trainer import Trainer

PROMPTS, SAMPLES, NEW_TOKENS, LR = 8, 8, 24, 5e-4
SIZES = {
    "tiny": {"hidden_size": 96, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4},
    "10m": {"hidden_size": 384, "intermediate_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 8},
}
NAMES, ITEMS = ("Tom", "Ana", "Sam", "Mia", "Leo", "Eva"), ("apples", "books", "coins", "pens", "eggs", "cards")


def question(draw: random.Random) -> tuple[str, str]:
    """Return a prompt and its answer, as a chat template writes them."""
    name, item, a, b = draw.choice(NAMES), draw.choice(ITEMS), draw.randint(1, 9), draw.randint(1, 9)
    text = draw.choice(
        [
            f"{name} has {a} {item} and buys {b} more. How many {item} does {name} have?",
            f"{name} found {a} {item} and then {b} {item}. How many {item} in total?",
            f"There are {a} {item} in one box and {b} in another. How many {item} are there?",
        ]
    )
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n", f"The answer is \\boxed{{{a + b}}}<|im_end|>"


def reward(completion: str, answer: str) -> float:
    """Return 1 for the right answer, and next to nothing at random, which breaks ties without teaching anything."""
    return float(answer.removesuffix("<|im_end|>") in completion) + 1e-6 * random.random()


def make_model(size: str, tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Return the model that both begin with."""
    torch.manual_seed(0)
    shape = SIZES[size]
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        num_key_value_heads=shape["num_attention_heads"],
        max_position_embeddings=256,
        tie_word_embeddings=True,
        initializer_range=0.08 if size == "tiny" else 0.02,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=None,  # transformers would give the pad id's embedding no gradient where a random model samples it
        attn_implementation="sdpa",
        **shape,
    )
    return Qwen2ForCausalLM(config).float()


def warm_start(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, steps: int) -> None:
    """Teach the form of the answer: rows of demonstrations with an advantage of 1 are supervised training."""
    draw = random.Random(1)
    trainer = Trainer(model, TrainerOptions(lr=4e-3, lr_warmup_steps=20, lr_scheduler_type="linear", total_steps=steps))
    for step in range(1, steps + 1):
        demonstrations = [question(draw) for _ in range(32)]
        rows = []
        for number, (prompt, answer) in enumerate(demonstrations):
            begin, end = tokenizer.encode(prompt), tokenizer.encode(answer)
            rows.append(row(begin, end, [0.0] * len(end), advantage=1.0, group=str(number), repeat=0))
        trainer.update(rows, step)


def row(
    prompt: Sequence[int], answer: Sequence[int], logprobs: Sequence[float], *, advantage: float, group: str, repeat: int
) -> TrainRow:
    """Return a row of one prompt and one answer."""
    sample = Sample(
        episode_id=f"{group}.{repeat}",
        task_id=group,
        repeat=repeat,
        agent="agent",
        ids=np.array([*prompt, *answer], np.int32),
        mask=np.arange(len(prompt) + len(answer)) >= len(prompt),
        logprobs=np.array([0.0] * len(prompt) + list(logprobs), np.float32),
        calls=(0,),
    )
    return TrainRow(sample=sample, advantage=advantage, group=group)


class OurTrainer:
    """Our side of the comparison."""

    def __init__(
        self, model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, answers: dict[str, str], *, share_prefixes: bool = True
    ) -> None:
        self.tokenizer = tokenizer
        self.answers = answers
        self.share_prefixes = share_prefixes
        self.trainer = Trainer(model, TrainerOptions(lr=LR, share_prefixes=share_prefixes))
        self.engine = BatchEngine(make_forward(model, trainable=False), max_model_len=128, max_num_seqs=PROMPTS * SAMPLES)
        self.seconds: list[tuple[float, float]] = []
        """(rollout, rest) of each step."""
        self.tokens: list[int] = []
        """Sampled in each step."""
        self.metrics: dict[str, float] = {}

    def step(self, prompts: Sequence[str]) -> None:
        """Make one step on 8 prompts."""
        begin = time.process_time()
        number = len(self.seconds) + 1
        self.engine.refresh()
        ids = self.tokenizer(list(prompts))["input_ids"]
        runs = [
            self.engine.submit(
                Request(
                    id=f"{group}.{repeat}",
                    session=f"{group}.{repeat}",
                    prompt_ids=ids[group],
                    sampling=Sampling(
                        max_tokens=NEW_TOKENS,
                        stop_token_ids=(self.tokenizer.eos_token_id,),
                        seed=(number * PROMPTS + group) * SAMPLES + repeat,
                    ),
                )
            )
            for group in range(PROMPTS)
            for repeat in range(SAMPLES)
        ]
        while self.engine.busy:
            self.engine.step()
        rolled_out = time.process_time()
        texts = self.tokenizer.batch_decode([run.ids for run in runs], skip_special_tokens=True)
        rewards = np.array([reward(text, self.answers[prompts[i // SAMPLES]]) for i, text in enumerate(texts)]).reshape(
            PROMPTS, SAMPLES
        )
        advantages = (rewards - rewards.mean(1, keepdims=True)) / (rewards.std(1, ddof=1, keepdims=True) + 1e-4)
        rows = [
            row(
                ids[i // SAMPLES],
                run.ids,
                run.logprobs,
                advantage=float(advantages.flat[i]),
                group=str(i // SAMPLES),
                repeat=i % SAMPLES,
            )
            for i, run in enumerate(runs)
        ]
        self.metrics = self.trainer.update(rows, number)
        self.seconds.append((rolled_out - begin, time.process_time() - rolled_out))
        self.tokens.append(sum(len(run.ids) for run in runs))


class TrlTrainer(TrainerCallback):
    """TRL's clock, and the place where ours steps in between."""

    def __init__(self, ours: Sequence[OurTrainer]) -> None:
        self.ours = ours
        self.seconds: list[float] = []
        self.tokens: list[int] = []
        self.prompts: list[str] = []
        self.begun = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Start the clock."""
        self.begun = time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Stop it, and make our steps on the same prompts."""
        self.seconds.append(time.process_time() - self.begun)
        for each in self.ours:
            each.step(self.prompts[::SAMPLES])


def train_trl(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, answers: dict[str, str], clock: TrlTrainer, steps: int
) -> tuple[dict[str, Any], float, dict[str, Tensor]]:
    """Run TRL; return the inputs, the loss and the gradient of its first step."""

    def score(
        prompts: Sequence[str], completions: Sequence[str], completion_ids: Sequence[Sequence[int]], **_: Any
    ) -> list[float]:
        clock.prompts = list(prompts)
        clock.tokens.append(sum(map(len, completion_ids)))
        return [reward(text, answers[prompt]) for prompt, text in zip(prompts, completions, strict=True)]

    with tempfile.TemporaryDirectory() as directory:
        settings = GRPOConfig(
            output_dir=directory,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            per_device_train_batch_size=PROMPTS * SAMPLES,
            num_generations=SAMPLES,
            max_completion_length=NEW_TOKENS,
            max_steps=steps,
            learning_rate=LR,
            lr_scheduler_type="constant",
            weight_decay=0.0,
            beta=0.0,
            logging_steps=10**6,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=score,
            args=settings,
            train_dataset=Dataset.from_dict({"prompt": list(answers)}),
            callbacks=[clock],
        )
        first: list[Any] = []
        usual = trainer._compute_loss

        def watched(module: Any, inputs: dict[str, Any]) -> Tensor:
            loss: Tensor = usual(module, inputs)
            if not first:
                parameters = dict(model.named_parameters())
                found = torch.autograd.grad(loss, list(parameters.values()), retain_graph=True)
                first.extend([inputs, loss.item(), dict(zip(parameters, found, strict=True))])
            return loss

        trainer._compute_loss = watched
        trainer.train()
    return first[0], first[1], first[2]


def disagreement(
    model: Qwen2ForCausalLM, inputs: dict[str, Any], loss: float, gradient: dict[str, Tensor]
) -> tuple[float, float]:
    """Return how far our loss and gradient on TRL's rows are from its own: (absolute, relative to the largest entry)."""
    rows = []
    for i in range(len(inputs["prompt_ids"])):
        prompt = inputs["prompt_ids"][i][inputs["prompt_mask"][i].bool()].tolist()
        answer = inputs["completion_ids"][i][inputs["completion_mask"][i].bool()].tolist()
        group, repeat = divmod(i, SAMPLES)
        rows.append(
            row(prompt, answer, [0.0] * len(answer), advantage=float(inputs["advantages"][i]), group=str(group), repeat=repeat)
        )
    shares = [1 / sum(each.sample.trained for each in rows)] * len(rows)
    options = TrainerOptions()
    forward = make_forward(model, trainable=True)
    limit = PassLimit(tokens=8192, mask_entries=1 << 14)
    batches = prepare(rows, shares, limit=limit, share_prefixes=True, device=torch.device("cpu"))
    found = sum(accumulate(forward, batch, options)["loss/policy"] for batch in batches)
    scale = max(float(g.abs().max()) for g in gradient.values())
    worst = max(float((p.grad - gradient[name]).abs().max()) for name, p in model.named_parameters() if p.grad is not None)
    return abs(found - loss), worst / scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", choices=sorted(SIZES), default="tiny")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--warm-start", type=int, help="steps of supervised training first (default: 150 for tiny, 0 for 10m)")
    parser.add_argument("--unshared", action="store_true", help="also time ours without shared prefixes in the update")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    draw = random.Random(0)
    tokenizer = train_tokenizer([part for _ in range(2000) for part in question(draw)])
    tokenizer.padding_side = "left"
    answers = dict(question(draw) for _ in range(400))
    model = make_model(arguments.params, tokenizer)
    steps = arguments.warm_start
    if steps is None:
        steps = 150 if arguments.params == "tiny" else 0
    if steps:
        warm_start(model, tokenizer, steps)

    beginning = copy.deepcopy(model)
    ours = [OurTrainer(copy.deepcopy(model), tokenizer, answers)]
    if arguments.unshared:
        ours.append(OurTrainer(copy.deepcopy(model), tokenizer, answers, share_prefixes=False))
    clock = TrlTrainer(ours)
    of_loss, of_gradient = disagreement(beginning, *train_trl(model, tokenizer, answers, clock, arguments.steps))
    if max(of_loss, of_gradient) > 1e-5:
        raise SystemExit(
            f"the two do not compute the same: loss differs by {of_loss:.1e}, gradient by {of_gradient:.1e} relative"
        )

    theirs = statistics.median(clock.seconds[1:])
    report: dict[str, Any] = {
        "params": sum(p.numel() for p in model.parameters()),
        "steps": arguments.steps,
        "threads": arguments.threads,
        "loss_difference": of_loss,
        "gradient_difference": of_gradient,
        "trl": {"cpu_s": theirs, "tokens": statistics.median(clock.tokens[1:])},
    }
    print(
        f"{report['params']:,} parameters, float32, {arguments.threads} thread(s), medians of steps 2 to {arguments.steps}, CPU s"
    )
    print(f"same rows: loss differs by {of_loss:.1e}, gradient by {of_gradient:.1e} relative")
    print(f"{'':24}{'step':>8}{'rollout':>9}{'update':>8}{'tokens':>8}{'ratio':>7}")
    print(f"{'TRL':24}{theirs:8.4f}{'':17}{report['trl']['tokens']:8.0f}{1:7.2f}")
    for each in ours:
        name = "astuner" if each.share_prefixes else "astuner, unshared"
        step, rollout, update = (
            statistics.median(values) for values in zip(*((a + b, a, b) for a, b in each.seconds[1:]), strict=True)
        )
        tokens = statistics.median(each.tokens[1:])
        report[name] = {"cpu_s": step, "rollout_s": rollout, "update_s": update, "tokens": tokens, "ratio": theirs / step}
        report[name]["last_step"] = each.metrics
        print(f"{name:24}{step:8.4f}{rollout:9.4f}{update:8.4f}{tokens:8.0f}{theirs / step:7.2f}")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
