"""A run of a given size for the viewer: texts, tokens and verdicts as a training process stores them.

At full size it has 10,000 episodes of 15,600 tokens, and one of 100,000. A few dozen are made, and stored again and again
under other ids. Needs `tokenizers`; the tokenizer is trained on the spot.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, frozen

from astuner.contract.schema import Call, Episode, Sample, Task, Verdict, WeightSpan, WorkflowOutput
from astuner.episodes.builtin.loggers.jsonl_logger import JsonlLogger
from astuner.runs.store.codec import dump_verdict, encode_episode, encode_record
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.store_lines import seal
from astuner.shared.private_files import open_private

SIBLINGS = 8
LONG_TASK = "long"
LONG_EPISODE = f"train/1/{LONG_TASK}/0"
"""The id of the episode with many tokens."""
TEMPLATES = 32


@frozen(kw_only=True)
class Size:
    """How much is stored."""

    episodes: int
    tokens_each: int
    """Of an episode, about; half of them are sampled."""
    long_tokens: int
    groups: int = 25
    """In a step."""


FULL = Size(episodes=10_000, tokens_each=15_600, long_tokens=100_000)
SMALL = Size(episodes=200, tokens_each=3_100, long_tokens=20_000, groups=5)


def write_store(path: Path, *, small: bool = False, size: Size | None = None, texts: Sequence[str] = ()) -> None:
    """Make a run in a directory that does not exist; `texts` are replies that some episodes begin with."""
    size = size or (SMALL if small else FULL)
    directory = _begin_run(path)
    metrics = JsonlLogger(directory.metrics)
    templates = [_converse(number, turns=6, tokens=size.tokens_each, texts=texts) for number in range(TEMPLATES)]
    directory.episodes.mkdir(mode=0o700)
    random = np.random.default_rng(1)
    with open_private(directory.episodes / "train.jsonl", "wb") as file:
        long = _place(_converse(TEMPLATES + 1, turns=40, tokens=size.long_tokens, texts=()), 1, LONG_TASK, 0)
        file.write(seal(encode_episode(long)))
        file.write(_encode_verdicts(1, LONG_TASK, [long.id], np.ones(1)))
        for group in range(max(1, size.episodes // SIBLINGS)):
            step = group // size.groups + 1
            _write_group(file, step, f"task-{group % 400:04d}", templates, random)
            if (group + 1) % size.groups == 0:
                metrics.log(step, _make_metrics(step, size))
    metrics.close()
    directory.write_state(status="finished", step=size.episodes // SIBLINGS // size.groups)
    directory.close()


def append_step(path: Path, *, siblings: int = SIBLINGS) -> int:
    """Store one more step of one group, as a running process does; return its number."""
    directory = RunDirectory(path)
    rows = directory.metrics.read_text(encoding="utf-8").splitlines()
    step = json.loads(rows[-1])["step"] + 1 if rows else 1
    templates = [_converse(number, turns=6, tokens=600, texts=()) for number in range(siblings)]
    with open_private(directory.episodes / "train.jsonl", "ab") as file:
        _write_group(file, step, f"late-{step:04d}", templates, np.random.default_rng(step))
    metrics = JsonlLogger(directory.metrics)
    metrics.log(step, _make_metrics(step, SMALL))
    metrics.close()
    return step


def _begin_run(path: Path) -> RunDirectory:
    directory = RunDirectory(path)
    directory.open()
    versions = {"astuner-core": "0.2.0", "python": "3.11.7"}
    directory.write_run(
        {"project_name": "large", "experiment_name": path.name, "backbone": "local", "seed": 0, "versions": versions}
    )
    resolved = "astuner:\n  experiment_name: large\n  backbone: local\n"
    directory.write_config(given=resolved, resolved=resolved, native={})
    directory.write_state(status="running", step=0)
    checkpoint = directory.checkpoint(1)
    checkpoint.mkdir(parents=True, mode=0o700)
    _train_tokenizer().save(str(checkpoint / "tokenizer.json"))
    return directory


def _write_group(file: Any, step: int, task: str, templates: Sequence[Episode], random: np.random.Generator) -> None:
    rewards = (random.random(SIBLINGS) < 0.5).astype(float)
    ids = [f"train/{step}/{task}/{repeat}" for repeat in range(SIBLINGS)]
    for repeat in range(SIBLINGS):
        template = templates[int(random.integers(len(templates)))]
        file.write(seal(encode_episode(_place(template, step, task, repeat))))
    file.write(_encode_verdicts(step, task, ids, rewards))


def _encode_verdicts(step: int, task: str, ids: Sequence[str], rewards: np.ndarray) -> bytes:
    verdicts = {
        identity: dump_verdict(
            Verdict(
                reward=float(reward),
                is_success=bool(reward),
                components={"format": 1.0, "answer": float(reward)},
                rationale="The answer is right." if reward else "The answer is wrong.",
            )
        )
        for identity, reward in zip(ids, rewards, strict=True)
    }
    record = {"kind": "verdicts", "step": step, "group": f"train/{step}/{task}", "verdicts": verdicts}
    return seal(encode_record(record))


def _place(episode: Episode, step: int, task: str, repeat: int) -> Episode:
    """Return an episode under another id."""
    identity = f"train/{step}/{task}/{repeat}"
    samples = tuple(evolve(one, episode_id=identity, task_id=task, repeat=repeat) for one in episode.samples)
    return evolve(episode, id=identity, task=evolve(episode.task, task_id=task), step=step, repeat=repeat, samples=samples)


def _converse(seed: int, *, turns: int, tokens: int, texts: Sequence[str]) -> Episode:
    random = np.random.default_rng(seed)
    each = tokens // turns // 2
    calls: list[Call] = []
    stream: list[int] = []
    mask: list[bool] = []
    query = _write_text(random, 12)
    for turn in range(turns):
        question = query if turn == 0 else _write_text(random, each)
        answer = (texts[seed % len(texts)] + " " if texts and turn == 0 else "") + _write_text(random, each)
        messages = ({"role": "system", "content": "Answer with care."},) if turn == 0 else ()
        messages += ({"role": "user" if turn == 0 else "tool", "content": question},)
        fed, sampled = _encode_ids(f"<|user|>{question}<|assistant|>"), _encode_ids(f"{answer}<|end|>")
        calls.append(
            Call(
                index=turn,
                agent="agent",
                target_tag="agent",
                parent=turn - 1 if turn else None,
                kept=len(stream),
                prompt_ids=fed,
                output_ids=sampled,
                logprobs=-random.gamma(0.4, 0.8, len(sampled)).astype(np.float32),
                finish_reason="stop",
                weights=(WeightSpan(start=0, version=0),),
                messages=messages,
                reply={"role": "assistant", "content": answer},
                latency_s=0.5,
            )
        )
        stream += [*fed.tolist(), *sampled.tolist()]
        mask += [False] * len(fed) + [True] * len(sampled)
    trained = np.array(mask)
    logprobs = np.zeros(len(stream), np.float32)
    logprobs[trained] = np.concatenate([call.logprobs for call in calls])
    sample = Sample(
        episode_id="",
        task_id="",
        repeat=0,
        agent="agent",
        ids=np.array(stream, np.int32),
        mask=trained,
        logprobs=logprobs,
        calls=tuple(range(turns)),
    )
    return Episode(
        id="",
        task=Task(query, metadata={"answer": "42"}),
        step=0,
        repeat=0,
        output=WorkflowOutput(metadata={"final_answer": "42"}),
        calls=tuple(calls),
        samples=(sample,),
        duration_s=float(random.gamma(4.0)),
    )


def _write_text(random: np.random.Generator, words: int) -> str:
    known = _list_words()
    return " ".join(known[place] for place in random.integers(0, len(known), max(1, words)))


@cache
def _list_words() -> Sequence[str]:
    random = np.random.default_rng(0)
    letters = list("abcdefghijklmnopqrstuvwxyz")
    return ["".join(random.choice(letters, int(random.integers(3, 9)))) for _ in range(3000)] + ["naïve", "雪", "größer", "🙂"]


@cache
def _train_tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|user|>", "<|assistant|>", "<|end|>"]
    trainer = trainers.BpeTrainer(vocab_size=8000, initial_alphabet=alphabet, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([" " + word for word in _list_words()] * 2, trainer)
    return tokenizer


def _encode_ids(text: str) -> np.ndarray:
    return np.array(_train_tokenizer().encode(text, add_special_tokens=False).ids, np.int32)


def _make_metrics(step: int, size: Size) -> dict[str, float]:
    mean = 0.5 + 0.3 * np.sin(step / 9)
    return {
        "reward/mean": float(mean),
        "success/rate": float(mean),
        "kl/mean": 0.001 * step,
        "entropy/mean": 1.0 / (1 + step / 20),
        "tokens/generated": float(size.groups * SIBLINGS * size.tokens_each // 2),
        "time/step_s": 12.0,
    }
