"""The contract of loggers: they accept everything a run reports, and leave nothing behind."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve

from astuner.contract.protocols import LoggerTraits, read_traits
from astuner.contract.schema import Failure, Group
from astuner_devkit.contracts.base import Contract, self_contained
from astuner_devkit.contracts.leftovers import find_left_running, list_running
from astuner_devkit.contracts.shape import assert_method, forbid_errors
from astuner_devkit.contracts.snapshot import find_changes, take_snapshot
from astuner_devkit.episodes import episode, group

STEPS: Sequence[tuple[int, Mapping[str, float]]] = (
    (0, {"val/reward/mean": 0.25, "val/pass@k": 0.5, "val/pass@4": 1.0, "val/success/rate": 0.25}),
    (1, {"reward/mean": 0.5, "reward/std": 0.5, "loss/policy": -1e-9, "signal/calls": 64, "signal/lost/judge_error": 1}),
    (2, {}),
    (3, {"reward/mean": np.float64(1), "kl/mean": float(np.float32(0.1)), "workflow/tool calls": 2.0, "reward/größe": 1e30}),
    (3, {"val/reward/mean": 1.0, "val/pass@k": 1.0}),
)
"""What a run reports: a validation before the first step, a step, one without metrics, and a validation after its step."""

NOT_FINITE: Mapping[str, float] = {
    "loss/policy": math.nan,
    "grad/norm": math.inf,
    "kl/mean": -math.inf,
    "reward/mean": 0.5,
}


def make_up_groups() -> list[Group]:
    """Return the groups of a step: completed and rewarded episodes, a failed one, and one that could not be judged."""
    failed = evolve(episode(2), output=None, verdict=None, calls=(), samples=(), failures=(Failure(reason="timeout"),))
    mixed = group(episode(0, 1.0, success=True), episode(1, None), failed)
    agents = group(episode(0, 0.5, task="u", agents=("planner", "coder"), rewards={"planner": 0.25}), episode(1, 0.0, task="u"))
    nothing = group(evolve(failed, repeat=0, id="train/1/w/0"))
    return [mixed, agents, nothing]


class LoggerContract(Contract):
    """Rules for loggers. They write below their run directory; a logger for a service runs in offline mode."""

    kind = "logger"

    @self_contained
    def test_it_is_a_logger(self) -> None:
        """A logger has `log`, `log_episodes` and `close`; the methods that its traits promise fit."""
        target, blame = self.target(), self._blame
        assert_method(target, "log", ["step", "metrics"], blame=blame, doc="It writes the metrics of a step.")
        assert_method(target, "log_episodes", ["step", "groups"], blame=blame, doc="It writes episodes; it may do nothing.")
        assert_method(target, "close", [], blame=blame, doc="It flushes and ends.")
        offered = read_traits(target, LoggerTraits)
        for is_offered, name, takes in (
            (offered.truncates, "truncate_after", ["step"]),
            (offered.shows_progress, "progress", ["what", "done", "total"]),
            (offered.shows_notices, "notice", ["text", "level"]),
            (offered.links_steps, "link_steps", ["url"]),
            (offered.names_viewer, "format_viewer_command", []),
        ):
            if is_offered:
                assert_method(target, name, takes, blame=blame)

    def test_it_takes_the_metrics_of_every_step(self, tmp_path: Path) -> None:
        """Metrics of any name are accepted, including `val/pass@k`, no metrics and several reports of one step."""

        def act(logger: Any) -> None:
            for step, metrics in STEPS:
                self._call("log", logger.log, step, dict(metrics))

        self._with_logger(tmp_path, act)

    def test_it_takes_numbers_that_are_not_finite(self, tmp_path: Path) -> None:
        """NaN and infinity do not raise: a logger that raises is disabled for the rest of the run."""
        self._with_logger(tmp_path, lambda logger: self._call("log", logger.log, 1, dict(NOT_FINITE)))

    def test_it_takes_every_kind_of_episode(self, tmp_path: Path) -> None:
        """Completed, failed and unjudged episodes are taken, those of a validation too, and a step without any."""
        validation = [evolve(g, split="validation") for g in make_up_groups()]

        def act(logger: Any) -> None:
            for step, groups in enumerate((make_up_groups(), validation, [])):
                self._call("log_episodes", logger.log_episodes, step, groups)

        self._with_logger(tmp_path, act)

    def test_what_it_is_given_stays_as_it_is(self, tmp_path: Path) -> None:
        """Metrics and episodes are not changed: other loggers get the same ones."""
        metrics, groups = dict(STEPS[1][1]), make_up_groups()

        def take_snapshots() -> dict[str, Any]:
            return {**take_snapshot(metrics, "metrics"), **take_snapshot(groups, "groups")}

        before = take_snapshots()

        def act(logger: Any) -> None:
            logger.log(1, metrics)
            logger.log_episodes(1, groups)

        self._with_logger(tmp_path, act)
        changed = find_changes(before, take_snapshots())
        assert not changed, f"{self._blame} changed what it was given: {'; '.join(changed[:5])}. Work on a copy"

    def test_closing_flushes(self, tmp_path: Path) -> None:
        """After `close` everything is written: nothing is written later when the logger is deleted."""
        logger = self.make(tmp_path)
        self._write(logger)
        logger.close()
        closed = _files(tmp_path)
        del logger
        gc.collect()
        late = [name for name, content in _files(tmp_path).items() if closed.get(name) != content]
        assert not late, f"{self._blame} wrote {', '.join(late)} after `close`: flush and close its files there"

    def test_closing_twice_is_harmless(self, tmp_path: Path) -> None:
        """`close` may be called again: it then does nothing."""
        logger = self.make(tmp_path)
        self._write(logger)
        self._call("close", logger.close)
        self._call("close, the second time", logger.close)

    def test_nothing_is_left_running(self, tmp_path: Path) -> None:
        """After `close` no thread and no process that the logger started is left: a run must be able to exit."""
        before = list_running()
        logger = self.make(tmp_path)
        self._write(logger)
        logger.close()
        left = find_left_running(before)
        assert not left, f"{self._blame} left running after `close`: {', '.join(left)}. End and join them there"

    def test_a_resumed_run_goes_on(self, tmp_path: Path) -> None:
        """A logger that is made again in the same run directory continues, after `truncate_after(step)` if that is promised."""
        self._with_logger(tmp_path, self._write)
        for step in (-1, 1):

            def act(logger: Any, step: int = step) -> None:
                if read_traits(logger, LoggerTraits).truncates:
                    self._call(f"truncate_after({step})", logger.truncate_after, step)
                self._call(f"log, after a restart at step {step}", logger.log, step + 1, {"reward/mean": 1.0})
                self._call("log_episodes", logger.log_episodes, step + 1, make_up_groups())

            self._with_logger(tmp_path, act)

    def _with_logger(self, directory: Path, act: Callable[[Any], None]) -> None:
        logger = self.make(directory)
        try:
            act(logger)
        finally:
            logger.close()

    def _write(self, logger: Any) -> None:
        for step in (1, 2):
            logger.log(step, {"reward/mean": 0.5, "loss/policy": 0.1})
            logger.log_episodes(step, make_up_groups())

    def _call(self, what: str, method: Callable[..., object], *arguments: Any) -> None:
        given = ", ".join(f"{argument!r:.150}" for argument in arguments)
        remedy = f"given ({given}); a logger that raises is disabled for the rest of the run"
        with forbid_errors(f"{self._blame}: {what}", remedy):
            method(*arguments)


def _files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}
