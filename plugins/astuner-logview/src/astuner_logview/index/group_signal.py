"""Advantages by the rewards of siblings, and what of the trained tokens has a signal."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, define, field, frozen

from astuner.contract.errors import AstunerError
from astuner.contract.protocols import Estimator
from astuner.episodes.judging.advantages import RewardedAgent, estimate_advantages, is_group_relative
from astuner.episodes.judging.estimators import (
    DrGrpo,
    Grpo,
    ReinforcePlusPlus,
    ReinforcePlusPlusBaseline,
    ReinforcePlusPlusEpisode,
    Rloo,
)
from astuner.runs.inspection import Run

ESTIMATORS: Mapping[str, type] = {
    "grpo": Grpo,
    "dr_grpo": DrGrpo,
    "rloo": Rloo,
    "reinforce_plus_plus": ReinforcePlusPlus,
    "reinforce_plus_plus_baseline": ReinforcePlusPlusBaseline,
    "reinforce_plus_plus_episode": ReinforcePlusPlusEpisode,
}
"""Those of core. Others are code of third parties, which a viewer does not run."""

Group = tuple[int, int, str]
"""A split, a step and a task."""


@frozen
class Scoring:
    """What the run's configuration says about advantages."""

    estimator: str = "grpo"
    norm_by_std: bool = True
    by_agent: bool = True

    def make_estimator(self) -> Estimator | None:
        """Return the estimator; None if it is not one of core's."""
        kind = ESTIMATORS.get(self.estimator)
        if kind is None:
            return None
        made: Estimator = Grpo(self.norm_by_std) if kind is Grpo else kind()
        return made


_known: dict[Path, tuple[int, Scoring]] = {}


def read_scoring(run: Path) -> Scoring:
    """Return the settings of a run; the defaults for a run whose configuration is lost."""
    try:
        changed = (run / "config.yaml").stat().st_mtime_ns
    except OSError:
        return Scoring()
    if run not in _known or _known[run][0] != changed:
        _known[run] = changed, _read_scoring(run)
    return _known[run][1]


def _read_scoring(run: Path) -> Scoring:
    try:
        algorithm = Run(run, lambda _: None).config.get("trainer_common", {}).get("algorithm", {})
        return Scoring(
            estimator=str(algorithm.get("adv_estimator", "grpo")),
            norm_by_std=bool(algorithm.get("norm_adv_by_std_in_grpo", True)),
            by_agent=bool(algorithm.get("norm_adv_by_agent", True)),
        )
    except (AstunerError, AttributeError, OSError):
        return Scoring()


@define(eq=False)
class SignalWriter:
    """Fills the columns that depend on siblings: `advantage`, `advantages`, `signal` and `lost`."""

    connection: sqlite3.Connection
    dirty: set[Group] = field(factory=set)
    """Groups with an episode or a verdict that is new."""
    _scoring: Scoring = field(factory=Scoring)

    def take_scoring(self, scoring: Scoring) -> bool:
        """Use these settings; return whether everything had to be computed again."""
        self._scoring, text = scoring, json.dumps(asdict(scoring))
        known = self.connection.execute("SELECT value FROM settings WHERE name='scoring'").fetchone()
        if known is not None and known[0] == text:
            return False
        run = self.connection.execute
        run("BEGIN IMMEDIATE")
        self.dirty.update(run("SELECT DISTINCT split, step, task FROM episodes").fetchall())
        self.write_dirty()
        run("INSERT OR REPLACE INTO settings VALUES('scoring', ?)", (text,))
        run("COMMIT")
        return True

    def write_dirty(self) -> None:
        """Compute the columns of the groups that have changed; of their whole steps, if all episodes of a step are compared."""
        estimator = self._scoring.make_estimator()
        if estimator is not None and not is_group_relative(estimator):
            for split, step in {group[:2] for group in self.dirty}:
                self._write(estimator, self._read("split=? AND step=?", (split, step)))
        else:
            for group in self.dirty:
                self._write(estimator, self._read("split=? AND step=? AND task=?", group))
        self.dirty.clear()

    def _read(self, where: str, values: Sequence[Any]) -> list[sqlite3.Row]:
        cursor = self.connection.cursor()
        cursor.row_factory = sqlite3.Row
        return cursor.execute(f"SELECT * FROM episodes WHERE {where} ORDER BY split, step, task, repeat", values).fetchall()

    def _write(self, estimator: Estimator | None, rows: Sequence[sqlite3.Row]) -> None:
        groups: dict[str, list[sqlite3.Row]] = {}
        for row in (row for row in rows if row["repeat"] >= 0):
            groups.setdefault(row["task"], []).append(row)
        trains = bool(rows) and rows[0]["split"] == 0
        compared = [one for group in groups.values() for one in list_compared(group, by_agent=self._scoring.by_agent)]
        found: dict[tuple[str, str], Any] = estimate_advantages(compared, estimator) if estimator and trains else {}
        changes = []
        for row in rows:
            owners = json.loads(row["owners"])["sampled"]
            values = {agent: found[row["id"], agent] for agent in owners if (row["id"], agent) in found}
            advantages = {agent: value if isinstance(value, float) else float(value.mean()) for agent, value in values.items()}
            signal = sum(owners[agent] for agent, value in advantages.items() if value)
            tokens = sum(owners[agent] for agent in advantages)
            mean = sum(value * owners[agent] for agent, value in advantages.items()) / tokens if tokens else None
            lost = list_losses(row, signal if trains and estimator else None)
            changes.append((mean, json.dumps(advantages), signal, json.dumps(lost), row["rowid"]))
        self.connection.executemany("UPDATE episodes SET advantage=?, advantages=?, signal=?, lost=? WHERE rowid=?", changes)


def list_losses(row: sqlite3.Row, signal: int | None) -> list[str]:
    """Return why sampled tokens of an episode do not change the weights; `signal` are those that do, None if it is not known."""
    lost = list(json.loads(row["untrained"]))
    if row["retried"]:
        lost.append("retried")
    if row["trained"] and row["reward"] is None:
        lost.append(find_unrewarded_reason(row))
    elif row["trained"] and signal is not None and signal < row["trained"]:
        lost.append("no_signal")
    return list(dict.fromkeys(lost))


def find_unrewarded_reason(row: sqlite3.Row) -> str:
    """Return why an episode has no reward, as the account of the signal names it."""
    return row["judge_reason"] or ("no verdict" if row["completed"] else "failed")


UNREWARDED_REASON = "coalesce(judge_reason, CASE completed WHEN 1 THEN 'no verdict' ELSE 'failed' END)"
"""The same in SQL."""


def list_compared(group: Sequence[sqlite3.Row], *, by_agent: bool) -> list[list[RewardedAgent]]:
    """Return the lists whose members are compared with each other, as `astuner.episodes.judging.advantages` makes them."""
    owners = [json.loads(row["owners"]) for row in group]
    everyone = list(dict.fromkeys(agent for one in owners for agent in one["sampled"]))
    found: dict[str, list[RewardedAgent]] = {}
    for row, own in zip(group, owners, strict=True):
        rewards = json.loads(row["rewards"] or "{}")
        for agent in list(own["sampled"]) or own["asked"] or everyone:
            entries = found.setdefault(agent if by_agent else "", [])
            reward = None if row["reward"] is None else float(rewards.get(agent, row["reward"]))
            if reward is not None:
                owner = (row["id"], agent)
                entries.append(RewardedAgent(owner=owner, reward=reward, tokens=own["sampled"].get(agent, 0)))
    return list(found.values())
