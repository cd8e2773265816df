"""The trainer for the training loop: plain calls, each watched."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import yaml
from attrs import define, evolve, field

from astuner.contract.errors import ConfigError, Problem, UsageError
from astuner.contract.protocols import Control, Estimator, EstimatorTraits, RunInfo, read_traits
from astuner.contract.schema import Sample, Sampling
from astuner.episodes.judging.advantages import WeightedSample
from astuner.runs.store.atomic import explain_os_errors
from astuner.runs.training import (
    Aggregation,
    Correction,
    LossOptions,
    check_whole_model,
    compute_learning_rate,
    compute_token_shares,
    cut_mini_batches,
)
from astuner.runs.training.learner import LearnerTraits
from astuner.runs.training.loop import check_estimator
from astuner.runs.training.signal import compute_signal_metrics, compute_update_metrics, select_live_rows
from astuner.runs.training.token_values import TokenValues, join_passes
from astuner.settings.config.adapters import ADAPTER_FILE
from astuner.settings.config.trees import get, put
from astuner.shared.private_files import make_private_directory, open_private
from astuner.shared.services.running import ServiceHost
from astuner_verl.alignment import ACTOR, MODE, MODEL, ROLLOUT, SEPARATE, SHARE
from astuner_verl.cluster import Cluster, attach, check_room
from astuner_verl.engine import VerlEngine
from astuner_verl.host import STATE, Host, Update
from astuner_verl.loss import PREFIX
from astuner_verl.native_configuration import Machine, resolve_configuration
from astuner_verl.packed_loss import PackedLoss
from astuner_verl.rows import train_row
from astuner_verl.seeds import read_architecture, sends_seeds
from astuner_verl.trainer_start import STARTING, count_workers, describe_workers, make_host, share_prefixes
from astuner_verl.watch import Watch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from astuner.episodes.rollout.recipe import Recipe
    from astuner.model.rendering import TemplateRenderer

NATIVE = "verl.yaml"
"""In the run directory: verl's configuration as it was started."""
TIMING = "verl/timing_s/"


