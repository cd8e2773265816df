"""The kinds of components and the entry-point group of each."""

from __future__ import annotations

from collections.abc import Mapping

from astuner.settings.config.importers import GROUP as IMPORTERS

KINDS: Mapping[str, str | None] = {
    "reader": "astuner.readers",
    "judge": "astuner.judges",
    "tracker": "astuner.trackers",
    "logger": "astuner.loggers",
    "backbone": "astuner.backbones",
    "engine": "astuner.engines",
    "environment": "astuner.environments",
    "sandbox": "astuner.sandboxes",
    "detector": "astuner.detectors",
    "estimator": "astuner.estimators",
    "loss": "astuner.losses",
    "sampler": "astuner.samplers",
    "wire_api": "astuner.wire_apis",
    "hook": "astuner.hooks",
    "command": "astuner.commands",
    "workflow": None,
}
"""Group by kind; None for kinds that are only named by path, since every user writes their own."""


GROUPS: Mapping[str, str | None] = {
    **KINDS,
    "service": "astuner.services",
    "importer": IMPORTERS,
    "function": "astuner.functions",
}
"""With what is found and listed like components, but not scaffolded. A function is one that core calls by its name: what the
package of a command does in the Python API, or a part of a run that has a package of its own."""


def parse_kind(text: str) -> str:
    """Return the kind for a word in the singular or the plural; raises `KeyError` for any other word."""
    for kind, group in GROUPS.items():
        if text in (kind, f"{kind}s", (group or kind).rpartition(".")[2]):
            return kind
    raise KeyError(text)


def add_article(kind: str) -> str:
    """Return `a judge`, `an engine`."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
