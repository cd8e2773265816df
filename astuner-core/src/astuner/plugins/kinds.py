"""The kinds of components and the entry-point group of each."""

from __future__ import annotations

from collections.abc import Mapping

KINDS: Mapping[str, str | None] = {
    "reader": "astuner.readers",
    "judge": "astuner.judges",
    "tracker": "astuner.trackers",
    "logger": "astuner.loggers",
    "backbone": "astuner.backbones",
    "engine": "astuner.engines",
    "environment": "astuner.environments",
    "detector": "astuner.detectors",
    "estimator": "astuner.estimators",
    "hook": "astuner.hooks",
    "command": "astuner.commands",
    "workflow": None,
}
"""Group by kind; None for what is only ever named by its path, since every user writes their own."""


GROUPS: Mapping[str, str | None] = {**KINDS, "service": "astuner.services"}
"""With what a run can be given beside its components: found, listed and made like one, and not scaffolded."""


def kind_of(text: str) -> str:
    """Return the kind that a word means, in the singular or the plural; raises `KeyError` for any other word."""
    for kind in GROUPS:
        if text in (kind, f"{kind}s"):
            return kind
    raise KeyError(text)


def with_article(kind: str) -> str:
    """Return `a judge`, `an engine`."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
