"""Decides without answering: it returns None, so core makes the backbone, or raises, which stops the run early."""

from __future__ import annotations

import shutil

from attrs import field, frozen
from attrs.validators import gt

from astuner import hookimpl
from astuner.contract.protocols import RunInfo


class RoomOnDisk:
    @frozen(kw_only=True)
    class Options:
        at_least_gb: float = field(default=1.0, validator=gt(0))
        """Required free space on the disk of the run directory, in 10^9 bytes."""

    def __init__(self, options: Options) -> None:
        self._at_least_gb = options.at_least_gb

    @hookimpl
    def astuner_make_backbone(self, run_info: RunInfo) -> None:
        free_gb = shutil.disk_usage(run_info.directory).free / 1e9
        if free_gb < self._at_least_gb:
            raise OSError(f"{free_gb:.1f} GB are free at {run_info.directory}, {self._at_least_gb:g} are needed")
