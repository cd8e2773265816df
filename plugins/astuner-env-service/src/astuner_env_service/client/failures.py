"""What may go wrong with a request, and when it may be sent again."""

from __future__ import annotations

from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import ge, gt

from astuner.contract.errors import AstunerError, ServiceUnavailable
from astuner.shared.clients import pause_before_retry

Repeat = Literal["undelivered", "lost", "failed"]
"""When a request is sent again: if it certainly had no effect; also if its answer was lost; also if the server failed.

`undelivered` is for what must not happen twice, such as a step.
"""

NOT_NOW = (429, 503)
"""Status codes that mean that the request had no effect."""
LOST = (408, 502, 504)
"""Status codes of a proxy, which does not know what the server did."""
UNAVAILABLE = (401, 403, 502, *NOT_NOW)
"""Status codes that say nothing about an action. One may take too long for a proxy (504), or make a server fail (500)."""
UNKNOWN = (400, 404)
"""Status codes of a server that does not know an instance, or does not accept an action."""

LONGEST_PAUSE_S = 8.0
LONGEST_DETAIL = 500
"""Characters of a server's error that are shown."""


class EnvServiceFailed(AstunerError):
    """The service gave no useful answer; the message names it and the reason."""

    def __init__(
        self, message: str, *, status: int | None = None, again: bool = False, undone: bool = False, wait_s: float = 0.0
    ) -> None:
        """`status` is the answer's, if any; `again` whether the request may be sent again, after `wait_s` at least.

        `undone` means that the request certainly had no effect.
        """
        self.status, self.again, self.undone, self.wait_s = status, again, undone, wait_s
        super().__init__(message)


class EnvServiceLost(EnvServiceFailed, ServiceUnavailable):
    """The server was not there, or does not know the instance any more: nothing that an action causes."""


@frozen(kw_only=True)
class Patience:
    """Time limits and retries of a client."""

    timeout_s: float = field(default=300.0, validator=gt(0))
    """Longest wait for one answer."""
    max_retries: int = field(default=8, validator=ge(0))
    """How often a request is sent again."""
    first_pause_s: float = field(default=0.25, validator=ge(0))
    """Pause before the first retry; it doubles for each further one, up to 8 s, or is what the server asks for."""
    place_timeout_s: float = field(default=300.0, validator=ge(0))
    """How long `create` waits for a server that is not running or is full; this does not count as retries."""

    def compute_pause_s(self, attempt: int, asked_s: float) -> float:
        """Return how long to wait before the retry after the given attempt, which counts from 0."""
        return pause_before_retry(attempt, first_s=self.first_pause_s, longest_s=LONGEST_PAUSE_S, asked_s=asked_s)


def may_repeat_answer(status: int, repeat: Repeat) -> bool:
    """Whether a request that was answered with this status is sent again."""
    if status in NOT_NOW:
        return True
    return (status in LOST and repeat != "undelivered") or (status >= 500 and repeat == "failed")


def may_repeat_error(error: Exception, repeat: Repeat) -> bool:
    """Whether a request that was not answered is sent again. Only a failure to connect proves that it had no effect."""
    import httpx

    return is_undelivered(error) or (isinstance(error, httpx.TransportError) and repeat != "undelivered")


def is_undelivered(error: Exception) -> bool:
    """Whether a request certainly did not reach the server."""
    import httpx

    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


def describe_failure(detail: Any) -> str:
    """Return a server's account of a failure in one line: the last one of a traceback."""
    text = detail if isinstance(detail, str) else repr(detail)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines and "Traceback (most recent" in text else " ".join(lines))[:LONGEST_DETAIL]
