"""Where each value of a configuration comes from, and who acts on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from attrs import evolve, frozen

from astuner.settings.config.native import Native, align
from astuner.settings.config.places import ROOT, format_place
from astuner.settings.config.redaction import redact_tree, restore_variables
from astuner.settings.config.trees import flatten
from astuner.settings.planning.key_coverage import Honour, HonourTable, list_chosen_sections
from astuner.settings.planning.machine_settings import make_run_info, settle_values

if TYPE_CHECKING:
    from astuner.contract.protocols import SettledValue
    from astuner.settings.config.loading import LoadedConfig
    from astuner.settings.plugins.component import Component


@frozen(kw_only=True)
class ExplainedKey:
    """One of our keys."""

    key: str
    """Without the root."""
    value: Any
    """Without secrets."""
    source: Literal["default", "file", "command"]
    place: str
    """`tune.yaml:12`, or the argument that set it; empty for a default."""
    honour: Honour


@frozen(kw_only=True)
class Explanation:
    """A whole configuration under one backbone."""

    backbone: str
    keys: tuple[ExplainedKey, ...]
    native: Native | None
    """Without secrets; None for a backbone without a native configuration."""
    settled: tuple[SettledValue, ...] = ()
    """What depends on the machine."""


def explain(loaded: LoadedConfig, table: HonourTable, components: Sequence[Component] = ()) -> Explanation:
    """Explain a configuration under a backbone; `components` settle what depends on the machine."""
    sections = list_chosen_sections(loaded)
    shown = loaded.secrets.hide_in_tree(restore_variables(loaded.resolved, loaded.from_environment, ROOT))
    values = flatten(redact_tree(shown))
    keys = [
        ExplainedKey(
            key=key,
            value=value,
            source=_find_source(loaded, key),
            place=format_place(loaded.locate(f"{ROOT}.{key}")) if key in loaded.user_keys else "",
            honour=table.find_honour(key, sections),
        )
        for key, value in values.items()
    ]
    native = None if table.alignment is None else align(table.alignment, loaded)
    return Explanation(
        backbone=table.backbone,
        keys=tuple(keys),
        native=None if native is None else _redact_native(native, loaded),
        settled=tuple(settle_values(components, make_run_info(loaded, table.backbone, native.tree if native else {}))),
    )


def _find_source(loaded: LoadedConfig, key: str) -> Literal["default", "file", "command"]:
    if key not in loaded.user_keys:
        return "default"
    place = loaded.locate(f"{ROOT}.{key}")
    return "command" if place is not None and place[1] == 0 else "file"


def _redact_native(native: Native, loaded: LoadedConfig) -> Native:
    secrets = loaded.secrets
    tree = redact_tree(secrets.hide_in_tree(native.tree))
    clean: Mapping[str, Any] = flatten(tree)
    values = [evolve(value, value=clean.get(value.key, value.value)) for value in native.values]
    problems = tuple(map(secrets.hide_in_problem, native.problems))
    return evolve(native, tree=tree, values=tuple(values), problems=problems, notices=secrets.hide_in_tree(native.notices))