@define(eq=False, kw_only=True)
class VerlLearner:
    """Holds the handle of the actor with verl's trainer."""

    run: RunInfo
    native: dict[str, Any]
    host: Any
    watch: Watch
    client: Any
    """verl's client of its engines."""
    renderer: TemplateRenderer
    estimator: Estimator
    total_steps: int
    seeds: bool = True
    """Whether requests carry a seed."""
    scorers: Mapping[str, str] = field(factory=dict)
    """The paths of models that score what is sampled, by the names that the estimator has for them."""
    step: int = 0
    entropy_coeff: float = 0.0
    """Weight of the entropy in the loss."""
    _reward_kl: float | None = field(default=None, init=False)
    _token_values: TokenValues | None = field(default=None, init=False)
    _serving: dict[str, float] = field(factory=dict, init=False)

    @property
    def traits(self) -> LearnerTraits:
        """Separate engines continue while the trainer works."""
        return LearnerTraits(
            overlaps=get(self.native, MODE) == SEPARATE,
            serves_weights=True,
            brings_engine=True,
            brings_renderer=True,
            compares_with_reference=True,
            records_tokens=True,
            scores_with_models=True,
            weighs_entropy=True,
            weighs_streams=True,
        )

    def own_engine(self) -> VerlEngine:
        """Return the engines that verl placed; they serve the trainer's weights from the start."""
        self.serve(self.step)
        return VerlEngine(
            self.client,
            max_model_len=self.run.config.rollout.max_model_len,
            seeds=self.seeds,
            version=self.step,
            serve=self.serve,
        )

    def weights(self) -> None:
        """The trainer hands them over itself."""

    def serve(self, version: int) -> None:
        """Give the engines the current weights."""
        timings, sent = self.watch.get(self.host.serve.remote(version), "handing over the weights")
        self._serving = {"verl/weights_bytes": float(sent), **{f"{TIMING}{name}": value for name, value in timings.items()}}

    def set_entropy_coeff(self, value: float) -> None:
        """Weigh the entropy so in the next updates."""
        self.entropy_coeff = value

    def update(self, rows: Sequence[WeightedSample], step: int) -> dict[str, float]:
        """Train on the weighed samples of a step, with one optimizer step per mini-batch that has signal."""
        common = self.run.config.trainer_common
        parts = cut_mini_batches(rows, common.mini_batch_num)
        live = [select_live_rows(part, every_row=self._every_row) for part in parts]
        rate = compute_learning_rate(
            step,
            lr=get(self.native, f"{ACTOR}.optim.lr"),
            warmup_steps=common.optim.lr_warmup_steps,
            schedule=common.optim.lr_scheduler_type,
            total_steps=self.total_steps,
        )
        numbers = {id(row): number for number, row in enumerate(rows)}
        sent = Update(
            mini_batches=[self._train_rows(*both, numbers) for both in zip(parts, live, strict=True)],
            rate=rate,
            entropy_coeff=self.entropy_coeff,
        )
        found: list[dict[str, float]] = []
        if any(sent.mini_batches):
            count = self.watch.get(self.host.prepare.remote(sent), f"preparing step {step}")
            found = [
                self.watch.get(self.host.train.remote(number), f"training mini-batch {number + 1} of step {step}")
                for number in range(count)
            ]
        self._token_values = self._read_token_values(len(rows))
        self.step = step
        norms = [one.pop("grad_norm", float("nan")) for one in found]
        timings = self.watch.get(self.host.take_timings.remote(), f"the update of step {step}")
        return {
            **compute_signal_metrics(rows, list(chain.from_iterable(live)), norms),
            **self._means(_sums(found), norms, len(parts)),
            **_native_means(found),
            **{f"{TIMING}{name}": value for name, value in timings.items()},
            **self._serving,
            "lr": rate,
        }

    def take_token_values(self) -> TokenValues | None:
        """Return the values of the tokens of the last update, once."""
        taken, self._token_values = self._token_values, None
        return taken

    def reference_kl(self, samples: Sequence[Sample]) -> list[NDArray[np.float64]]:
        """Return, per sample, the divergence from the reference at each of its trained tokens."""
        if not (rows := _make_rows(samples)):
            return [np.zeros(0)] * len(samples)
        kind = self.run.config.trainer_common.algorithm.kl_penalty
        found, k3 = self.watch.get(self.host.reference_kl.remote(rows, kind), "measuring the divergence")
        self._reward_kl = k3 / sum(sample.trained for sample in samples)
        return _fill(samples, found)

    def score_with(self, model: str, samples: Sequence[Sample], sampling: Sampling) -> list[NDArray[np.float64]]:
        """Return, per sample, another model's log-probability of each of its trained tokens, at the rollouts' temperature."""
        rows = _make_rows(samples)
        path = self.scorers[model]
        return _fill(samples, self.watch.get(self.host.score_with.remote(path, rows), f"scoring by {model}") if rows else [])

    def save(self, directory: Path) -> None:
        """Write a checkpoint: a Hugging Face model, or adapters, and the trainer's state next to it."""
        with explain_os_errors(directory):
            saving = self.host.save.remote(str(directory), _find_path(self.run.config.model.path))
            self.watch.get(saving, "saving a checkpoint")
        if not any(directory.glob("*.safetensors")):
            raise UsageError(
                f"{directory}: the trainer wrote its checkpoint where this machine does not see it; share the run directory"
            )

    @property
    def _kl_in_loss(self) -> bool:
        return bool(get(self.native, f"{ACTOR}.use_kl_loss"))

    @property
    def _every_row(self) -> bool:
        """Whether rows without an advantage have a gradient too."""
        return self._kl_in_loss or bool(self.entropy_coeff)

    def _read_token_values(self, rows: int) -> TokenValues | None:
        if not self.run.config.trainer_common.token_record.enable:
            return None
        passes = self.watch.get(self.host.take_token_records.remote(), "reading the values of trained tokens")
        return join_passes([one.to_values() for one in passes], rows)

    def _train_rows(
        self, part: Sequence[WeightedSample], live: Sequence[WeightedSample], numbers: Mapping[int, int]
    ) -> list[Any]:
        mode = cast("Aggregation", get(self.native, f"{ACTOR}.loss_agg_mode"))
        counted = compute_token_shares(part, mode, self.run.config.data.max_response_length)
        shares = dict(zip(map(id, part), counted, strict=True))
        return [train_row(row.sample, row.spread(), shares[id(row)], numbers[id(row)], row.others) for row in live]

    def _means(self, sums: dict[str, float], norms: Sequence[float], parts: int) -> dict[str, float]:
        metrics = {"tokens/computed": sums.pop("computed", 0.0)}
        if self._reward_kl is not None:
            metrics["kl/mean"], self._reward_kl = self._reward_kl, None
        if self._kl_in_loss and sums.get("tokens"):
            metrics["kl/mean"] = sums["kl"] / sums["tokens"]
        if not get(self.native, f"{ACTOR}.calculate_entropy"):
            sums.pop("entropy", None)
        return metrics | compute_update_metrics(sums, norms, parts)


