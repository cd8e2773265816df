"""What the training loop trains: the adapters of a run on a server, one model or several."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast
from zlib import crc32

import numpy as np
import torch
from attrs import asdict, evolve
from numpy.typing import NDArray

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import Control, Estimator, EstimatorTraits, RunInfo, read_traits
from astuner.contract.schema import Sample, Sampling
from astuner.episodes.judging.advantages import WeightedSample
from astuner.runs.store.directory import RunDirectory
from astuner.runs.training import Correction, LossOptions, divergence
from astuner.runs.training.learner import LearnerTraits
from astuner.runs.training.token_values import TokenValues, join_passes
from astuner_tinker.adapter import AdapterTrainer
from astuner_tinker.checkpoints import STATE, find_base, forget_states, load_state, read_state, save_state
from astuner_tinker.engine import Served, TinkerEngine
from astuner_tinker.options import ALPHA, Options, read_options
from astuner_tinker.probe import ServerFacts, find_facts, sample_once
from astuner_tinker.service import Service, connect
from astuner_tinker.spending import Ledger, find_prices

if TYPE_CHECKING:
    from astuner.episodes.rollout.recipe import Recipe


class TinkerLearner:
    """One model with adapters for each target; without `model.adapters` for all, under the empty tag."""

    traits: ClassVar[LearnerTraits] = LearnerTraits(
        serves_weights=True,
        brings_engine=True,
        adjusts_sampling=True,
        compares_with_reference=True,
        records_tokens=True,
        weighs_streams=True,
        scores_with_models=True,
    )

    def __init__(self, run: RunInfo, service: Service, facts: ServerFacts, ledger: Ledger, estimator: Estimator) -> None:
        """Train nothing yet: `open_learner` adds the trainers."""
        self.run, self.service, self.facts, self.ledger, self.estimator = run, service, facts, ledger, estimator
        self.trainers: dict[str, AdapterTrainer] = {}
        self._order: dict[str, list[int]] = {}

    @property
    def step(self) -> int:
        """The last trained step."""
        return next(iter(self.trainers.values())).step

    @cached_property
    def base(self) -> Any:
        """What the run begins with: adapters that are never trained change nothing, on every server alike."""
        return open_start(self.run, self.service, seed=0)

    def own_engine(self) -> TinkerEngine:
        """Make the engine, with the weights of now."""
        return TinkerEngine(self.weights(), self.service, self.facts, self.ledger, self.run.config.rollout.max_model_len)

    def sampling(self, configured: Sampling) -> Sampling:
        """Return the distribution that the server trains."""
        return evolve(configured, temperature=1.0, top_p=1.0, top_k=-1)

    def weights(self) -> Served:
        """Return a sampling client for each target, and for all others one of the base."""
        served = {tag: (self._sample_from(one.client), one.step) for tag, one in self.trainers.items()}
        if "" not in served:
            served[""] = self._base_sampler, 0
        return served

    @cached_property
    def _base_sampler(self) -> Any:
        return self._sample_from(self.base)

    @cached_property
    def _tokenizer(self) -> Any:
        from astuner.model.rendering import load_renderer

        config = self.run.config.model
        return load_renderer(config.path, **config.rendering).tokenizer

    def _sample_from(self, client: Any) -> Any:
        """Return a sampling client that has sampled: on SkyRL the first sample loads its weights over those in training."""
        sampler = self.service.ask(client.save_weights_and_get_sampling_client, "the weights to sample from")
        sample_once(self.service, sampler)
        return sampler

    def score_reference(self, samples: Sequence[Sample]) -> list[NDArray[np.float32]]:
        """Return, per sample, the log-probability of each of its trained tokens under the base."""
        return next(iter(self.trainers.values())).score(samples, self.base)

    def reference_kl(self, samples: Sequence[Sample]) -> list[NDArray[np.float64]]:
        """Return, per sample, the divergence from the base at each of its trained tokens."""
        kind = self.run.config.trainer_common.algorithm.kl_penalty
        found: dict[int, NDArray[np.float64]] = {}
        for tag, places in self._find_places(samples).items():
            own = [samples[number] for number in places]
            pairs = zip(self.trainers[tag].score(own), self.score_reference(own), strict=True) if own else ()
            values = [divergence(torch.from_numpy(now), torch.from_numpy(base), kind).double().numpy() for now, base in pairs]
            found.update(zip(places, values, strict=True))
        return [found[number] for number in range(len(samples))]

    def score_with(self, model: str, samples: Sequence[Sample], sampling: Sampling) -> list[NDArray[np.float64]]:
        """Return, per sample, the base's log-probability of each of its trained tokens."""
        return [values.astype(np.float64) for values in self.score_reference(samples)]

    def update(self, rows: Sequence[WeightedSample], step: int) -> dict[str, float]:
        """Train each target's adapters on its own rows; with several, each one's metrics are below `adapter/TAG/`."""
        record = self.run.config.trainer_common.token_record.enable
        self._order = self._find_places([row.sample for row in rows])
        found = {
            tag: trainer.update([rows[number] for number in self._order[tag]], step, record=record)
            for tag, trainer in self.trainers.items()
        }
        spent = self.ledger.take_metrics()
        if "" in found:
            return {**found[""], **spent}
        own = {f"adapter/{tag}/{name}": value for tag, metrics in found.items() for name, value in metrics.items()}
        return {**_combine(list(found.values())), **own, **spent}

    def take_token_values(self) -> TokenValues | None:
        """Return the values of the tokens of the last update, once."""
        taken = [(self._order.get(tag, []), trainer.take_token_values()) for tag, trainer in self.trainers.items()]
        return join_passes([(own, one) for own, one in taken if one is not None], sum(map(len, self._order.values())))

    def save(self, directory: Path) -> None:
        """Write a checkpoint, with a directory for each target if there are several."""
        paths, config, tokenizer = [], self.run.config.model, self._tokenizer
        model = find_base(config.path)[0]
        for tag, one in self.trainers.items():
            (place := directory / tag).mkdir(exist_ok=True)
            rank = (config.adapters[tag].lora_rank if tag else None) or self.service.options.rank
            paths.append(save_state(self.service, one.client, place, step=one.step, rank=rank, model=model, tokenizer=tokenizer))
            if self.facts.saves_once:
                one.client, _ = load_state(self.service, place, optimizer=True)
        forget_states(self.service, RunDirectory(self.run.directory), self.step, paths)
        self.ledger.write()

    def _find_places(self, samples: Sequence[Sample]) -> dict[str, list[int]]:
        one = next(iter(self.trainers)) == ""
        return {tag: [n for n, sample in enumerate(samples) if one or sample.target_tag == tag] for tag in self.trainers}


