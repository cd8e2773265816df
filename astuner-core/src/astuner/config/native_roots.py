"""The root sections of the YAML that may hold raw native keys."""

from __future__ import annotations

from importlib.metadata import entry_points

import attrs

from astuner.config.model import Config
from astuner.published import read_published


def list_native_roots() -> tuple[str, ...]:
    """Return the names of the backbones that are published or installed; nothing is imported.

    A name that is also a key of ours (`debug`) is left out: such a section belongs below `astuner`.
    """
    ours = attrs.fields_dict(Config)
    installed = sorted(entry.name for entry in entry_points(group="astuner.backbones"))
    return tuple(dict.fromkeys(name for name in (*read_published().names("backbone"), *installed) if name not in ours))
