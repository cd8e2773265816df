"""The configuration that a run was last started with, read by the present schema, which may have other keys."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from attrs import field, frozen

from astuner.runs.store.directory import RunDirectory
from astuner.settings.config.aliases import ROOT_ALIASES, Renaming
from astuner.settings.config.places import ROOT, format_path
from astuner.settings.config.schema_keys import read_core_keys
from astuner.settings.config.sound_parts import structure_sound_parts
from astuner.settings.config.structuring import get_converter
from astuner.settings.config.trees import flatten, get, put


@frozen(kw_only=True)
class StoredConfig:
    """What `config.yaml` of a run says; empty if that start got no further than its lock."""

    tree: Mapping[str, Any] = field(factory=dict)
    """As resolved. A key that did not exist then has its default, or what the version did that had no such key."""
    given: frozenset[str] = frozenset()
    """The keys that YAML and command line set, without the root."""
    gone: Mapping[str, Any] = field(factory=dict)
    """The values of keys that no longer exist, by key without the root."""

    @classmethod
    def read(cls, directory: RunDirectory) -> StoredConfig:
        """Read the configuration of the last start."""
        import yaml

        from astuner.settings.config.yaml_bounds import load_plain_yaml

        if (record := directory.read_config()) is None:
            return cls()
        ours = (stored := record["resolved"]).setdefault(ROOT, {})
        Renaming().apply(ours, {})
        for key, value in read_core_keys().before.items():
            if key not in flatten(ours):
                put(ours, key, value)
        converter = get_converter()
        config, faults = structure_sound_parts(ours, converter)
        given, roots = None, (ROOT, *ROOT_ALIASES)
        # Secrets were taken out of the text, and with them perhaps what made it YAML.
        with suppress(yaml.YAMLError, ValueError, RecursionError):
            given = load_plain_yaml(record.get("given") or "")
        written: Any = next((given[root] for root in roots if isinstance(given, dict) and isinstance(given.get(root), dict)), {})
        Renaming().apply(written, {})
        command = (part.removeprefix("--set=").partition("=") for part in directory.run.get("command", ()))
        return cls(
            tree={**stored, ROOT: _fill(ours, converter.unstructure(config))},
            given=frozenset({*flatten(written), *(key for key, equals, _ in command if equals)}),
            gone={format_path(fault.path): get(ours, format_path(fault.path)) for fault in faults if fault.kind == "unknown_key"},
        )


def _fill(stored: Any, whole: Any) -> Any:
    """Return what is stored, with what only the whole has, and without what it does not have."""
    if isinstance(stored, Mapping | None) and isinstance(whole, Mapping):
        return {key: _fill(stored[key], value) if stored and key in stored else value for key, value in whole.items()}
    if isinstance(stored, list) and isinstance(whole, list) and len(stored) == len(whole):
        return [_fill(*pair) for pair in zip(stored, whole, strict=True)]
    return stored
