"""Under which root sections of the YAML raw native keys may stand."""

from __future__ import annotations

from importlib.metadata import entry_points

import attrs

from astuner.config.model import Config
from astuner.published import published


def native_roots() -> tuple[str, ...]:
    """Return the names of the backbones that are published or installed; nothing is imported.

    A name that is a key of ours (`debug`) is none: such a section was meant to stand below `astuner`.
    """
    ours = attrs.fields_dict(Config)
    installed = sorted(entry.name for entry in entry_points(group="astuner.backbones"))
    return tuple(dict.fromkeys(name for name in (*published().names("backbone"), *installed) if name not in ours))
