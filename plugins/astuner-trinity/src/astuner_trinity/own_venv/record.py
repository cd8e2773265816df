"""What an environment was made of, written next to it when it was complete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from astuner_trinity.own_venv.request import SetupRequest

FILE = "astuner-setup.json"


@frozen(kw_only=True)
class SetupRecord:
    """What an environment was made of."""

    prefix: str
    """The environment that it was made for."""
    python: str
    """Major and minor version."""
    digest: str
    ours: tuple[str, ...]
    others: tuple[str, ...]
    left_out: tuple[str, ...]
    """Plugins that do not fit."""
    request: SetupRequest

    def write(self, directory: Path) -> None:
        """Write it into an environment."""
        content = {**asdict(self, recurse=False), "request": self.request.as_dict()}
        (directory / FILE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_record(directory: Path) -> SetupRecord | None:
    """Return the record of an environment; None if it is missing, or was never completed."""
    try:
        content: dict[str, Any] = json.loads((directory / FILE).read_text(encoding="utf-8"))
        lists = {name: tuple(content[name]) for name in ("ours", "others", "left_out")}
        return SetupRecord(**{**content, **lists, "request": SetupRequest.from_dict(content["request"])})
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def delete_record(directory: Path) -> None:
    """Mark an environment as incomplete."""
    (directory / FILE).unlink(missing_ok=True)