@contextmanager
def open_learner(
    run: RunInfo, recipe: Recipe, control: Control, *, checkpoint: Path | None, total_steps: int, trains: bool = True
) -> Iterator[VerlLearner]:
    """Attach to the cluster, start the trainer, and continue from a checkpoint; everything ends with the block."""
    from astuner.model.rendering import load_renderer

    config, estimator = run.config, recipe.make_estimator(run, control.hooks)
    if trains:
        check_estimator(run, estimator, LearnerTraits(scores_with_models=True, weighs_streams=True))
    loss = _pack_loss(run, recipe, control) if trains else PackedLoss.of(LossOptions())
    check_whole_model(config.model.path, "the backbone 'verl'")
    base, adapter = _weights(config.model.path, checkpoint, trains)
    renderer = load_renderer(base, **config.model.rendering)
    named = read_traits(estimator, EstimatorTraits).scored_by if trains else ()
    scorers = {name: base if name == "reference" else _find_path(name) for name in named}
    for path in set(scorers.values()) - {base}:
        _check_scorer(run, path, renderer)
    if config.rollout.top_p < 1 or config.rollout.top_k > 0:
        control.notify(
            "the sampler leaves out a part of the vocabulary (top_p, top_k), and verl's trainer computes over all of it"
        )
    place = ServiceHost(
        directory=run.directory,
        say=lambda text: control.notify(text, "info"),
        warn=control.notify,
        stopped=lambda: control.stop,
    )
    with attach(run, place) as cluster:
        try:
            tree = copy.deepcopy(dict(run.native))
            if adapter is not None:
                put(tree, f"{MODEL}.lora_adapter_path", str(adapter))
                # verl loads adapters only if their rank is set.
                put(tree, f"{MODEL}.lora_rank", json.loads((adapter / ADAPTER_FILE).read_text(encoding="utf-8"))["r"])
            native = resolve_configuration(
                tree,
                Machine.here(cluster.device, cluster.gpus_per_node),
                rollout=config.rollout,
                model=base,
                loss_agg_mode=read_traits(estimator, EstimatorTraits).default_loss_agg_mode,
                steps=total_steps,
            )
            if not trains:
                put(native, f"{ACTOR}.use_kl_loss", False)
                put(native, "algorithm.use_kl_in_reward", False)
            check_room(native, cluster.device)
            if checkpoint is not None and trains:
                _check_state(checkpoint, native)
            with open_private(run.directory / NATIVE, "w") as file:
                yaml.safe_dump(native, file, sort_keys=False)
            watch = Watch(logs=cluster.logs)
            host = make_host(Host, native, loss, records=config.trainer_common.token_record.enable)
            engine = get(native, f"{ROLLOUT}.name")
            control.notify(f"{describe_workers(native, cluster.device)}, engine {engine}; {STARTING}", "info")
            seeds = _send_seeds(run, engine, base, control)
            client = watch.get(host.start.remote(), "starting the trainer", lambda text: control.notify(text, "info"))
            if trains and get(native, SHARE):
                share_prefixes(host, watch, control.notify)
            if checkpoint is not None and trains:
                watch.get(host.restore.remote(str(checkpoint)), f"reading {checkpoint}")
            for path in dict.fromkeys(scorers.values()):
                watch.get(host.add_scorer.remote(path), f"loading {path}, which scores what is sampled")
            yield VerlLearner(
                run=run,
                native=native,
                host=host,
                watch=watch,
                client=client,
                renderer=renderer,
                estimator=estimator,
                total_steps=total_steps,
                scorers=scorers,
                seeds=seeds,
                step=control.resume_step,
                entropy_coeff=get(native, f"{ACTOR}.entropy_coeff"),
            )
        finally:
            _keep_logs(cluster, run.directory)


def _sums(found: Sequence[dict[str, float]]) -> dict[str, float]:
    """Add up the loss's metrics of each mini-batch."""
    sums: dict[str, float] = {}
    for one in found:
        for name, value in one.items():
            key = name.removeprefix(PREFIX)
            if key == "abs_max":
                sums[key] = max(sums.get(key, 0.0), value)
            elif key != name:
                sums[key] = sums.get(key, 0.0) + value
    return sums


