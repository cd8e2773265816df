"""The test kit for plugin authors. The contract of each kind is in `astuner_devkit.contracts`; pytest provides the fixtures.

* `episode`, `group`, `sample`: made-up results of the rollout, for judges, loggers and estimators;
* `run_info`: a component's view of its run;
* `write_distribution`, `write_wheel`: a generated distribution, installed in a directory or as a file for pip;
* `write_project`: a YAML and all files it names, for a run without a model;
* `PlayedRun`: what the fixture `run` returns;
* `until`, `until_so`: waiting for another process, and for another task;
* `tiny_tokenizer`: a real tokenizer of transformers, of 420 ids.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astuner_devkit.distribution import write_distribution, write_wheel
    from astuner_devkit.episodes import episode, group, sample
    from astuner_devkit.project import write_project
    from astuner_devkit.run_in_process import PlayedRun
    from astuner_devkit.run_infos import run_info
    from astuner_devkit.tokenizer import tiny_tokenizer
    from astuner_devkit.waiting import until, until_so

__all__ = [
    "PlayedRun",
    "episode",
    "group",
    "run_info",
    "sample",
    "tiny_tokenizer",
    "until",
    "until_so",
    "write_distribution",
    "write_project",
    "write_wheel",
]

_HOMES = {
    "PlayedRun": "run_in_process",
    "episode": "episodes",
    "group": "episodes",
    "run_info": "run_infos",
    "sample": "episodes",
    "tiny_tokenizer": "tokenizer",
    "until": "waiting",
    "until_so": "waiting",
    "write_distribution": "distribution",
    "write_project": "project",
    "write_wheel": "distribution",
}
"""The module of each public name. pytest imports this package in every session, so these are imported on first use."""


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