def _combine(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the metrics of the whole step: counts add up, of all else the mean is over trained tokens."""
    whole: dict[str, float] = {}
    for name in dict.fromkeys(name for metrics in found for name in metrics):
        values = [(metrics[name], metrics["tokens/trained"]) for metrics in found if name in metrics]
        total = sum(count for _, count in values)
        if name == "signal/nothing_to_train":
            whole[name] = min(value for value, _ in values)
        elif name.startswith(("signal/", "tokens/")):
            whole[name] = sum(value for value, _ in values)
        elif name.endswith("_max"):
            whole[name] = max(value for value, _ in values)
        else:
            whole[name] = sum(value * count for value, count in values) / total if total else values[0][0]
    return whole


@contextmanager
def open_learner(
    run: RunInfo, recipe: Recipe, control: Control, *, checkpoint: Path | None, total_steps: int, trains: bool = True
) -> Generator[TinkerLearner]:
    """Connect, measure the server, and make or load the adapters; raises `ConfigError` for what does not fit."""
    options, start = read_options(run.native), Path(run.config.model.path)
    if (start / STATE).is_file():
        options = evolve(options, rank=read_state(start)["rank"])  # that of the adapters which the run begins with
    estimator = recipe.make_estimator(run, control.hooks)
    base_model = options.base_model or find_base(run.config.model.path)[1]
    _check(run, recipe, estimator, options, base_model)
    service = connect(options, base_model, f"{run.project_name}/{run.experiment_name}", control)
    try:
        models, wanted = dict(service.list_models()), run.config.rollout.max_model_len
        context = models.get(base_model)
        if None not in models and base_model not in models:
            named = ", ".join(map(str, models))[:300]
            control.notify(f"{service.describe()} does not name {base_model} among its models: {named}; see tinker.base_model")
        if context is not None and context < wanted:
            message = (
                f"{service.describe()} serves {service.base_model} with contexts of {context} tokens, and this asks for {wanted}"
            )
            raise ConfigError([Problem(key="astuner.rollout.max_model_len", message=message)])
        facts = find_facts(service)
        control.notify(facts.describe(), "info")
        _check_facts(run, facts)
        if run.attempt:
            RunDirectory(run.directory).amend_run(tinker=asdict(facts))
        ledger = Ledger.open(run, options, base_model)
        learner = TinkerLearner(run, service, facts, ledger, estimator)
        common = run.config.trainer_common
        loss = LossOptions(
            policy_loss=recipe.make_loss(run, control.hooks),
            correction=Correction.of(common.algorithm),
            kl_loss_coef=common.kl_loss_coef if common.use_kl_loss else 0.0,
            kl_loss_type=common.kl_loss_type,
        )
        aggregation = common.loss_agg_mode or read_traits(estimator, EstimatorTraits).default_loss_agg_mode
        for tag in run.config.model.adapters or ("",):
            client, step = _open_model(run, service, tag, checkpoint, trains=trains)
            learner.trainers[tag] = AdapterTrainer(
                client=client,
                service=service,
                facts=facts,
                ledger=ledger,
                run=run,
                loss=loss,
                aggregation=cast("Any", aggregation),
                total_steps=total_steps,
                score_reference=learner.score_reference,
                step=step,
            )
        service.training = True
        yield learner
        ledger.write()
    finally:
        service.close()


def _open_model(run: RunInfo, service: Service, tag: str, checkpoint: Path | None, *, trains: bool) -> tuple[Any, int]:
    if checkpoint is not None:
        return load_state(service, checkpoint / tag, optimizer=trains)
    own = run.config.model.adapters.get(tag)
    seed = crc32(f"{run.seed} {tag}".encode()) >> 1 if tag else run.seed
    return open_start(run, service, seed=seed, rank=own.lora_rank if own else None), 0


def open_start(run: RunInfo, service: Service, *, seed: int, rank: int | None = None) -> Any:
    """Return new adapters, or those that `model.path` was exported from."""
    model = Path(run.config.model.path)
    if (model / STATE).is_file():
        return load_state(service, model, optimizer=False)[0]
    return service.make_training_client(seed=seed, rank=rank)


def _check(run: RunInfo, recipe: Recipe, estimator: Estimator, options: Options, base_model: str) -> None:
    """Raise `ConfigError` for what no Tinker server can do."""
    problems = []
    if recipe.engine is not None:
        message = "the weights are on the server, and only it samples from them."
        problems.append(Problem(key="astuner.rollout.name", message=message, suggestion="auto"))
    if "model.lora_alpha" in run.user_keys:
        problems.append(Problem(key="astuner.model.lora_alpha", message=f"{ALPHA}. Remove the key"))
    if options.max_spend is not None and find_prices(options, base_model)[0] is None:
        message = f"no prices are known of {base_model} there: set tinker.prices, in dollars per million tokens"
        problems.append(Problem(key="tinker.max_spend", message=message))
    for tag, own in run.config.model.adapters.items():
        for name in ("lora_alpha", "target_modules"):
            if getattr(own, name) is not None:
                message = "the server decides it, for all of its adapters. Remove the key (tinker.train_attn, train_mlp and "
                message += "train_unembed choose layers)"
                problems.append(Problem(key=f"astuner.model.adapters.{tag}.{name}", message=message))
    others = [name for name in read_traits(estimator, EstimatorTraits).scored_by if name != "reference"]
    if others:
        message = f"a server scores with its own models only, not with {others[0]}: name a teacher at a server (http://…/v1)"
        problems.append(Problem(key="astuner.trainer_common.algorithm.adv_estimator", message=message))
    if problems:
        raise ConfigError(problems)


def _check_facts(run: RunInfo, facts: ServerFacts) -> None:
    """Say what this server does not do of what the run asks for."""
    key = "trainer_common.grad_clip"
    if not facts.clips and run.config.trainer_common.grad_clip and key in run.user_keys:
        message = "this server does not limit the norm of a gradient. Remove the key: AdamW's steps hardly depend on it"
        raise ConfigError([Problem(key=f"astuner.{key}", message=message)])
