"""The messages between the driver and a worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import frozen

from astuner.contract.protocols import RunInfo
from astuner.contract.schema import Capabilities, Chunk, Episode, Request, Task, Unjudged, Verdict
from astuner.episodes.rollout.runner import Round
from astuner.shared.clients.llm_budget import Limits
from astuner_rollout_workers.portable_error import PortableError

# From the driver.


@frozen(kw_only=True)
class Setup:
    """Everything a worker needs before its first group."""

    plan: Mapping[str, Any]
    """How to plan the run again; see `astuner.settings.planning.replan.describe_plan`."""
    run_info: RunInfo
    """The run with this worker's share of the episodes."""
    model: str
    """Where the tokenizer is loaded from."""
    capabilities: Capabilities
    """Of the driver's engine."""
    path: Sequence[str]
    """Where modules are imported from, before the worker's own entries of `sys.path`."""


@frozen(kw_only=True)
class ShareEngine:
    """What opens an engine of the worker's own; until there is one, the driver's is asked."""

    access: Any
    """An `EngineAccess`; None if the driver's engine has none."""


@frozen(kw_only=True)
class PlayGroup:
    """Play and judge a group."""

    number: int
    """Identifies this attempt to play the group."""
    task: Task
    round: Round
    known: Sequence[Episode]
    """Its finished episodes, with their verdicts where they have one."""


@frozen(kw_only=True)
class CancelGroup:
    """Stop playing a group; it is answered with `GroupStopped`."""

    number: int


@frozen(kw_only=True)
class ShutDown:
    """Close everything, and end."""


@frozen(kw_only=True)
class Tokens:
    """A chunk of an answer, or its end."""

    call: int
    chunk: Chunk | None
    """None ends the answer."""


@frozen(kw_only=True)
class CallResult:
    """The result of a call that answers at once."""

    call: int
    value: Any


@frozen(kw_only=True)
class CallFailed:
    """The driver's engine, or the budget, refused a call."""

    call: int
    error: PortableError


# From a worker.


@frozen(kw_only=True)
class Ready:
    """It takes groups."""


@frozen(kw_only=True)
class CannotStart:
    """The reason why it takes none."""

    error: PortableError


@frozen(kw_only=True)
class Notice:
    """A message for the user."""

    text: str
    level: Literal["info", "warning"]


@frozen(kw_only=True)
class EpisodePlayed:
    """A finished episode, before it is judged."""

    number: int
    episode: bytes
    """Pickled."""
    line: bytes
    """As the store writes it; see `astuner.runs.store.codec.encode_episode`."""


@frozen(kw_only=True)
class GroupJudged:
    """A complete group."""

    number: int
    verdicts: Mapping[str, Verdict | Unjudged]
    """By episode."""
    fresh: bool
    """Whether they have to be stored."""
    busy_s: float | None
    """For how long the worker's own engine worked so far; None without one, or if it does not measure that."""


@frozen(kw_only=True)
class GroupStopped:
    """A group that was cancelled, or could not be played."""

    number: int
    error: PortableError | None
    """None if it was cancelled."""


@frozen(kw_only=True)
class Generate:
    """Ask the driver's engine for tokens."""

    call: int
    request: Request


@frozen(kw_only=True)
class Chat:
    """Ask the driver's engine for a chat answer."""

    call: int
    body: Mapping[str, Any]


@frozen(kw_only=True)
class Acquire:
    """Reserve what a request to an LLM may cost."""

    call: int
    budget: int
    """The workers make the same budgets in the same order."""
    limits: Limits
    text: str
    max_tokens: int


@frozen(kw_only=True)
class Settle:
    """Replace a reservation by what the request has cost."""

    call: int
    """That reserved it."""
    prompt_tokens: int
    completion_tokens: int
    requests: int


@frozen(kw_only=True)
class AbandonCall:
    """The caller no longer waits for this call."""

    call: int


@frozen(kw_only=True)
class Release:
    """Release a session of the driver's engine."""

    session: str
