"""Listens: beside the checkpoints, a link `latest` leads to the newest."""

from __future__ import annotations

import os
from pathlib import Path

from astuner import hookimpl


class LatestLink:
    @hookimpl
    def astuner_checkpoint_saved(self, path: Path) -> None:
        # Renamed over the old link: whoever looks finds either, and never none.
        new = path.parent / ".latest"
        new.unlink(missing_ok=True)
        new.symlink_to(path.name)
        os.replace(new, path.parent / "latest")
