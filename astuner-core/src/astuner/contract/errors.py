"""The errors a user may meet. Each names the place, the value and the remedy."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from attrs import frozen

from astuner.contract.plain_values import read_text


class AstunerError(Exception):
    """Any error that is shown to the user without a traceback."""

    exit_code = 1


ProblemKind = Literal["unknown_key", "missing_path"]
"""What some problems have in common: a key that does not exist, a path that leads to nothing."""


@frozen(kw_only=True)
class Problem:
    """One thing that is wrong with a configuration or an input."""

    message: str
    """What is wrong and what to do, in one or two sentences."""
    key: str | None = None
    """Dotted key path, as in `astuner.rollout.temperature`."""
    file: Path | None = None
    line: int | None = None
    """From 1."""
    suggestion: str | None = None
    """The spelling that was probably meant."""
    kind: ProblemKind | None = None

    def __str__(self) -> str:
        """Format as `file:line: key: message. Did you mean 'x'?`."""
        place = f"{self.file}:{self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        key = f"{self.key}: " if self.key else ""
        hint = f" Did you mean '{self.suggestion}'?" if self.suggestion else ""
        return f"{place}{key}{self.message}{hint}"


class ConfigError(AstunerError):
    """Every problem of a configuration at once."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Hold at least one problem."""
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class UsageError(AstunerError):
    """The command cannot be run as given."""

    exit_code = 2


class SeveralStages(UsageError):
    """A configuration of several stages, where one run is asked for."""

    def __init__(self, path: Path, stages: Sequence[Mapping[str, Any]], places: Mapping[str, tuple[Path, int]]) -> None:
        """`stages` are as in the file, `places` its keys' lines."""
        self.stages, self.places = stages, places
        self.names = [str(stage["name"]) for stage in stages]
        named = ", ".join(f"--set stage={name}" for name in self.names)
        super().__init__(f"{path}: has several stages, and this is about one run: choose one of {named}")


class PluginError(AstunerError):
    """A component could not be found, loaded or made, or it raised; the message names its distribution."""


class DataError(AstunerError):
    """Tasks that cannot be read: names the file, the line and the row."""

    exit_code = 2


class RunFailed(AstunerError):
    """The run failed; the message counts the reasons."""

    resume_command: str | None = None
    """Continues the run, if it is resumable and the command line is known."""

    def __init__(self, message: str, *, resumable: bool = False) -> None:
        """`resumable`: the message says that the run continues with `--resume`."""
        super().__init__(message)
        self.resumable = resumable

    def __str__(self) -> str:
        """Return the message, and below it the command."""
        message = super().__str__()
        return message if self.resume_command is None else f"{message}\nto continue: {self.resume_command}"


class FailureBudgetExceeded(RunFailed):
    """More episodes of a step have no reward than `rollout.failure_budget` allows."""

    def __init__(
        self, message: str, *, split: Literal["train", "validation"], lost: Sequence[str], rejudged: Sequence[str]
    ) -> None:
        """`lost` are the ids of episodes that a resumed run plays again, `rejudged` of those that it judges again."""
        super().__init__(message, resumable=True)
        self.split: Literal["train", "validation"] = split
        self.lost, self.rejudged = tuple(lost), tuple(rejudged)


class ServiceUnavailable(Exception):
    """Raised by a workflow when something that its episode depends on is not available: a database, a sandbox, a search API.

    The episode is played again, up to `rollout.max_retries` times. Do not raise it for what the model's text causes: such
    episodes would be replaced by luckier ones.
    """


class ProgramTimeout(Exception):
    """Raised by a workflow when the program that is its agent takes too long: the episode fails with the reason `timeout`."""


class Interrupted(AstunerError):
    """The user ended the run; its state is saved."""

    exit_code = 130


def describe_error(error: BaseException, *, own_file: str | None = None) -> str:
    """Return an error as `KeyError: 'x' (agent.py:12)`; the place is left out if it is in `own_file`, the caller's."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames and frames[-1].filename != own_file else ""
    return f"{type(error).__name__}: {read_text(error)}{place}"
