from __future__ import annotations

import numpy as np
import pytest

from astuner.contract.schema import Request, Sampling
from astuner.runs.training import Correction
from astuner_local.engine.batch import BatchEngine
from astuner_local.forward.choose import make_forward
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.trainer import Trainer


def _sampled(engine, prompts, make_row, **sampling):
    runs = []
    for group, prompt in enumerate(prompts):
        for repeat in range(4):
            name = f"{group}.{repeat}"
            settings = Sampling(max_tokens=12, seed=7 * group + repeat, **sampling)
            runs.append((group, prompt, engine.submit(Request(id=name, session=name, prompt_ids=prompt, sampling=settings))))
    while engine.busy:
        engine.step()
    return [
        make_row(
            [*prompt, *run.ids],
            trained=range(len(prompt), len(prompt) + len(run.ids)),
            group=str(group),
            episode=run.request.id,
            logprobs=run.logprobs,
        )
        for group, prompt, run in runs
    ]


@pytest.mark.parametrize(
    "sampling",
    [{}, {"temperature": 0.7}, {"top_k": 5}, {"top_p": 0.8}, {"temperature": 1.3, "top_k": 20, "top_p": 0.9}],
    ids=str,
)
def test_trainer_and_engine_mean_the_same_distribution(sampling, make_model, make_row):
    model = make_model()
    engine = BatchEngine(make_forward(model, trainable=False), max_model_len=64)
    rows = _sampled(engine, [[5, 6, 7, 8], [9, 10, 11, 12, 13]], make_row, **sampling)
    metrics = Trainer(model, TrainerOptions(**sampling)).update(rows, 1)
    assert metrics["mismatch/abs_max"] < 1e-5


def test_a_trainer_that_leaves_the_truncation_out_does_not_agree(make_model, make_row):
    """Without this the agreement above would hold for options that have no effect."""
    model = make_model()
    engine = BatchEngine(make_forward(model, trainable=False), max_model_len=64)
    rows = _sampled(engine, [[5, 6, 7, 8]], make_row, top_p=0.5)
    assert Trainer(model, TrainerOptions()).update(rows, 1)["mismatch/abs_max"] > 0.1


def test_an_answer_of_two_weights_is_trained_with_the_log_probabilities_of_each(make_model, make_row):
    """Weights that change during an answer: a token is corrected by how likely those made it that sampled it."""
    before, after, prompt, bound = make_model(seed=0), make_model(seed=1), [5, 6, 7, 8], 1.5
    engine = BatchEngine(make_forward(before, trainable=False), max_model_len=64)
    request = Request(id="a", session="a", prompt_ids=prompt, sampling=Sampling(max_tokens=20, seed=3))
    run = engine.submit(request)
    while len(run.ids) < 8:
        engine.step()
    engine.refresh(make_forward(after, trainable=False))
    while engine.busy:
        engine.step()
    row = make_row([*prompt, *run.ids], trained=range(4, 24), logprobs=run.logprobs)
    old, new = (Trainer(model, TrainerOptions()).score([row.sample], Sampling())[0] for model in (before, after))
    recorded = np.array(run.logprobs)
    assert recorded == pytest.approx(np.concatenate([old[:8], new[8:]]), abs=1e-5)
    assert np.abs(old - new).min() > 1e-3

    trainer = Trainer(after, TrainerOptions(correction=Correction(rollout_is_threshold=bound)))
    metrics = trainer.update([row], 1, record=True)
    weights = np.exp(new - recorded)
    # What the weights of now have sampled counts 1.
    assert weights[8:] == pytest.approx(np.ones(12), abs=1e-4)
    assert metrics["mismatch/ratio_mean"] == pytest.approx(weights.mean(), rel=1e-4)
    assert metrics["mismatch/abs_max"] == pytest.approx(np.abs(old - new)[:8].max(), rel=1e-4)
    assert metrics["correction/weight_mean"] == pytest.approx(weights.clip(max=bound).mean(), rel=1e-4)
    assert metrics["correction/bounded_mean"] == (weights > bound).mean() > 0
