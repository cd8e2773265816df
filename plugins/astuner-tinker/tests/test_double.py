"""The double does what its behaviour says, and its gradient is that of `astuner-local`'s trainer.

What it hides of a real service: the network, the SDK's retries and its pauses on 402, queues, prices, heartbeats and sessions
that end, and concurrency, as one request is served after the other. It cuts calls into chunks only where the behaviour asks for
it, by rows and never by bytes. A base model is a local folder, whose head is never trained, and text in `stop` is refused.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinker
import torch
from peft import PeftModel
from tinker.types import AdamParams, Datum, ModelInput, SamplingParams
from tinker_double import Behaviour, SamplingClientDouble, ServiceDouble, TrainingClientDouble
from torch.optim.optimizer import register_optimizer_step_pre_hook
from transformers import AutoModelForCausalLM

from astuner.contract.schema import Sample
from astuner.runs.training import compute_token_shares
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer

PROMPT = [72, 101, 108, 108, 111]
ANSWER = [11, 12, 13, 14, 15, 16, 17, 18]
ADAM = AdamParams(learning_rate=1e-2, beta1=0.9, beta2=0.999, eps=1e-8)
LINEAR = AdamParams(learning_rate=1.0, beta1=0.0, beta2=0.0, eps=1e6)
"""With such an eps a step is the gradient, divided by it; the first one moves B, which was 0."""

Make = Callable[..., TrainingClientDouble]


@pytest.fixture
def make(tiny_model: Path, tmp_path: Path) -> Make:
    """Makes a training client of a new service with some behaviour."""
    made = 0

    def create(behaviour: Behaviour | None = None, **options: Any) -> TrainingClientDouble:
        nonlocal made
        made += 1
        service = ServiceDouble(tmp_path / f"service-{made}", behaviour)
        return service.create_lora_training_client(str(tiny_model), **{"rank": 4, "seed": 1, **options})

    return create


def build(ids: Iterable[Any], targets: Iterable[Any], **inputs: Any) -> Datum:
    """Return a datum of arrays, as the SDK takes them and its types do not say."""
    arrays: dict[str, Any] = {name: np.array(values, np.float32) for name, values in inputs.items()}
    arrays["target_tokens"] = np.array(list(targets), np.int64)
    return Datum(model_input=ModelInput.from_ints([int(each) for each in ids]), loss_fn_inputs=arrays)


def datum(answer: Sequence[int] = ANSWER, **inputs: float | Sequence[float]) -> Datum:
    """Return a prompt with an answer, each input given for the answer's tokens and 0 at the prompt's."""
    ids, prompt = [*PROMPT, *answer], [0.0] * (len(PROMPT) - 1)
    values = {name: [given] * len(answer) if isinstance(given, int | float) else list(given) for name, given in inputs.items()}
    return build(ids[:-1], ids[1:], **{name: [*prompt, *each] for name, each in values.items()})


def policy(answer: Sequence[int] = ANSWER, advantages: float | Sequence[float] = 1.0, **inputs: float | Sequence[float]) -> Datum:
    return datum(answer, advantages=advantages, **{"logprobs": -5.0, **inputs})


def read_weights(client: TrainingClientDouble) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in client.model.parameters.values()])


def read_gradient(client: TrainingClientDouble) -> torch.Tensor:
    return torch.cat([parameter.grad.flatten() for parameter in client.model.parameters.values() if parameter.grad is not None])


def measure(make: Make, behaviour: Behaviour, *calls: Sequence[Datum], loss: str = "cross_entropy", **adam: Any) -> torch.Tensor:
    """Return what the gradient of some calls before one optimizer step is."""
    client = make(behaviour)
    before = read_weights(client)
    for call in calls:
        client.forward_backward(call, loss).result()
    client.optim_step(LINEAR.model_copy(update=adam)).result()
    return (before - read_weights(client)) * LINEAR.eps


def trained(client: TrainingClientDouble, steps: int = 2) -> TrainingClientDouble:
    for _ in range(steps):
        client.forward_backward([policy()], "importance_sampling")
        client.optim_step(ADAM).result()
    return client


def read_logprobs(client: TrainingClientDouble, answer: Sequence[int] = ANSWER) -> list[float]:
    output = client.forward([datum(answer)], "cross_entropy").result().loss_fn_outputs[0]
    return [float(each) for each in output["logprobs"].data[len(PROMPT) - 1 :]]


def sample(client: SamplingClientDouble, samples: int = 1, **settings: Any) -> Sequence[Any]:
    params = SamplingParams(**{"max_tokens": 8, "seed": 7, "temperature": 0.99999, **settings})
    return client.sample(ModelInput.from_ints(PROMPT), samples, params).result().sequences


def sampler(client: TrainingClientDouble) -> SamplingClientDouble:
    return client.save_weights_and_get_sampling_client()


ONE, OTHER = datum(weights=1.0), datum([21, 22], weights=1.0)


def test_sum_adds_all(make: Make) -> None:
    one, other, both, apart, twice = (
        measure(make, Behaviour(), *calls) for calls in ([[ONE]], [[OTHER]], [[ONE, OTHER]], [[ONE], [OTHER]], [[ONE, ONE]])
    )
    for found, expected in ((both, one + other), (apart, one + other), (twice, 2 * one)):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    assert one.norm() > 1


@pytest.mark.parametrize(
    ("behaviour", "together", "apart"),
    [
        (Behaviour(within="tokens"), (1 / 10, 1 / 10), (1 / 8, 1 / 2)),
        (Behaviour(within="tokens", across="averages"), (1 / 10, 1 / 10), (1 / 10, 1 / 10)),
        (Behaviour(within="tokens", rows_per_chunk=1), (1 / 8, 1 / 2), (1 / 8, 1 / 2)),
        (Behaviour(within="rows"), (1 / 16, 1 / 4), (1 / 8, 1 / 2)),
        (Behaviour(within="rows", across="averages"), (1 / 16, 1 / 4), (1 / 16, 1 / 4)),
    ],
    ids=["tokens", "tokens-averages", "tokens-chunks", "rows", "rows-averages"],
)
def test_a_mean_is_over(make: Make, behaviour: Behaviour, together: tuple[float, float], apart: tuple[float, float]) -> None:
    one, other = measure(make, Behaviour(), [ONE]), measure(make, Behaviour(), [OTHER])
    for calls, factors in (([[ONE, OTHER]], together), ([[ONE], [OTHER]], apart)):
        expected = factors[0] * one + factors[1] * other
        torch.testing.assert_close(measure(make, behaviour, *calls), expected, rtol=1e-3, atol=1e-3)


def test_an_average_of_sums_is_refused() -> None:
    with pytest.raises(ValueError, match="within must be 'tokens' or 'rows'"):
        Behaviour(across="averages")


def test_without_weights_the_prompt_counts(make: Make) -> None:
    behaviour, tokens = Behaviour(within="tokens"), len(PROMPT) + len(ANSWER) - 1
    whole = measure(make, behaviour, [policy()], loss="importance_sampling")
    weighted = measure(make, behaviour, [policy(weights=1.0)], loss="importance_sampling")
    torch.testing.assert_close(whole * tokens / len(ANSWER), weighted, rtol=1e-3, atol=1e-3)


def test_weights_are_refused_for_the_policy_only(make: Make) -> None:
    client = make(Behaviour(weights="refused"))
    client.forward_backward([datum(weights=1.0)], "cross_entropy").result()
    with pytest.raises(tinker.BadRequestError, match=r"unknown \['weights'\]"):
        client.forward_backward([policy(weights=1.0)], "ppo").result()


@pytest.mark.parametrize(("loss", "config"), [("dro", None), ("importance_sampling", {"clip_low_threshold": 0.8})])
def test_what_is_not_supported_is_refused(make: Make, loss: str, config: Any) -> None:
    with pytest.raises(tinker.BadRequestError, match="is not supported"):
        make().forward_backward([policy()], loss, config).result()


def test_call_without_rows_is_refused(make: Make) -> None:
    with pytest.raises(ValueError, match="No data provided"):
        make().forward_backward([], "ppo")


def test_unequal_lengths_are_refused(make: Make) -> None:
    with pytest.raises(tinker.BadRequestError, match=r"not of length 5 \['target_tokens'\]"):
        make().forward([build(PROMPT, [1, 2])], "cross_entropy").result()


@pytest.mark.parametrize(
    ("loss", "advantage", "ratio", "factor"),
    [
        ("importance_sampling", 1.0, 3.0, 3.0),
        ("ppo", 1.0, 1.1, 1.1),
        ("ppo", 1.0, 1.3, 0.0),
        ("ppo", 1.0, 0.5, 0.5),
        ("ppo", -1.0, 0.5, 0.0),
        ("ppo", -1.0, 3.0, -3.0),
        ("cispo", 1.0, 3.0, 1.25),
        ("cispo", -1.0, 0.5, -0.9),
    ],
)
def test_gradient_of_a_loss_is_that_of_the_likelihood_times(
    make: Make, loss: str, advantage: float, ratio: float, factor: float
) -> None:
    client = make()
    old = np.array(read_logprobs(client)) - np.log(ratio)
    likelihood = measure(make, Behaviour(), [ONE])
    before = read_weights(client)
    clip = None if loss == "importance_sampling" else {"clip_low_threshold": 0.9, "clip_high_threshold": 1.25}
    client.forward_backward([policy(advantages=advantage, logprobs=old.tolist())], loss, clip).result()
    client.optim_step(LINEAR).result()
    torch.testing.assert_close((before - read_weights(client)) * LINEAR.eps, factor * likelihood, rtol=2e-3, atol=2e-3)


def test_metrics_are_those_of_the_server(make: Make) -> None:
    client = make()
    assert client.forward_backward([policy(logprobs=read_logprobs(client))], "ppo").result().metrics == pytest.approx(
        {"loss:sum": -8.0}
    )
    assert client.optim_step(ADAM).result().metrics is None
    skyrl = make(Behaviour.skyrl())
    assert skyrl.forward_backward([ONE], "cross_entropy").result().metrics == {}
    norm = measure(make, Behaviour(within="rows"), [ONE]).norm().item()
    assert skyrl.optim_step(ADAM).result().metrics == pytest.approx({"skyrl.ai/grad_norm": norm}, rel=1e-3)


@pytest.mark.parametrize(("honours", "norm"), [(True, 0.5), (False, None)])
def test_gradient_is_clipped(make: Make, honours: bool, norm: float | None) -> None:
    found = measure(make, Behaviour(honours_grad_clip=honours), [ONE], grad_clip_norm=0.5).norm().item()
    whole = measure(make, Behaviour(), [ONE]).norm().item()
    assert found == pytest.approx(norm or whole, rel=1e-2)


def test_learning_rate_of_0_moves_the_moments_or_is_refused(make: Make) -> None:
    client, other = make(), make()
    before = read_weights(client)
    client.forward_backward([ONE], "cross_entropy")
    client.optim_step(ADAM.model_copy(update={"learning_rate": 0.0})).result()
    assert torch.equal(before, read_weights(client))
    assert not torch.equal(read_weights(trained(client)), read_weights(trained(other)))
    with pytest.raises(tinker.UnprocessableEntityError):
        make(Behaviour(accepts_zero_lr=False)).optim_step(ADAM.model_copy(update={"learning_rate": 0.0})).result()


def test_optimizer_is_that_of_torch_under_changing_settings(make: Make) -> None:
    client, draw = make(), torch.Generator().manual_seed(0)
    parameters = list(client.model.parameters.values())
    copies = [torch.nn.Parameter(parameter.detach().clone()) for parameter in parameters]
    expected = torch.optim.AdamW(copies)
    for step in range(4):
        settings = AdamParams(learning_rate=1e-2 / (step + 1), beta1=0.9 - 0.1 * step, beta2=0.99, eps=1e-6, weight_decay=0.1)
        for parameter, copy in zip(parameters, copies, strict=True):
            copy.grad = torch.randn(copy.shape, generator=draw)
            parameter.grad = copy.grad.clone()
        expected.param_groups[0].update(
            lr=settings.learning_rate, betas=(settings.beta1, settings.beta2), eps=settings.eps, weight_decay=0.1
        )
        expected.step()
        client.optim_step(settings).result()
    for parameter, copy in zip(parameters, copies, strict=True):
        torch.testing.assert_close(parameter.detach(), copy.detach(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("loss", ["importance_sampling", "ppo", "cispo"])
@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean"])
def test_gradient_is_that_of_the_local_trainer(make: Make, loss: str, aggregation: Any) -> None:
    """And one step of AdamW leaves the same weights. B is not 0 here, so that A has a gradient too."""
    started = trained(make())
    client = started.service.create_training_client_from_state(started.save_state("started").result().path)
    twin = TwinModel(client)
    trainer = Trainer(twin.model, TrainerOptions(lr=1e-4, grad_clip=None, loss_agg_mode=aggregation))
    rows, before = make_rows(client), read_weights(client)
    shares = compute_token_shares(rows, aggregation, 1)
    client.forward_backward([to_datum(row, share) for row, share in zip(rows, shares, strict=True)], loss).result()
    gradient = read_gradient(client)
    with twin.capture() as expected:
        trainer.update(rows, 1)
    assert (gradient - expected[0]).abs().max() < 1e-5 * expected[0].abs().max()
    client.optim_step(AdamParams(learning_rate=1e-4, beta1=0.9, beta2=0.999, eps=1e-8)).result()
    torch.testing.assert_close(read_weights(client), read_weights(twin.client), rtol=0, atol=1e-6)
    assert (read_weights(client) - before).abs().max() > 9e-5


class TwinModel:
    """Another model with the adapters of a client."""

    def __init__(self, client: TrainingClientDouble) -> None:
        self.client = client.service.create_lora_training_client(client.base_model, rank=4, seed=9)
        self.client.model.load(client.model.parameters)
        self.model = self.client.model.peft_model

    @contextmanager
    def capture(self) -> Iterator[list[torch.Tensor]]:
        """Collect the gradient of each optimizer step."""
        found: list[torch.Tensor] = []

        def add(*_: Any) -> None:
            found.append(read_gradient(self.client))

        hook = register_optimizer_step_pre_hook(add)
        try:
            yield found
        finally:
            hook.remove()


def make_rows(client: TrainingClientDouble) -> list[TrainRow]:
    """Return two groups of three answers, some with a gap of untrained tokens, with the log-probabilities of the client."""
    draw = np.random.default_rng(0)
    rows = []
    for number in range(6):
        prompt = [*PROMPT, number // 3]
        ids = np.array([*prompt, *draw.integers(0, 200, 4 + 2 * number)], np.int32)
        mask = np.arange(len(ids)) >= len(prompt)
        mask[len(prompt) + 1 : len(prompt) + 1 + number % 2] = False
        found = client.forward([build(ids[:-1], ids[1:])], "cross_entropy").result().loss_fn_outputs[0]["logprobs"].data
        logprobs = np.where(mask, [0.0, *found], 0.0).astype(np.float32)
        sample = Sample(
            episode_id=f"e{number}",
            task_id=f"g{number // 3}",
            repeat=number % 3,
            agent="agent",
            ids=ids,
            mask=mask,
            logprobs=logprobs,
            calls=(0,),
        )
        rows.append(TrainRow(sample=sample, advantage=float(draw.normal()), group=sample.task_id))
    return rows


def to_datum(row: TrainRow, share: float) -> Datum:
    sample = row.sample
    advantages = np.zeros(len(sample.ids), np.float32)
    advantages[sample.mask] = row.spread() * share
    return build(sample.ids[:-1], sample.ids[1:], logprobs=sample.logprobs[1:], advantages=advantages[1:])


def test_adapters_start_at_the_base_and_come_from_the_seed(make: Make, tiny_model: Path) -> None:
    one, same, other = make(seed=1), make(seed=1), make(seed=2)
    assert torch.equal(read_weights(one), read_weights(same))
    assert not torch.equal(read_weights(one), read_weights(other))
    base = one.service.create_sampling_client(base_model=str(tiny_model))
    found = base.compute_logprobs(ModelInput.from_ints([*PROMPT, *ANSWER])).result()
    assert found[0] is None
    assert found[len(PROMPT) :] == pytest.approx(read_logprobs(other), abs=1e-5)


def test_flags_choose_the_layers(make: Make) -> None:
    assert all(".self_attn." in name for name in make(train_mlp=False).model.parameters)
    assert all(".mlp." in name for name in make(train_attn=False).model.parameters)
    with pytest.raises(tinker.BadRequestError, match="nothing to train"):
        make(train_mlp=False, train_attn=False)


def test_model_that_is_not_served_is_refused(make: Make, tmp_path: Path) -> None:
    with pytest.raises(tinker.BadRequestError, match="is not served"):
        ServiceDouble(tmp_path / "server").create_lora_training_client(str(tmp_path / "nothing"))


def test_training_raises_the_likelihood(make: Make) -> None:
    client = make()
    before = sum(read_logprobs(client))
    assert sum(read_logprobs(trained(client, 5))) > before + 1


def test_seed_repeats_bit_by_bit_and_siblings_differ(make: Make) -> None:
    client = sampler(make())
    first = [(each.tokens, each.logprobs) for each in sample(client, 3)]
    sample(client, seed=1)
    assert [(each.tokens, each.logprobs) for each in sample(client, 3)] == first
    assert [(each.tokens, each.logprobs) for each in sample(client)] == first[:1]
    assert len({tuple(tokens) for tokens, _ in first}) == 3


def test_samples_follow_the_distribution(make: Make) -> None:
    client = make()
    logits = client.model.merge()(torch.tensor([PROMPT])).logits[0, -1].detach()
    first = torch.tensor([each.tokens[0] for each in sample(sampler(client), 400, max_tokens=1, temperature=0.5)])
    expected = (logits / 0.5).softmax(-1)
    best = int(expected.argmax())
    assert (first == best).float().mean().item() == pytest.approx(expected[best].item(), abs=0.08)
    assert {each.tokens[0] for each in sample(sampler(client), 20, max_tokens=1, top_k=2)} == set(logits.topk(2).indices.tolist())
    assert {each.tokens[0] for each in sample(sampler(client), 20, max_tokens=1, top_p=1e-6)} == {best}


@pytest.mark.parametrize("settings", [{"temperature": 0.5}, {"top_k": 5}, {"top_p": 0.5}])
def test_logprobs_are_of_temperature_1_or_of_what_was_sampled(make: Make, settings: dict[str, Any]) -> None:
    own, sampled = make(), make(Behaviour(logprobs="sampled"))
    answer = sample(sampler(own), **settings)[0]
    assert answer.logprobs == pytest.approx(read_logprobs(own, answer.tokens), abs=1e-5)
    other = sample(sampler(sampled), **settings)[0]
    assert other.tokens == answer.tokens
    assert max(np.abs(np.array(other.logprobs) - answer.logprobs)) > 0.1


def test_one_sample_at_temperature_1_is_greedy(make: Make) -> None:
    client = sampler(make(Behaviour(greedy_at_one=True, logprobs="sampled")))
    greedy = sample(client, temperature=0.0)[0]
    found = [sample(client, temperature=1.0, seed=seed)[0] for seed in range(3)]
    assert [each.tokens for each in found] == [greedy.tokens] * 3
    assert found[0].logprobs == greedy.logprobs
    assert greedy.logprobs[0] < -0.1
    assert len({tuple(each.tokens) for each in sample(client, 3, temperature=1.0)}) == 3
    honest = sampler(make())
    assert len({tuple(sample(honest, temperature=1.0, seed=seed)[0].tokens) for seed in range(3)}) == 3


def test_stop_ids_end_an_answer_or_are_ignored(make: Make) -> None:
    client, deaf = sampler(make()), sampler(make(Behaviour(ignores_stop_ids=True)))
    whole = sample(client)[0]
    stop = whole.tokens[3]
    cut = sample(client, stop=[stop])[0]
    assert (whole.stop_reason, cut.stop_reason) == ("length", "stop")
    assert cut.tokens == whole.tokens[: whole.tokens.index(stop) + 1]
    assert sample(deaf, stop=[stop])[0].tokens == whole.tokens


def test_text_in_stop_is_refused(make: Make) -> None:
    with pytest.raises(tinker.BadRequestError, match="stops at ids only"):
        sample(sampler(make()), stop=["x"])


def ends_at_eos(client: TrainingClientDouble, **settings: Any) -> bool:
    """Answer whether a model that was taught to say EOS stops there."""
    eos = client.get_tokenizer().eos_token_id
    for _ in range(20):
        client.forward_backward([datum([eos] * 4, weights=1.0)], "cross_entropy")
        client.optim_step(AdamParams(learning_rate=3e-2)).result()
    answer = sample(sampler(client), temperature=0.0, **settings)[0]
    assert answer.tokens[0] == eos
    return len(answer.tokens) == 1 and answer.stop_reason == "stop"


def test_answer_ends_at_eos(make: Make) -> None:
    assert ends_at_eos(make())
    assert not ends_at_eos(make(), stop=[])
    assert not ends_at_eos(make(Behaviour(stops_at_eos=False)))
    assert ends_at_eos(make(Behaviour(ignores_stop_ids=True)), stop=[1])


def test_answer_longer_than_the_context_is_refused(make: Make) -> None:
    with pytest.raises(tinker.BadRequestError, match="room is for 507"):
        sample(sampler(make()), max_tokens=508)


@pytest.mark.parametrize("live", [True, False])
def test_snapshots_are_frozen_or_live(make: Make, live: bool) -> None:
    client = make(Behaviour(live_snapshots=live))
    snapshot = sampler(client)
    before = sample(snapshot)[0]
    trained(client, 3)
    after = sample(snapshot)[0]
    assert (after.logprobs == before.logprobs) is not live
    newest = sample(sampler(client))[0].logprobs
    assert newest != before.logprobs
    assert (after.logprobs == newest) is live


def test_prompt_is_scored_with_a_leading_none_or_without(make: Make) -> None:
    ids = ModelInput.from_ints([*PROMPT, *ANSWER])
    client, skyrl = make(), make(Behaviour(leading_none=False))
    found, short = (sampler(each).compute_logprobs(ids).result() for each in (client, skyrl))
    assert found == [None, *short]
    answer = sampler(client).sample(ids, 1, SamplingParams(max_tokens=1), include_prompt_logprobs=True).result()
    assert answer.prompt_logprobs == found


def test_base_model_that_cannot_be_sampled_from(tmp_path: Path, tiny_model: Path) -> None:
    with pytest.raises(tinker.APIResponseValidationError):
        ServiceDouble(tmp_path, Behaviour(samples_base=False)).create_sampling_client(base_model=str(tiny_model))


def test_capabilities_name_the_models_or_do_not(tmp_path: Path, tiny_model: Path) -> None:
    def ask(behaviour: Behaviour) -> list[tuple[Any, Any]]:
        found = ServiceDouble(tmp_path, behaviour, base_models=[str(tiny_model)]).get_server_capabilities().supported_models
        return [(model.model_name, model.max_context_length) for model in found]

    assert ask(Behaviour()) == [(str(tiny_model), 512)]
    assert ask(Behaviour(names_models=False)) == [(None, None)]


@pytest.mark.parametrize("exact", [True, False])
def test_resumed_run_is_exact_or_nearly_so(make: Make, exact: bool) -> None:
    client = trained(make(Behaviour(exact_resume=exact)))
    path = client.save_state("state").result().path
    assert path == f"tinker://{client.model_id}/weights/state"
    service = ServiceDouble(client.service.store.root, client.service.behaviour)
    resumed = service.create_training_client_from_state_with_optimizer(path)
    weights_only = service.create_training_client_from_state(path)
    assert len({client.model_id, resumed.model_id, weights_only.model_id}) == 3
    assert read_logprobs(resumed) == read_logprobs(weights_only) == read_logprobs(client)
    expected, found, other = (read_weights(trained(each)) for each in (client, resumed, weights_only))
    assert torch.equal(found, expected) is exact
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-3)
    assert (other - expected).abs().max() > 2e-3


def test_state_is_loaded_in_place_or_refused(make: Make) -> None:
    for behaviour in (Behaviour(), Behaviour.skyrl()):
        client = trained(make(behaviour))
        path = client.save_state("state").result().path
        before = read_weights(client)
        trained(client)
        if behaviour.loads_in_place:
            client.load_state_with_optimizer(path).result()
            assert torch.equal(read_weights(client), before)
        else:
            with pytest.raises(tinker.BadRequestError):
                client.load_state(path).result()


def test_name_that_exists_is_a_conflict_or_written_over(make: Make) -> None:
    client = make()
    first = client.save_state("a").result().path
    client.save_weights_for_sampler("a").result()
    for save in (client.save_state, client.save_weights_for_sampler):
        with pytest.raises(tinker.ConflictError, match="already exists"):
            save("a").result()
    assert trained(client).save_state("a", overwrite=True).result().path == first
    assert read_logprobs(client.service.create_training_client_from_state(first)) == read_logprobs(client)
    careless = make(Behaviour(overwrites=True))
    assert careless.save_state("a").result().path == careless.save_state("a").result().path


def test_several_adapters_leave_each_other_alone(make: Make) -> None:
    client = make()
    before = read_logprobs(client)
    trained(client.service.create_lora_training_client(client.base_model, rank=4, seed=2))
    assert read_logprobs(client) == before


def test_saved_weights_can_be_sampled_from_and_deleted(make: Make) -> None:
    client = trained(make())
    service = client.service
    paths = [client.save_weights_for_sampler("s").result().path, client.save_state("s").result().path]
    expected = sample(sampler(client))[0].tokens
    for path in paths:
        assert sample(service.create_sampling_client(model_path=path))[0].tokens == expected
        service.create_rest_client().delete_checkpoint_from_tinker_path(path).result()
        with pytest.raises(tinker.NotFoundError):
            service.create_sampling_client(model_path=path)


def test_archive_has_an_adapter_that_names_no_modules(make: Make, tmp_path: Path, tiny_model: Path) -> None:
    client = trained(make())
    path = client.save_weights_for_sampler("s").result().path
    url = client.service.create_rest_client().get_checkpoint_archive_url_from_tinker_path(path).result().url
    with urllib.request.urlopen(url) as answer, tarfile.open(fileobj=io.BytesIO(answer.read())) as archive:
        archive.extractall(tmp_path / "adapter", filter="data")
    file = tmp_path / "adapter" / "adapter_config.json"
    config = json.loads(file.read_text())
    assert config["target_modules"] is None
    file.write_text(json.dumps({**config, "target_modules": "all-linear"}))
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny_model), str(tmp_path / "adapter")).eval()
    ids = torch.tensor([[*PROMPT, *ANSWER]])
    found = model(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[len(PROMPT) - 1 :, 0]
    assert found.tolist() == pytest.approx(read_logprobs(client), abs=1e-5)


def test_server_without_downloads(make: Make) -> None:
    client = make(Behaviour(downloads=False))
    path = client.save_state("s").result().path
    with pytest.raises(tinker.NotFoundError):
        client.service.create_rest_client().get_checkpoint_archive_url_from_tinker_path(path).result()


async def _ask(client: TrainingClientDouble) -> tuple[Any, Any, Any]:
    passed, stepped = client.forward_backward([ONE], "cross_entropy"), client.optim_step(ADAM)
    params = SamplingParams(max_tokens=4, seed=7, temperature=0.5)
    return await passed, await stepped, await sampler(client).sample_async(ModelInput.from_ints(PROMPT), 1, params)


@pytest.mark.asyncio
async def test_answers_can_be_awaited(make: Make) -> None:
    client, other = make(), make()
    passed, _, sampled = await _ask(client)
    assert len(passed.loss_fn_outputs[0]["logprobs"].data) == len(PROMPT) + len(ANSWER) - 1
    other.forward_backward([ONE], "cross_entropy").result()
    other.optim_step(ADAM).result()
    assert sampled.sequences[0].tokens == sample(sampler(other), max_tokens=4, temperature=0.5)[0].tokens


def test_what_is_paid_is_on_disk(make: Make) -> None:
    client = make()
    drawn = sum(len(each.tokens) for each in sample(sampler(client), 2))
    client.forward([ONE, OTHER], "cross_entropy").result()
    client.forward_backward([OTHER], "cross_entropy").result()
    sampler(client).compute_logprobs(ModelInput.from_ints(PROMPT)).result()
    service = ServiceDouble(client.service.store.root)
    assert service.counts == {
        "sample_requests": 1, "forward_requests": 1, "forward_backward_requests": 1, "compute_logprobs_requests": 1,
        "prompt_tokens": 10, "sampled_tokens": drawn + 1, "forward_tokens": 12 + 6, "trained_tokens": 6,
    }  # fmt: skip
    assert service.store.requests()[0] == {
        "kind": "sample", "seed": 7, "samples": 2, "prompt_tokens": 5, "sampled_tokens": drawn,
    }  # fmt: skip


ANOTHER = """
import sys
from pathlib import Path
from tinker.types import ModelInput, SamplingParams
from tinker_double import ServiceDouble

client = ServiceDouble(Path(sys.argv[1])).create_training_client_from_state_with_optimizer(sys.argv[2])
params = SamplingParams(max_tokens=8, seed=7, temperature=0.99999)
answer = client.save_weights_and_get_sampling_client().sample(ModelInput.from_ints([72, 101, 108, 108, 111]), 1, params).result()
print(client.model_id, *answer.sequences[0].tokens)
"""


def test_another_process_goes_on(make: Make) -> None:
    client = trained(make())
    path, root = client.save_state("s").result().path, client.service.store.root
    command = [sys.executable, "-c", ANOTHER, str(root), path]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["model-2", *map(str, sample(sampler(client))[0].tokens)]
    assert client.service.counts["sample_requests"] == 2


def test_presets_are_those_of_the_servers() -> None:
    hatchery, skyrl = Behaviour.hatchery(), Behaviour.skyrl()
    assert (hatchery.within, hatchery.across, hatchery.logprobs, hatchery.greedy_at_one) == ("tokens", "adds", "sampled", True)
    assert (skyrl.within, skyrl.across, skyrl.logprobs, skyrl.stops_at_eos) == ("rows", "averages", "temperature_1", False)
