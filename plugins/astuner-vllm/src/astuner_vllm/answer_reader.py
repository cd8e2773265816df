"""Reading one answer of a server as it arrives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from astuner_vllm.failures import BadAnswer, Refused, ServerError, ServerLost, ServerSilent, describe_error
from astuner_vllm.generate_stream import DONE, EventStream, read_reason
from astuner_vllm.silence_watch import SilenceWatch

if TYPE_CHECKING:
    import httpx

DRAIN_S = 5.0
"""Limit for the rest of the body after the end of an answer."""


class AnswerReader:
    """Reads the events of one answer in its own task, so that all that have arrived are handed over together."""

    def __init__(self, http: httpx.AsyncClient, url: str, body: Mapping[str, Any], silence: SilenceWatch) -> None:
        """Send the request at once; `silence` is notified of each part."""
        self._http, self._url, self._body, self._silence = http, url, body, silence
        self._events: list[bytes] = []
        self._failure: Exception | None = None
        self._over = False
        self.finished = False
        """Whether the answer is complete."""
        self._news = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())
        silence.add_waiter(self._give_up)

    async def take(self) -> list[bytes]:
        """Return the events that arrived, at least one; none at the end of the answer. Then raises its error, if any."""
        while not self._events:
            if self._failure is not None:
                raise self._failure
            if self._over:
                return []
            self._news.clear()
            await self._news.wait()
        events, self._events = self._events, []
        return events

    async def close(self) -> None:
        """End the request if it is still running: the server notices the closed connection."""
        self._silence.remove_waiter(self._give_up)
        if self.finished and not self._task.done():
            # Once the body is read to its end, the connection can be reused.
            asyncio.get_running_loop().call_later(DRAIN_S, self._task.cancel)
        elif not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        import httpx

        try:
            await self._read()
        except httpx.HTTPError as error:
            self._failure = ServerLost(f"{self._url}: {describe_error(error)}")
        except Exception as error:  # noqa: BLE001 - it is raised again where the answer is read
            self._failure = error
        finally:
            self._over = True
            self._news.set()

    async def _read(self) -> None:
        async with self._http.stream("POST", "/inference/v1/generate", json=self._body) as response:
            kind = response.headers.get("content-type", "")
            if response.status_code != 200 or not kind.startswith("text/event-stream"):
                raise _build_refusal(self._url, response.status_code, kind, await response.aread())
            events = EventStream(self._url)
            async for data in response.aiter_raw():
                self._silence.note_activity()
                for event in events.feed(data):
                    if event != DONE:
                        self._events.append(event)
                self._news.set()

    def break_off(self, why: ServerLost) -> None:
        """End the answer with an error."""
        self._failure = why
        self._news.set()
        self._task.cancel()

    def _give_up(self) -> None:
        self.break_off(ServerSilent(f"{self._url} has said nothing for {self._silence.limit_s:g} s"))


def _build_refusal(url: str, status: int, kind: str, body: bytes) -> ServerError:
    if status == 200:
        return BadAnswer(f"{url} sent '{kind}' in place of a stream of tokens: {body[:200]!r}")
    try:
        said = read_reason(json.loads(body))
    except (ValueError, RecursionError):
        said = body[:300].decode(errors="replace")
    return Refused(f"{url} answered {status}: {said}"[:600], status)
