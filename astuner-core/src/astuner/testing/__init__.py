"""The kit for authors of plugins. The contract of each kind is in `astuner.testing.contracts`; the fixtures come by pytest.

* `episode`, `group`, `sample`: made-up results of the rollout, for judges, loggers and estimators;
* `run_info`: what a component is told of its run;
* `write_distribution`, `write_wheel`: a distribution made on the spot, installed in a directory or as a file for pip;
* `write_project`: a YAML and all that it names, for a run without any model;
* `PlayedRun`: what the fixture `run` returns;
* `until`, `until_so`: waiting for another process, and for another task;
* `tiny_tokenizer`: a real tokenizer of transformers, of 420 ids.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astuner.testing.distribution import write_distribution, write_wheel
    from astuner.testing.episodes import episode, group, sample
    from astuner.testing.project import write_project
    from astuner.testing.run_in_process import PlayedRun
    from astuner.testing.run_infos import run_info
    from astuner.testing.tokenizer import tiny_tokenizer
    from astuner.testing.waiting import until, until_so

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
"""In which module each public name lives. pytest imports this package in every session, so these wait until they are used."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
