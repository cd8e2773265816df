"""The candidates of a search that were validated, and the files that hold the best one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import attrs
from attrs import define, field, frozen

from astuner.contract.errors import UsageError
from astuner.runs.store.atomic import explain_os_errors, write_text
from astuner.settings.config.structure_errors import FaultsError
from astuner.settings.config.structuring import make_converter
from astuner_gepa.prompts import Candidate, Prompt, PromptRewriter

FILE = "prompts.json"
"""In the run directory and in each checkpoint."""

TEXTS = "prompts"
"""The folder of the texts themselves, one file per agent, next to it."""


@frozen(kw_only=True)
class Validated:
    """A candidate, and what its validation gave."""

    step: int
    texts: Candidate
    scores: Sequence[float]
    """By task."""
    metrics: Mapping[str, float]

    @property
    def mean(self) -> float:
        """The mean score, by which GEPA ranks candidates."""
        return sum(self.scores) / len(self.scores)


@define
class Candidates:
    """The validated candidates, in the order of their validations; the first one is the workflow's own texts."""

    prompts: Sequence[Prompt]
    validated: list[Validated] = field(factory=list)

    @property
    def best(self) -> Validated:
        """The best one, the first of equals, as GEPA chooses it."""
        return max(self.validated, key=lambda one: one.mean)

    def write(self, directory: Path) -> None:
        """Write the best texts, as `prompts.json` and as files of text."""
        best = self.best
        document = {
            "prompts": [attrs.asdict(prompt) | {"text": best.texts[prompt.agent]} for prompt in self.prompts],
            "step": best.step,
            "validation": dict(best.metrics),
            "candidates": [{"step": one.step, "mean": one.mean, "texts": dict(one.texts)} for one in self.validated],
        }
        with explain_os_errors(directory):
            (directory / TEXTS).mkdir(exist_ok=True)
            for prompt in self.prompts:
                write_text(directory / TEXTS / f"{quote(prompt.agent, safe=' ')}.txt", best.texts[prompt.agent])
            write_text(directory / FILE, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def read_rewriter(checkpoint: Path) -> PromptRewriter:
    """Return what puts the texts of a checkpoint in their places; raises `UsageError` if it holds none."""
    path = checkpoint / FILE
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["prompts"]
        texts = {row["agent"]: str(row.pop("text")) for row in rows}
        return PromptRewriter(prompts=make_converter().structure(rows, tuple[Prompt, ...]), texts=texts)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: does not exist; take a checkpoint that the backbone 'gepa' has written") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, FaultsError) as error:
        raise UsageError(f"{path}: cannot be read as prompts: {error!r}; take another checkpoint") from error
