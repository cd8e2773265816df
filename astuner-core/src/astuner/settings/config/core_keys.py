"""The keys that core itself acts on, whatever the backbone, or the reasons why not."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from attrs import frozen


@frozen(kw_only=True)
class CoreKeys:
    """Patterns of keys, from `core_keys.toml`, which says what each list is for."""

    honoured: Sequence[str]
    may_change: Sequence[str]
    inapplicable: Mapping[str, str]
    refused: Mapping[str, str]


@cache
def read_core_keys() -> CoreKeys:
    """Return the patterns."""
    return CoreKeys(**tomllib.loads(files("astuner.settings.config").joinpath("core_keys.toml").read_text(encoding="utf-8")))
