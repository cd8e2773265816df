"""From the options of `astuner eval` to who plays what; what is wrong with them is said before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from astuner.runs.driver.run_request import RunRequest
from astuner.settings.config.loading import load_config
from astuner_tools.evaluations.contestants import BASE, Contestant, find_checkpoints, read_api, tell_apart
from astuner_tools.evaluations.playing import Match
from astuner_tools.evaluations.suites import choose_suite


@frozen(kw_only=True)
class Preparation:
    """All that is known before the first episode."""

    match: Match
    contestants: Sequence[Contestant]
    settings: Mapping[str, Any]
    """What is the same for all, for a page."""
    seed: int


def prepare(request: RunRequest, checkpoints: Sequence[str], apis: Sequence[str], suite: str | None) -> Preparation:
    """Return who plays what; raises `UsageError` or `ConfigError` for options that do not fit."""
    chosen = choose_suite(suite) if suite is not None else []
    # What the user sets wins over the suite.
    request = evolve(request, overrides=(*chosen, *request.overrides))
    config = load_config(request.conf, request.overrides, request.backbone).config
    home = Path(config.experiment_dir)
    names = checkpoints or (() if apis else (BASE,))
    contestants = [*find_checkpoints(names, home, config.model.path), *map(read_api, apis)]
    sampling = config.rollout.val_kwargs
    settings = {
        "configuration": request.conf.name,
        "suite": suite,
        "episodes_per_task": config.trainer_common.val_pass_n,
        "seed": config.seed,
        "temperature": f"{sampling.temperature if sampling.do_sample else 0:g}",
        "astuner": version("astuner-core"),
    }
    return Preparation(
        match=Match(request=request, home=str(home)),
        contestants=tell_apart(contestants),
        settings=settings,
        seed=config.seed,
    )
