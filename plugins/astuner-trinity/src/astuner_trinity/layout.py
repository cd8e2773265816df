"""Paths in the run directory. Trinity's processes derive them from the file that its configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen


@frozen
class Layout:
    """The paths of one run."""

    run: Path

    @classmethod
    def of_plan(cls, plan: str | Path) -> Layout:
        """Return the layout that a plan's file belongs to."""
        return cls(Path(plan).parent.parent)

    @property
    def home(self) -> Path:
        """Files shared by the driver and Trinity's processes, and Trinity's own directories."""
        return self.run / "trinity"

    @property
    def config(self) -> Path:
        """Trinity's configuration as it was started; `trinity run --config` takes it."""
        return self.run / "trinity.yaml"

    @property
    def plan(self) -> Path:
        """For planning the run again in a process."""
        return self.home / "plan.json"

    @property
    def stop(self) -> Path:
        """Exists once the run must stop: no more episodes are played, and the trained weights are saved."""
        return self.home / "stop"

    @property
    def trained(self) -> Path:
        """Exists once the trainer has made its last step: only the final validation remains."""
        return self.home / "trained"

    def clear_signs(self) -> None:
        """Remove `stop` and `trained`."""
        self.stop.unlink(missing_ok=True)
        self.trained.unlink(missing_ok=True)

    @property
    def played(self) -> Path:
        """Finished episodes, one file per playing process."""
        return self.home / "played"

    @property
    def token_parts(self) -> Path:
        """What the trainer computed of trained tokens, a directory per stage, until the driver has taken it."""
        return self.home / "token_parts"

    @property
    def records(self) -> Path:
        """Trinity's measurements, one file per role."""
        return self.home / "records"

    @property
    def log(self) -> Path:
        """The output of all processes."""
        return self.run / "logs" / "trinity.log"

    def make_private(self) -> None:
        """Make the configuration, which may contain a key, and the log, which shows it, readable only by their owner."""
        for path in (self.config, self.log):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.chmod(0o600)

    def job_directory(self, native: Mapping[str, Any], stage: str = "") -> Path:
        """Return Trinity's own directory of an experiment, or of a stage of it: checkpoints, logs, buffers."""
        return self.home.joinpath(*(part for part in (native["project"], native.get("group", ""), native["name"], stage) if part))


def record_of(records: Path, stage: str, role: str) -> Path:
    """Return the file of a role's measurements in a stage."""
    return records / f"{stage.replace('/', '_')}.{role}.jsonl"
