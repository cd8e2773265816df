"""A stage that trains on demonstrations, as `astuner warm-start` does."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs.validators import ge, gt, lt, optional

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import BackboneTraits, read_traits
from astuner.settings.config.paths import find_similar_path, resolve_path
from astuner.settings.config.places import Place, Places, make_problem
from astuner.settings.config.structuring import structure_options
from astuner.settings.config.trees import get
from astuner.settings.planning.plan import Plan
from astuner.settings.plugins.drivers import load
from astuner_tools.demonstrations.reading import read_demonstrations
from astuner_tools.demonstrations.request import BATCH_SIZE, WarmStartRequest
from astuner_tools.stages.choosing import STAGES

UNUSED = ("algorithm", "optim", "total_epochs", "total_training_steps", "use_kl_loss")
"""Keys of `trainer_common` that say how to learn from episodes."""


@frozen(kw_only=True)
class Demonstrations:
    """The section `demonstrations` of a stage: a file, or the options of `astuner warm-start`."""

    file: str
    """Conversations, one JSON object per line, relative to the YAML."""
    epochs: int | None = field(default=None, validator=optional(ge(1)))
    """Passes over them; 3 by default, with `tiny` as many as make 300 steps."""
    batch_size: int = field(default=BATCH_SIZE, validator=ge(1))
    """The most rows of an optimizer step."""
    lr: float | None = field(default=None, validator=optional(gt(0)))
    """The highest learning rate; 1e-5 by default, 2e-4 for LoRA adapters, 4e-3 with `tiny`."""
    holdout: float = field(default=0.1, validator=[ge(0), lt(1)])
    """The share that is measured, but not trained."""
    tiny: bool = False
    """Begin with a new tiny model, made for the task, instead of `model.path`."""
    validate_before: bool = False
    """With `tiny`: play the validation tasks also with its first, random weights."""

    def find_file(self, conf: Path) -> Path:
        """Return the file."""
        return resolve_path(self.file, conf.absolute().parent)

    def sign(self, conf: Path) -> dict[str, Any]:
        """Return what must be the same for a stage to be the same."""
        options = {name: getattr(self, name) for name in ("epochs", "batch_size", "lr", "holdout", "tiny")}
        return {**options, "sha256": hashlib.sha256(self.find_file(conf).read_bytes()).hexdigest()}

    def check(self, plan: Plan, key: str) -> None:
        """Raise `ConfigError` if the backbone does not train on demonstrations, or for what is wrong with them."""
        name = plan.backbone.candidate.name
        if not read_traits(load(plan.backbone.candidate), BackboneTraits).warm_starts:
            message = f"the backbone '{name}' does not train on demonstrations. Name one that does, such as local, in this stage."
            raise ConfigError([make_problem(f"astuner.{key}", message, plan.loaded.locate)])
        if problems := read_demonstrations(self.find_file(plan.loaded.path)).problems:
            raise ConfigError(list(problems))

    def make_request(self, conf: Path, out: Path, overrides: tuple[str, ...], backbone: str | None) -> WarmStartRequest:
        """Return what `astuner warm-start` is asked for."""
        return WarmStartRequest(
            conf=conf,
            demos=self.find_file(conf),
            out=out,
            overrides=overrides,
            backbone=backbone,
            tiny=self.tiny,
            validate_before=self.validate_before,
            holdout=self.holdout,
            epochs=self.epochs,
            batch_size=self.batch_size,
            lr=self.lr,
        )


def read_section(section: Any, stage: Mapping[str, Any], index: int, conf: Path, places: Mapping[str, Place]) -> Demonstrations:
    """Return the section `demonstrations` of a stage; raises `ConfigError` with all that is wrong with it."""
    key, locate = f"{STAGES}[{index}].demonstrations", Places(places)
    if not isinstance(section, Mapping):
        section = {"file": section}
    found: Demonstrations = structure_options(Demonstrations, section, key=key, locate=locate)
    problems: list[Problem] = []
    if not (file := found.find_file(conf)).is_file():
        similar = find_similar_path(found.file, conf.absolute().parent)
        where = f"{key}.file" if f"{key}.file" in places else key
        problems.append(make_problem(where, f"there is no such file: {file}.", locate, similar, "missing_path"))
    if found.tiny and index and get(stage, "model.path") is None:
        problems.append(make_problem(f"{key}.tiny", "a new model can only be the beginning of the first stage.", locate))
    trainer = stage.get("trainer_common") or {}
    for name in UNUSED:
        if isinstance(trainer, Mapping) and name in trainer:
            message = "demonstrations are learnt without it. Remove it; the rate is demonstrations.lr, the length .epochs."
            problems.append(make_problem(f"{STAGES}[{index}].trainer_common.{name}", message, locate))
    if problems:
        raise ConfigError(problems)
    return found
