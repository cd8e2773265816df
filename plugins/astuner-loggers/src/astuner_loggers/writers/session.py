"""One writer and its orders, in sequence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from astuner_loggers.writers import EpisodeText, Status, TrackedRun, Writer
from astuner_loggers.writers.ledger import Ledger

EPISODES = "episodes"


class Session:
    """Carries out orders; skips what an earlier attempt wrote and the service cannot remove."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._place: Path | None = None
        self._ledger = Ledger(identity={})
        self._written: Mapping[str, int] = {}

    def carry_out(self, order: dict[str, Any]) -> bool:
        """Carry it out; return whether more may follow."""
        do = order.pop("do")
        getattr(self, f"_{do}")(**order)
        return bool(do != "close")

    def _open(
        self,
        *,
        directory: str,
        ledger: str,
        project: str,
        experiment: str,
        where: str,
        settings: Mapping[str, Any],
        parameters: Mapping[str, Any],
        after: int | None,
    ) -> None:
        place, identity = Path(ledger), {"project": project, "experiment": experiment, "where": where}
        self._ledger = Ledger(identity=identity) if after is None else Ledger.read(place, identity)
        resumed = self._ledger.run_id is not None
        run = TrackedRun(
            directory=Path(directory),
            project=project,
            experiment=experiment,
            where=where,
            settings=settings,
            parameters=parameters,
            run_id=self._ledger.run_id,
            # One is left free, for a report that was written just before its record.
            rows=self._ledger.rows + 1 if resumed else 0,
        )
        self._ledger.rows = run.rows
        self._ledger.run_id = self._writer.open(run)
        self._place = place
        if after is not None and self._writer.forget_after(after):
            self._ledger.forget_after(after)
        self._written = dict(self._ledger.last)
        self._ledger.write(place)

    def _log(self, *, step: int, metrics: dict[str, float]) -> None:
        new = {name: value for name, value in metrics.items() if step > self._written.get(name, step - 1)}
        if new:
            self._writer.log(step, new)
            self._note(step, *new)

    def _log_episodes(self, *, step: int, prefix: str, rewards: list[float], shown: list[dict[str, Any]]) -> None:
        name = f"{prefix}{EPISODES}"
        if step > self._written.get(name, step - 1):
            self._writer.log_episodes(step, prefix, rewards, [EpisodeText(**one) for one in shown])
            self._note(step, name)

    def _close(self, *, status: Status) -> None:
        if self._place is not None:
            self._place = None
            self._writer.close(status)

    def _note(self, step: int, *names: str) -> None:
        assert self._place is not None
        self._ledger.note(step, names)
        self._ledger.write(self._place)
