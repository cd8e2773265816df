"""Listens: keeps a link `latest` to the newest checkpoint next to the checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

from astuner import hookimpl


class LatestLink:
    @hookimpl
    def astuner_checkpoint_saved(self, path: Path) -> None:
        # Renamed over the old link, so that one of the two always exists.
        new = path.parent / ".latest"
        new.unlink(missing_ok=True)
        new.symlink_to(path.name)
        os.replace(new, path.parent / "latest")
