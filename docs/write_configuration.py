"""Writes `configuration.md` from the typed model: every key, its type, default and meaning, and which backbones honour it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import asdict, has

from astuner.builtin.debug.debug_backbone import DebugBackbone
from astuner.config.key_coverage import HonourTable, walk_schema
from astuner.config.model import Config
from astuner.config.sections import DOCUMENTED
from astuner.plugins.catalog import Catalog
from astuner.plugins.drivers import load
from astuner.plugins.option_docs import OptionDescription, describe_options
from astuner.runs.resume import MAY_CHANGE
from astuner_local.backbone import LocalBackbone

HERE = Path(__file__).parent
# What verl and Trinity need is left out of this environment; the classes of their backbones do without.
sys.path += [str(HERE.parent / "plugins" / name / "src") for name in ("astuner-verl", "astuner-trinity")]

from astuner_trinity.backbone import TrinityBackbone  # noqa: E402
from astuner_verl.backbone import VerlBackbone  # noqa: E402

BACKBONES = (DebugBackbone, LocalBackbone, VerlBackbone, TrinityBackbone)
SECTION = {
    "reader": "task_reader",
    "judge": "task_judge",
    "tracker": "context_tracker",
    "engine": "rollout",
    "logger": "trainer_common.logger",
}
"""Where the options of each kind of component stand."""


def document() -> str:
    """Return the whole page."""
    return "\n".join(
        [(HERE / "configuration_head.md").read_text(encoding="utf-8").rstrip(), "", *_keys(), *_sections(), *_resume(), ""]
    )


def _keys() -> Iterator[str]:
    section = None
    for option in describe_options(Config):
        if option.name.rpartition(".")[2] == "sections":
            continue  # the options of components: below
        place = option.name.rpartition(".")[0]
        if place != section:
            section = place
            yield from ("", f"## `{place}`" if place else "## Top level", "")
            yield from ("| key | type | default | meaning | honoured by |", "|---|---|---|---|---|")
        yield _row(option, option.name.rpartition(".")[2], _list_honoured(option.name))


def _sections() -> Iterator[str]:
    yield from ("", "## Options of components", "", "Each stands in a section of its name beside the key that chooses it.")
    found = {f"{SECTION[kind]}.{name}": cls for kind, name, cls in _installed()}
    found |= {path: documented.options for path, documented in DOCUMENTED.items()}
    for path, cls in sorted(found.items()):
        yield from ("", f"### `{path}`", "", "| key | type | default | meaning |", "|---|---|---|---|")
        for option in describe_options(cls):
            yield _row(option, option.name)


def _installed() -> Iterator[tuple[str, str, type[Any]]]:
    for candidate in Catalog.discover().all():
        if candidate.kind in SECTION and (candidate.dist or "").startswith("astuner-"):
            options = getattr(load(candidate), "Options", None)
            if options is not None:
                yield candidate.kind, candidate.name, options


def _resume() -> Iterator[str]:
    yield from (
        "",
        "## What may change when a run is resumed",
        "",
        "Every other key must have the value that the run was started with.",
        "",
    )
    yield from (f"* `{pattern}`" for pattern in MAY_CHANGE)


def _row(option: OptionDescription, name: str, honoured: str | None = None) -> str:
    default = "required" if option.required else f"`{_format_value(option.default)}`"
    cells = [
        f"`{name}`",
        f"`{option.type}`".replace("|", "\\|"),
        default,
        option.doc.replace("|", "\\|"),
    ]
    return "| " + " | ".join([*cells, *([honoured] if honoured is not None else [])]) + " |"


def _format_value(value: Any) -> str:
    if isinstance(value, tuple):
        value = [asdict(item) if has(type(item)) else item for item in value]
    return json.dumps(value, default=str, ensure_ascii=False)


def _list_honoured(key: str) -> str:
    # The schema writes a section of free names as `services.*`.
    key = f"{key}.*" if f"{key}.*" in walk_schema() else key
    found = {backbone.name: HonourTable.of(backbone).honour_of(key) for backbone in BACKBONES}
    acting = [name for name, honour in found.items() if honour.acted_on]
    if acting:
        return ", ".join(acting)
    reasons = {name: f"{'refused, ' if honour.status == 'refused' else ''}{honour.reason}" for name, honour in found.items()}
    if len(set(reasons.values())) == 1:
        return f"none: {next(iter(reasons.values()))}"
    return "none; " + "; ".join(f"{name}: {reason}" for name, reason in reasons.items())


if __name__ == "__main__":
    (HERE / "configuration.md").write_text(document(), encoding="utf-8")
