from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner.contract.protocols import LoggerTraits, RunInfo
from astuner.contract.schema import Group
from astuner.episodes.builtin.loggers.jsonl_logger import JsonlLogger
from astuner_devkit.contracts import Contract, LoggerContract, leftovers, list_rules, run_contract


class TestConsoleLogger(LoggerContract):
    component = "astuner.episodes.builtin.loggers.console_logger:ConsoleLogger"


class TestJsonlLogger(LoggerContract):
    component = JsonlLogger


class Lines:
    """A good logger, but for what those below change."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("a")

    @classmethod
    def from_run(cls, options: None, run_info: RunInfo) -> Any:
        return cls(run_info.directory / "lines.txt")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        print(step, dict(metrics), file=self.file)

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        print(step, [episode.reward for group in groups for episode in group.episodes], file=self.file)

    def close(self) -> None:
        self.file.close()


class WithoutEpisodes(Lines):
    log_episodes = None  # type: ignore[assignment]


class EpisodesByName(Lines):
    log_episodes = "lines.txt"  # type: ignore[assignment]


class NoClose:
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        pass

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        pass


class OddProgress(Lines):
    traits = LoggerTraits(shows_progress=True)

    def progress(self, done: int) -> None:
        pass


class NeedsTheReward(Lines):
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        super().log(step, {"reward": metrics["reward/mean"]})


class AFilePerMetric(Lines):
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        assert all("@" not in name for name in metrics), "a file name has no @"


class StrictJson(Lines):
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        print(json.dumps(dict(metrics), allow_nan=False), file=self.file)


class OnlyRewarded(Lines):
    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        super().log(step, {"sum": sum(episode.reward for group in groups for episode in group.episodes)})  # type: ignore[misc]


class OnlySomeEpisodes(Lines):
    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        print(groups[0].key, file=self.file)


class AddsTheStep(Lines):
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        metrics["step"] = step  # type: ignore[index]


class RedactsInPlace(Lines):
    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        for message in groups[0].episodes[0].calls[0].messages:
            message["content"] = "…"  # type: ignore[index]


class NeverFlushes(Lines):
    def close(self) -> None:
        pass


class ClosesOnce(Lines):
    def close(self) -> None:
        self.file.flush()
        self.file = self.file.close()  # type: ignore[assignment]


class Uploads(Lines):
    """Leaves its thread to itself."""

    ends: ClassVar[list[threading.Event]] = []

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.ends.append(threading.Event())
        threading.Thread(target=self.ends[-1].wait, name="uploads", daemon=True).start()


class Forks(Lines):
    """Leaves its process to itself."""

    children: ClassVar[list[subprocess.Popen[bytes]]] = []

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.children.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))


class StartsAfresh(Lines):
    @classmethod
    def from_run(cls, options: None, run_info: RunInfo) -> Any:
        path = run_info.directory / "lines.txt"
        path.touch(exist_ok=False)
        return cls(path)


class CannotTruncate(Lines):
    traits = LoggerTraits(truncates=True)

    def truncate_after(self, step: int) -> None:
        self.file.truncate(step)


BAD = [
    ("test_it_is_a_logger", WithoutEpisodes, "has no method `log_episodes`: write `def log_episodes(self, step, groups)`"),
    ("test_it_is_a_logger", EpisodesByName, "`log_episodes` is 'lines.txt', which cannot be called: write `def log_episodes("),
    ("test_it_is_a_logger", NoClose, "has no method `close`: write `def close(self)`. It flushes and ends."),
    ("test_it_is_a_logger", OddProgress, "core calls progress(what, done, total), but its signature differs"),
    (
        "test_it_takes_the_metrics_of_every_step",
        NeedsTheReward,
        "log raised KeyError: 'reward/mean': given (0, {'val",
    ),
    ("test_it_takes_the_metrics_of_every_step", AFilePerMetric, "log raised AssertionError: a file name has no @"),
    ("test_it_takes_numbers_that_are_not_finite", StrictJson, "log raised ValueError"),
    ("test_it_takes_every_kind_of_episode", OnlyRewarded, "log_episodes raised TypeError: unsupported operand"),
    ("test_it_takes_every_kind_of_episode", OnlySomeEpisodes, "log_episodes raised IndexError"),
    ("test_what_it_is_given_stays_as_it_is", AddsTheStep, "changed what it was given: metrics['step']: nothing became 1"),
    (
        "test_what_it_is_given_stays_as_it_is",
        RedactsInPlace,
        "groups[0].episodes[0].calls[0].messages[0]['content']: 'π?' became '…'",
    ),
    ("test_closing_flushes", NeverFlushes, "wrote run/lines.txt after `close`: flush and close its files there"),
    ("test_closing_twice_is_harmless", ClosesOnce, "close, the second time raised AttributeError"),
    ("test_nothing_is_left_running", Uploads, "left running after `close`: thread 'uploads'. End and join them there"),
    ("test_nothing_is_left_running", Forks, "left running after `close`: process "),
    ("test_a_resumed_run_goes_on", StartsAfresh, "FileExistsError"),
    ("test_a_resumed_run_goes_on", CannotTruncate, "truncate_after(-1) raised OSError"),
]


@pytest.fixture(autouse=True)
def _nothing_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # What the bad ones leave running stays until it is ended here: there is nothing to wait for.
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.2)
    yield
    for end in Uploads.ends:
        end.set()
    for child in Forks.children:
        child.communicate(b"\n", timeout=60)
    Uploads.ends.clear()
    Forks.children.clear()


def contract_of(logger: type) -> type[LoggerContract]:
    return type("Bad", (LoggerContract,), {"component": logger})


@pytest.mark.filterwarnings("ignore:unclosed file")
@pytest.mark.parametrize(("rule", "logger", "words"), BAD)
def test_a_bad_logger_breaks_its_rule(rule: str, logger: type, words: str) -> None:
    outcome = next(outcome for outcome in run_contract(contract_of(logger)) if outcome.rule == rule)
    assert (outcome.status, words in outcome.message) == ("failed", True), outcome


def test_each_rule_has_a_bad_logger() -> None:
    assert {rule for rule, _, _ in BAD} == set(list_rules(LoggerContract)) - set(list_rules(Contract))


def test_a_good_logger_keeps_all_rules() -> None:
    assert {"passed"} == {outcome.status for outcome in run_contract(contract_of(Lines))}
