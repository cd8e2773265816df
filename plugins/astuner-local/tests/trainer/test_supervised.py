"""The warm start: its gradient, its order, and the model that it writes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from astuner.contract.protocols import Fit, TinyModelJob, WarmStartJob, WarmStartResult
from astuner.contract.schema import Sample
from astuner.settings.config.rollout import Rollout
from astuner_local.alignment import ALIGNMENT
from astuner_local.tiny.task_model import make_tiny_model
from astuner_local.tiny.task_tokenizer import make_tiny_tokenizer
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.supervised import make_options, warm_start
from astuner_local.trainer.trainer import Trainer

TEXTS = ["red green blue", "the sky is blue", "the grass is green"]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("start")
    job = TinyModelJob(out=directory, texts=TEXTS, context=128, seed=3)
    make_tiny_tokenizer(job)
    make_tiny_model(job)
    return directory


def make_sample(start: Path, prompt: str, answer: str, name: str = "d") -> Sample:
    tokenizer = AutoTokenizer.from_pretrained(start)
    before, after = tokenizer.encode(prompt), tokenizer.encode(answer)
    mask = np.array([False] * len(before) + [True] * len(after))
    ids = np.array([*before, *after], np.int32)
    logprobs = np.zeros(len(ids), np.float32)
    return Sample(episode_id=name, task_id=name, repeat=0, agent="agent", ids=ids, mask=mask, logprobs=logprobs, calls=(0,))


@pytest.fixture
def train(start: Path, tmp_path: Path) -> Callable[..., tuple[WarmStartResult, Path, list[str]]]:
    def run(out: str = "out", *, rollout: Rollout | None = None, **changes: Any) -> tuple[WarmStartResult, Path, list[str]]:
        rows = [make_sample(start, "the sky is", " blue", "a"), make_sample(start, "the grass is", " green", "b")]
        directory = tmp_path / out
        directory.mkdir()
        known: dict[str, Any] = {
            "model": start,
            "train": rows,
            "held_out": [],
            "epochs": 20,
            "batch_size": 1,
            "lr": 4e-3,
            "seed": 0,
        }
        job = WarmStartJob(**{**known, "out": directory, **changes})
        config = SimpleNamespace(model=SimpleNamespace(rendering={}), rollout=rollout or Rollout())
        info: Any = SimpleNamespace(native=ALIGNMENT.defaults(), config=config)
        lines: list[str] = []
        return warm_start(info, job, lines.append), directory, lines

    return run


def test_an_update_has_the_gradient_of_the_cross_entropy_of_the_trained_tokens(start: Path) -> None:
    rows = [make_sample(start, "the sky is", " blue", "a"), make_sample(start, "red", " green blue", "b")]
    job = WarmStartJob(model=start, out=start, train=rows, held_out=(), epochs=1, batch_size=2, lr=0.0, seed=0)
    model = AutoModelForCausalLM.from_pretrained(start)
    exact = copy.deepcopy(model).double()
    losses = []
    for row in rows:
        ids = torch.from_numpy(row.ids.astype(np.int64))
        logp = exact(input_ids=ids[None]).logits[0].log_softmax(-1)
        losses += [-logp[at - 1, ids[at]] for at in np.flatnonzero(row.mask)]
    torch.stack(losses).mean().backward()

    native = {**ALIGNMENT.defaults()["trainer"], "grad_clip": 0.0}
    trainer = Trainer(model, make_options(native, job, total_steps=1, dtype="float32"))
    trained = [TrainRow(sample=row, advantage=1.0, group=row.task_id) for row in rows]
    found: dict[str, torch.Tensor] = {}
    trainer._apply = lambda lr: found.update({n: p.grad.clone() for n, p in trainer.parameters.items()}) or 0.0  # type: ignore[method-assign,func-returns-value,union-attr]
    trainer.update(trained, 1)
    for name, parameter in exact.named_parameters():
        torch.testing.assert_close(found[name].double(), parameter.grad, rtol=1e-4, atol=1e-6)


def test_the_fit_is_that_of_transformers_own_forward(start: Path) -> None:
    row = make_sample(start, "the sky is", " blue green")
    model = AutoModelForCausalLM.from_pretrained(start)
    ids = torch.from_numpy(row.ids.astype(np.int64))
    with torch.no_grad():
        logp = model(input_ids=ids[None]).logits[0].log_softmax(-1)
    places = np.flatnonzero(row.mask)
    expected = -float(np.mean([float(logp[at - 1, ids[at]]) for at in places]))
    job = WarmStartJob(model=start, out=start, train=[row], held_out=(), epochs=1, batch_size=1, lr=0.0, seed=0)
    fit = Trainer(model, make_options(ALIGNMENT.defaults()["trainer"], job, total_steps=1, dtype="float32")).measure_fit([row])
    assert fit.loss == pytest.approx(expected, rel=1e-5)
    assert fit.tokens == len(places)
    assert fit.accuracy == pytest.approx(np.mean([int(logp[at - 1].argmax()) == int(ids[at]) for at in places]))
    wrong = [(0, int(at), int(logp[at - 1].argmax())) for at in places if int(logp[at - 1].argmax()) != int(ids[at])]
    assert [(miss.sample, miss.place, miss.chosen) for miss in fit.misses] == wrong
    assert wrong


def test_the_demonstrations_are_learnt_and_the_model_loads_in_transformers(train: Any) -> None:
    result, out, _ = train()
    assert result.steps == 40
    assert result.before["trained"].accuracy < 1
    assert result.after["trained"] == Fit(loss=pytest.approx(0, abs=0.1), accuracy=1.0, tokens=result.before["trained"].tokens)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    ids = tokenizer("the grass is", return_tensors="pt")["input_ids"]
    new = model.generate(ids, max_new_tokens=1, do_sample=False)[0, ids.shape[1] :]
    assert " green".startswith(tokenizer.decode(new))


def test_the_same_job_gives_the_same_weights_and_another_seed_others(train: Any) -> None:
    weights = []
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        _, out, _ = train(name, seed=seed, epochs=3)
        weights.append((out / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


def test_a_run_on_the_cpu_warms_up_there_next_to_a_gpu(train: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    result, _, _ = train(rollout=Rollout(sections={"local": {"device": "cpu"}}), epochs=1)
    assert result.steps == 2


def test_held_out_rows_are_measured_and_not_trained(train: Any, start: Path) -> None:
    held = make_sample(start, "red green", " red red red")
    result, _, lines = train(held_out=[held])
    assert result.before.keys() == result.after.keys() == {"trained", "held out"}
    assert result.after["held out"].loss > 1
    assert lines[0].startswith("before: trained loss ")
    assert "held out loss" in lines[0]
    assert lines[-1].startswith("epoch 20 of 20: trained loss ")
    assert len(lines) == 11


def test_the_same_seed_makes_the_same_tiny_model(start: Path, tmp_path: Path) -> None:
    job = TinyModelJob(out=tmp_path, texts=TEXTS, context=128, seed=3)
    make_tiny_tokenizer(job)
    make_tiny_model(job)
    assert (tmp_path / "model.safetensors").read_bytes() == (start / "model.safetensors").read_bytes()
    assert AutoModelForCausalLM.from_pretrained(tmp_path).config.max_position_embeddings == 128
