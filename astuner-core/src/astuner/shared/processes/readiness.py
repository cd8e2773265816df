"""Waiting until a program is up, by the signs that a configuration names."""

from __future__ import annotations

import asyncio
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from astuner.contract.errors import AstunerError
from astuner.shared.processes.log_lines import select_telling_lines
from astuner.shared.processes.ports import accepts

if TYPE_CHECKING:
    from astuner.settings.config.model import Ready
    from astuner.shared.processes.program_handle import ProgramHandle

LOOK_S, LOOK_LESS_S = 0.1, 1.0
"""Polling starts fast and slows down: each poll reads the log, which grows long in a program that starts slowly."""
REPORT_S = 5.0
TAIL_BYTES, LINES = 2**16, 20
"""How much of a log is read for an error message, and how many of its lines are shown."""
ANSWER_S = 2.0


async def wait_until_ready(launched: ProgramHandle, signs: Ready, timeout_s: float, progress: Callable[[str], None]) -> None:
    """Wait until every sign is there; raises `AstunerError` with the last log lines if the program ends or time runs out."""
    began = reported = time.monotonic()
    while True:
        lacking = await asyncio.to_thread(find_missing_sign, signs, launched)
        # Checked after the signs: an answering port may belong to another program, and this one failed because of it.
        if (status := launched.poll()) is not None:
            raise AstunerError(
                f"{launched.record.what} ended before it was ready (exit status {status}){describe_last_lines(launched)}"
            )
        if lacking is None:
            return
        waited_s = time.monotonic() - began
        if waited_s > timeout_s:
            raise AstunerError(
                f"{launched.record.what} was not ready after {timeout_s:g} s: {lacking}{describe_last_lines(launched)}"
            )
        if time.monotonic() - reported >= REPORT_S:
            reported = time.monotonic()
            progress(f"{launched.record.what}: starting, {waited_s:.0f} of at most {timeout_s:g} s")
        await asyncio.sleep(min(LOOK_LESS_S, LOOK_S + waited_s / 50))


def find_missing_sign(signs: Ready, launched: ProgramHandle | None) -> str | None:
    """Describe the first missing sign; None if there is none. Without a program its log is not checked."""
    if signs.port is not None and not accepts(signs.port):
        return f"port {signs.port} accepts no connection"
    if signs.url is not None and (reason := _find_refusal(signs.url)) is not None:
        return f"{signs.url} {reason}"
    if signs.log is not None and launched is not None and not re.search(signs.log, launched.read_output(), re.MULTILINE):
        return f"no line of its output matches {signs.log!r}"
    return None


def describe_last_lines(launched: ProgramHandle) -> str:
    """Return the end of an error message: the last lines of the log and its path."""
    lines = select_telling_lines(launched.read_output(TAIL_BYTES), LINES)
    if not lines:
        return f"; it printed nothing to {launched.record.log}"
    return "\n".join([f"; last lines of {launched.record.log}:", *lines])


def _find_refusal(url: str) -> str | None:
    """Return why an address does not count as answering, or None."""
    # Programs on one machine do not need a proxy.
    direct = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if direct else []))
    try:
        with opener.open(url, timeout=ANSWER_S) as answer:
            return None if answer.status < 400 else f"answers {answer.status}"
    except urllib.error.HTTPError as error:
        return f"answers {error.code}"
    except (OSError, ValueError) as error:
        return f"does not answer ({getattr(error, 'reason', None) or error})"
    except HTTPException:
        return "does not answer in HTTP"
