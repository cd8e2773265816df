"""Passes Trinity's measurements to core's loggers, a line per step and role, and to Trinity's own monitors."""

from __future__ import annotations

import json
import math
import time
from numbers import Real
from pathlib import Path
from typing import Any

from trinity.utils.monitor import MONITOR, Monitor

from astuner_trinity.layout import record_of
from astuner_trinity.trainer.padding import provide_padding


class FanOut(Monitor):
    """Writes a file per stage and role, which the driver reads.

    `monitor_args.also` names Trinity's monitors with their arguments.
    """

    def __init__(self, project: str, group: str, name: str, role: str, config: Any = None) -> None:
        """Open the file of a role."""
        from copy import deepcopy

        if role == config.trainer.name:
            # Trinity converts the padding of rows in this process, and whatever the algorithm, it loads this part of ours.
            provide_padding()
        else:
            from astuner_trinity.explorer.guarded_model import guard_engines

            guard_engines()
        self._others: list[Any] = []
        arguments = config.monitor.monitor_args or {}
        path = record_of(Path(arguments["records"]), name, role)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")
        for other, own in (arguments.get("also") or {}).items():
            kind, its = MONITOR.get(other), deepcopy(config)
            its.monitor.monitor_args = {**kind.default_args(), **(own or {})}
            self._others.append(kind(project=project, group=group, name=name, role=role, config=its))

    def log(self, data: dict[str, Any], step: int, commit: bool = False) -> None:
        """Write the numbers of a step."""
        numbers = {key: float(value) for key, value in data.items() if isinstance(value, Real) and math.isfinite(value)}
        self._file.write(json.dumps({"step": step, "at": time.time(), "metrics": numbers}) + "\n")
        self._file.flush()
        for other in self._others:
            other.log(data, step, commit)

    def log_table(self, table_name: str, experiences_table: Any, step: int) -> None:
        """Pass a table on."""
        for other in self._others:
            other.log_table(table_name, experiences_table, step)

    def close(self) -> None:
        """Close everything."""
        if (file := getattr(self, "_file", None)) is not None:
            file.close()
        for other in getattr(self, "_others", ()):
            other.close()

    @classmethod
    def default_args(cls) -> dict[str, Any]:
        """Return the arguments: those of the configuration are needed."""
        return {}