def _native_means(found: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the means of verl's own metrics."""
    names = dict.fromkeys(name for one in found for name in one if not name.startswith(PREFIX))
    values = {name: [one[name] for one in found if name in one] for name in names}
    return {f"verl/{name}": sum(own) / len(own) for name, own in values.items()}


def _send_seeds(run: RunInfo, engine: str, model: str, control: Control) -> bool:
    """Decide whether requests carry a seed, and report if vLLM gets none."""
    architecture = read_architecture(model) if engine == "vllm" else ""
    sends = sends_seeds(engine, architecture, wanted=run.config.rollout.seed is not None)
    if engine == "vllm" and not sends:
        control.notify(
            f"requests to vLLM carry no seed: it would draw the tokens of {architecture or 'this model'} for one request after "
            "the other. Finished episodes are replayed as recorded; set rollout.seed for reproducible sampling",
            "info",
        )
    return sends


def _weights(model: str, checkpoint: Path | None, trains: bool) -> tuple[str, Path | None]:
    """Return the model to load, and the adapters on it: a resumed run starts from its original model."""
    if checkpoint is None or trains:
        return model, None
    return (model, checkpoint) if (checkpoint / ADAPTER_FILE).is_file() else (str(checkpoint), None)


def _check_scorer(run: RunInfo, path: str, renderer: TemplateRenderer) -> None:
    """Raise `ConfigError` for a model that cannot score what the run samples."""
    from astuner.model.rendering import load_renderer

    key = f"astuner.trainer_common.algorithm.{run.config.trainer_common.algorithm.adv_estimator}"
    try:
        check_whole_model(path, "scoring with the backbone 'verl'")
        own, others = (one.tokenizer.get_vocab() for one in (renderer, load_renderer(path)))
    except ConfigError as error:
        raise ConfigError([evolve(problem, key=key) for problem in error.problems]) from error
    if own != others:
        token, like = min(own.items() ^ others.items())[0], run.config.model.path
        message = f"{path} has another tokenizer than {like}, such as for {token!r}: name a model of the same family"
        raise ConfigError([Problem(key=key, message=message)])


def _find_path(model: str) -> str:
    """Return the model as other processes find it: the whole path of a directory, or its name elsewhere."""
    return str(Path(model).resolve()) if Path(model).exists() else model


def _make_rows(samples: Sequence[Sample]) -> list[Any]:
    """Return the rows of those that train a token."""
    return [train_row(sample) for sample in samples if sample.trained]


def _fill(samples: Sequence[Sample], found: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
    """Return what was found of the rows, and nothing of samples without one."""
    values = iter(found)
    return [next(values) if sample.trained else np.zeros(0) for sample in samples]


def _check_state(checkpoint: Path, native: dict[str, Any]) -> None:
    """Raise `UsageError` for a checkpoint that these workers cannot continue from."""
    state = checkpoint / STATE
    shards = list(state.glob("model_world_size_*_rank_*.pt"))
    if not shards:
        raise UsageError(f"{checkpoint}: holds no {STATE}/ of verl, so training cannot continue from it")
    saved = int(shards[0].name.split("_")[3])
    workers = count_workers(native)
    if saved != workers:
        raise UsageError(
            f"{checkpoint}: was saved by {saved} workers, and the run has {workers} now; set trainer_common.nnodes and "
            "n_gpus_per_node as they were"
        )


def _pack_loss(run: RunInfo, recipe: Recipe, control: Control) -> PackedLoss:
    """Make the loss, and what it needs to travel; raises `ConfigError` for an entropy that counts and is not computed."""
    entropy = run.config.trainer_common.algorithm.entropy_ctrl
    if (entropy.coeff or entropy.target is not None) and get(run.native, f"{ACTOR}.calculate_entropy") is False:
        message = "false, and trainer_common.algorithm.entropy_ctrl needs the entropy. Remove one of the two."
        raise ConfigError([Problem(key=f"verl.{ACTOR}.calculate_entropy", message=message)])
    options = LossOptions(
        policy_loss=recipe.make_loss(run, control.hooks),
        correction=Correction.of(run.config.trainer_common.algorithm),
        kl_loss_coef=_read_kl_coef(run.native),
        kl_loss_type=get(run.native, f"{ACTOR}.kl_loss_type"),
        entropy_coeff=get(run.native, f"{ACTOR}.entropy_coeff"),
    )
    return PackedLoss.of(options, recipe.policy_loss.candidate)


def _read_kl_coef(native: Mapping[str, Any]) -> float:
    """Return the weight of the divergence in the loss."""
    return float(get(native, f"{ACTOR}.kl_loss_coef")) if get(native, f"{ACTOR}.use_kl_loss") else 0.0


def _keep_logs(cluster: Cluster, directory: Path) -> None:
    """Copy the processes' logs to the run directory: the cluster's own directory is removed."""
    if cluster.logs is None or not cluster.logs.is_dir():
        return
    kept = directory / "logs" / "ray"
    make_private_directory(kept)
    for file in cluster.logs.glob("worker-*"):
        if file.is_file() and file.stat().st_size:
            with file.open("rb") as read, open_private(kept / file.name, "wb") as written:
                shutil.copyfileobj(read, written)
