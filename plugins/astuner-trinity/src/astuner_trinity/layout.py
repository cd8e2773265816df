"""Where things are in the run directory. Trinity's processes find them from the file that its configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen


@frozen
class Layout:
    """The places of one run."""

    run: Path

    @classmethod
    def of_plan(cls, plan: str | Path) -> Layout:
        """Return the layout that a plan's file belongs to."""
        return cls(Path(plan).parent.parent)

    @property
    def home(self) -> Path:
        """What the driver and Trinity's processes share, and Trinity's own directories."""
        return self.run / "trinity"

    @property
    def config(self) -> Path:
        """Trinity's configuration as it was started; `trinity run --config` takes it."""
        return self.run / "trinity.yaml"

    @property
    def plan(self) -> Path:
        """How a process plans the run again."""
        return self.home / "plan.json"

    @property
    def stop(self) -> Path:
        """There once the run is to stop: nothing more is played, and what is trained is saved."""
        return self.home / "stop"

    @property
    def trained(self) -> Path:
        """There once the trainer has made its last step: only the validation after it is left to play."""
        return self.home / "trained"

    def clear_signs(self) -> None:
        """Take `stop` and `trained` away."""
        self.stop.unlink(missing_ok=True)
        self.trained.unlink(missing_ok=True)

    @property
    def played(self) -> Path:
        """What each process that plays episodes has finished, a file each."""
        return self.home / "played"

    @property
    def records(self) -> Path:
        """What Trinity measures, a file for each of its roles."""
        return self.home / "records"

    @property
    def log(self) -> Path:
        """What all processes print."""
        return self.run / "logs" / "trinity.log"

    def make_private(self) -> None:
        """Let none but the owner read the configuration, in which a key may stand, and the log, in which Trinity prints it."""
        for path in (self.config, self.log):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.chmod(0o600)

    def job_directory(self, native: Mapping[str, Any], stage: str = "") -> Path:
        """Return Trinity's own directory of an experiment, or of a stage of it: checkpoints, logs, buffers."""
        return self.home.joinpath(*(part for part in (native["project"], native.get("group", ""), native["name"], stage) if part))


def record_of(records: Path, stage: str, role: str) -> Path:
    """Return the file of what one of Trinity's roles measures in a stage."""
    return records / f"{stage.replace('/', '_')}.{role}.jsonl"
