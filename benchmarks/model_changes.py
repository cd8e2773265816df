"""What else a run has changed in a model: `model_changes.py BEFORE AFTER EVAL` prints JSON.

Perplexity on prose and on questions of arithmetic, greedy answers to prompts that have nothing to do with the task, and whether
transformers, which loads AFTER, gives the answers that the greedy validation in EVAL has recorded.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from astuner import Run
from astuner.contract.token_streams import stream_ids

PROSE = """\
Bread is older than writing. Long before there were ovens, people roasted grain, ground it between two stones, mixed the
flour with water and baked flat cakes on hot rocks. Somebody let the dough stand for too long, and found that it rose:
yeast from the air had begun to live on it. In the towns of the Middle Ages bakers had to obey strict rules about the
weight and the price of a loaf, and in some places a dishonest baker was dipped into the river in a basket. Today most
bread is made by machines within a few hours, but many people have gone back to dough that takes two days, because it
tastes better and keeps for longer."""
ARITHMETIC = """\
A farmer has twelve hens. Each of them lays five eggs a week, and he sells a dozen eggs for three dollars. How much does
he earn in four weeks? A train leaves at a quarter past eight and needs two hours and fifty minutes. When does it
arrive? Anna reads twenty pages in the morning and half as many in the evening. How many days does she need for a book
of three hundred pages?"""
PROMPTS = (
    "What is the capital of Italy?",
    "What is 3 + 4?",
    "Name three vegetables.",
    "Write one sentence about the moon.",
    "Who painted the Mona Lisa?",
    "Is ice colder than water?",
    "Translate into French: good morning.",
    "What do bees make?",
)
ANSWER_TOKENS = 24
EPISODES = 10
"""Of the validation, whose answers are made again."""


def load(path: str) -> tuple[Any, Any]:
    """Return model and tokenizer, as anybody loads them."""
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval(), AutoTokenizer.from_pretrained(path)


@torch.no_grad()
def measure_perplexity(model: Any, tokenizer: Any, text: str) -> float:
    """Return the perplexity of a text without anything before it."""
    ids = tokenizer(" ".join(text.split()), return_tensors="pt", add_special_tokens=False).input_ids
    return round(math.exp(float(model(ids, labels=ids).loss)), 3)


@torch.no_grad()
def generate(model: Any, ids: list[int], tokens: int) -> list[int]:
    """Return the likeliest tokens after `ids`."""
    given = torch.tensor([ids])
    made = model.generate(input_ids=given, attention_mask=torch.ones_like(given), max_new_tokens=tokens, do_sample=False)
    return [int(one) for one in made[0, len(ids) :]]


def answer(model: Any, tokenizer: Any, prompt: str) -> str:
    """Return the answer to one message."""
    message = [{"role": "user", "content": prompt}]
    ids = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_dict=True)["input_ids"]
    return tokenizer.decode(generate(model, ids, ANSWER_TOKENS), skip_special_tokens=True)


def compare_answers(model: Any, directory: Path) -> tuple[int, int]:
    """Return how many calls of the first episodes transformers answers with the same tokens, and how many there are.

    A stop text may cut the recorded tokens short of what the model would go on to write.
    """
    equal = count = 0
    for episode, _ in zip(Run(directory).episodes(split="validation"), range(EPISODES), strict=False):
        for number, call in enumerate(episode.calls):
            whole, recorded = stream_ids(episode.calls, number).tolist(), list(call.output_ids)
            equal += generate(model, whole[: len(whole) - len(recorded)], len(recorded)) == recorded
            count += 1
    return equal, count


def main(before: str, after: str, directory: str) -> None:
    """Print what changed."""
    first, tuned = load(before), load(after)
    texts = {"prose": PROSE, "arithmetic": ARITHMETIC}
    answers = [[answer(*pair, prompt) for pair in (first, tuned)] for prompt in PROMPTS]
    equal, calls = compare_answers(tuned[0], Path(directory))
    report = {
        "perplexity": {name: [measure_perplexity(*pair, text) for pair in (first, tuned)] for name, text in texts.items()},
        "answers": [[prompt, *both] for prompt, both in zip(PROMPTS, answers, strict=True)],
        "reloaded_equal": equal,
        "reloaded_calls": calls,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
