"""Checks of a configuration's keys that depend on what the chosen components say of themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from attrs import frozen

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import BackboneTraits, EngineTraits, EstimatorTraits
from astuner.episodes.rollout.sampler import Uniform
from astuner.episodes.rollout.worker_count import find_lack
from astuner.settings.config.checks import MODEL_EXAMPLE
from astuner.settings.config.paths import find_similar_path, resolve_path
from astuner.settings.config.places import ROOT, make_problem
from astuner.settings.planning.key_coverage import HonourTable
from astuner.settings.planning.tracker_choice import find_inexact_keys
from astuner.settings.plugins.drivers import load, load_with_traits

if TYPE_CHECKING:
    from astuner.settings.config.loading import LoadedConfig
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.component import Component


ALGORITHM = "trainer_common.algorithm"
CLIPPED = "ppo_clip"
CLIP_KEYS = tuple(f"trainer_common.clip_ratio_{end}" for end in ("low", "high", "c"))
"""The bounds of that loss."""


@frozen(kw_only=True)
class ComponentChecks:
    """What the backbone, the engine, the estimator, the loss and the sampler of a run require of its keys."""

    loaded: LoadedConfig
    catalog: Catalog
    backbone: Component | None
    engine: Component | None
    estimator: Component | None
    loss: Component | None
    sampler: Component | None

    def run(self, *, trains: bool) -> None:
        """Raise `ConfigError` with all problems. A plan that only evaluates (`trains=False`) may hold what training must not."""
        backbone = BackboneTraits() if self.backbone is None else load_with_traits(self.backbone.candidate)[1]
        problems = [*self._check_model(), *self._check_players()]
        if trains and backbone.trains:
            problems += [*self._check_siblings(), *self._check_bounds(), *self._check_order(), *find_inexact_keys(self.loaded)]
        if problems:
            raise ConfigError(problems)

    def _check_model(self) -> Iterator[Problem]:
        if not self.loaded.config.model.path and needs_model(self.backbone, self.engine):
            yield self._make_problem("model.path", f"this key is required: the model to be trained, {MODEL_EXAMPLE}.")

    def _check_players(self) -> Iterator[Problem]:
        players = self.loaded.config.rollout.players
        if players in ("auto", 1) or self.backbone is None or (lack := find_lack(self.catalog)) is None:
            return
        table = HonourTable.of(load_with_traits(self.backbone.candidate)[0], self.backbone.candidate.name)
        if table.find_honour("rollout.players").acted_on:
            yield self._make_problem("rollout.players", f"{players} rollout workers {lack}")

    def _check_siblings(self) -> Iterator[Problem]:
        if self.estimator is None or self.loaded.config.rollout.num_repeat > 1:
            return
        traits: EstimatorTraits = load_with_traits(self.estimator.candidate)[1]
        if traits.group_relative:
            name = self.estimator.candidate.name
            message = f"with one episode per task, {name} has nothing to compare and every advantage is 0. Set it to 2 or more."
            yield self._make_problem("rollout.num_repeat", message)

    def _check_bounds(self) -> Iterator[Problem]:
        algorithm = self.loaded.config.trainer_common.algorithm
        name = CLIPPED if self.loss is None else self.loss.candidate.name
        for key in CLIP_KEYS if name != CLIPPED else ():
            if key in self.loaded.user_keys:
                yield self._make_problem(key, f"belongs to the loss {CLIPPED}. Set {ALGORITHM}.{name} instead.")
        measured_by_ratio = str(algorithm.rollout_rs).endswith("k1")
        for name, needed, given in (
            ("rollout_is", "rollout_is_threshold", algorithm.rollout_is_threshold is not None),
            ("rollout_is_lower", "rollout_is_threshold", algorithm.rollout_is_threshold is not None),
            ("rollout_rs_threshold", "rollout_rs", algorithm.rollout_rs is not None),
            ("rollout_rs_lower", "rollout_rs: token_k1, seq_sum_k1 or seq_mean_k1", measured_by_ratio),
            ("entropy_ctrl.delta", "entropy_ctrl.target", algorithm.entropy_ctrl.target is not None),
            ("entropy_ctrl.most", "entropy_ctrl.target", algorithm.entropy_ctrl.target is not None),
        ):
            if not given and f"{ALGORITHM}.{name}" in self.loaded.user_keys:
                yield self._make_problem(f"{ALGORITHM}.{name}", f"has no effect without {needed}.")
        for kind in ("is", "rs"):
            lower, upper = (getattr(algorithm, f"rollout_{kind}_{end}") for end in ("lower", "threshold"))
            if lower is not None and upper is not None and lower >= upper:
                message = f"must be below rollout_{kind}_threshold ({upper:g}): {lower:g}"
                yield self._make_problem(f"{ALGORITHM}.rollout_{kind}_lower", message)

    def _check_order(self) -> Iterator[Problem]:
        if self.sampler is not None and not self.loaded.config.data.shuffle and load(self.sampler.candidate) is not Uniform:
            message = f"the sampler {self.sampler.candidate.name} takes the tasks in its own order. Remove this key."
            yield self._make_problem("data.shuffle", message)

    def _make_problem(self, key: str, message: str) -> Problem:
        return make_problem(f"{ROOT}.{key}", message, self.loaded.locate)


def needs_model(backbone: Component | None, engine: Component | None) -> bool:
    """Whether a run with these needs `model.path`."""
    trains = (BackboneTraits() if backbone is None else load_with_traits(backbone.candidate)[1]).trains
    return trains or not (EngineTraits() if engine is None else load_with_traits(engine.candidate)[1]).names_own_model


def check_named_files(loaded: LoadedConfig, reader: Component) -> None:
    """Raise `ConfigError` with the files that a reader's options name and that do not exist."""
    target, traits = load_with_traits(reader.candidate)
    problems = []
    for key, value in target.name_files(reader.options).items() if traits.names_files else ():
        path = resolve_path(value, loaded.path.parent)
        if not os.path.isfile(path):
            place = f"{ROOT}.task_reader.{reader.candidate.name}.{key}"
            similar = find_similar_path(value, loaded.path.parent)
            problems.append(make_problem(place, f"there is no file {path}.", loaded.locate, similar, "missing_path"))
    if problems:
        raise ConfigError(problems)
