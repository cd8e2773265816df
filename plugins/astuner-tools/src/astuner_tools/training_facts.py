"""What a run was made from and with which settings, for readers elsewhere: no directory of this machine is named."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Literal

from astuner.runs.inspection.run import Run
from astuner.settings.config.trees import get

KINDS = Path(__file__).with_name("training_facts.toml")
"""Labels of facts by kind, and their places: the keys of `run.json`, or of the configuration, as `run.json: seed`."""


def list_facts(run: Run, kind: Literal["training", "origin", "provenance"] = "training") -> Iterator[tuple[str, str, str]]:
    """Yield a label, a value and its place for each fact that is known and not 0."""
    trees: Mapping[str, Any] = {"run.json": run.facts, "config.yaml": {"astuner": run.config}}
    for label, place in tomllib.loads(KINDS.read_text(encoding="utf-8"))[kind].items():
        file, _, key = place.partition(": ")
        found = get(trees[file], key)
        if key == "plugins":
            found = [row["name"] for row in found or () if row.get("kind") == label]
        if label == "data set":
            found = [f"{name} {hide_directory(revision)}" for name, revision in (found or {}).items()]
        unused = label == "KL loss" and not get(run.config, "trainer_common.use_kl_loss")
        if not unused and (found or (found == 0 and label == "seed")):
            yield label, _format_fact(found), place


def list_versions(run: Run) -> str:
    """Return the packages of a run with their versions."""
    packages = {row["distribution"]: row["version"] for row in run.facts.get("plugins") or () if row.get("version")}
    return ", ".join(f"{name} {number}" for name, number in {**(run.facts.get("versions") or {}), **packages}.items())


def describe_sampling(config: Mapping[str, Any]) -> str:
    """Return how the answers of validations were sampled, in a sentence."""
    if not get(config, "rollout.val_kwargs.do_sample"):
        return "Answers are greedy."
    return f"Answers are sampled at temperature {get(config, 'rollout.val_kwargs.temperature')}."


def hide_directory(value: object) -> str:
    """Return a value in one line; of a path on this machine its last part."""
    text = str(value)
    path, colon, rest = text.partition(":")
    text = f"{PurePath(path).name}{colon}{rest}" if path.startswith(("/", "~", "..")) else text.removeprefix("./")
    return " ".join(text.split())


def _format_fact(found: Any) -> str:
    if isinstance(found, Mapping):
        return ", ".join(PurePath(name).name for name in found)
    if isinstance(found, list):
        return ", ".join(map(hide_directory, found))
    return f"{found:,}" if isinstance(found, int) else hide_directory(found)
