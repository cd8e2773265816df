"""Server-sent events: what is new in a run reaches its pages within a second or two."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from astuner_logview.answers import encode_answer
from astuner_logview.errors import Unanswerable
from astuner_logview.live import Feed, LiveEvent
from astuner_logview.parameters import Parameters
from astuner_logview.server.routes import read_query
from astuner_logview.server.workers import Workers

if TYPE_CHECKING:
    from astuner_logview.library import Library

log = logging.getLogger(__name__)

LOOK_S = 0.5
"""Between two looks at the files of runs."""
LONGEST_LOOK_S = 3.0
"""A run whose files do not change is still asked this often: its process may have ended."""
PING_S = 15.0
MOST_STREAMS = 4
"""For one browser: it has six connections to a server, and its other tabs need some of them for answers."""
RETRY_MS, CROWDED_MS = 1000, 5000
"""When a browser connects again, after a lost connection and after its place was given to another tab."""
FILES = ("metrics.jsonl", "state.json", "run.json", "episodes/train.jsonl", "episodes/validation.jsonl")

Signature = tuple[tuple[int, int], ...]


@define(eq=False)
class _Stream:
    """One page that listens."""

    browser: str
    feed: Feed
    ended: asyncio.Event = field(factory=asyncio.Event)
    changed: asyncio.Event = field(factory=asyncio.Event)


@define(eq=False, kw_only=True)
class Events:
    """Answers pages that listen. However many they are, one task looks at the files."""

    library: Library
    workers: Workers
    _streams: list[_Stream] = field(factory=list, init=False)
    _watching: asyncio.Task[None] | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)

    async def answer(self, request: Request) -> Response:
        """Answer with a stream that lasts until the page or the server ends; raises `Missing` for an unknown run."""
        run = Parameters(values=read_query(request)).find_text("run") or None
        last = request.headers.get("last-event-id") or None
        feed = await self.workers.call(lambda: Feed(library=self.library, run=run, last_id=last))
        stream = _Stream(request.headers.get("cookie", ""), feed)
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        if request.method == "HEAD":
            return Response(headers=headers)
        return StreamingResponse(self._send(stream), headers=headers)

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        if self._watching is not None:
            self._watching.cancel()
        for stream in self._streams:
            stream.ended.set()
            stream.changed.set()

    async def _send(self, stream: _Stream) -> AsyncIterator[bytes]:
        self._add(stream)
        try:
            yield b"retry: %d\n\n" % RETRY_MS
            sent_at = time.monotonic()
            while not self._closed and not stream.ended.is_set():
                stream.changed.clear()
                news = await self._poll(stream)
                if news:
                    yield b"".join(map(format_event, news))
                elif time.monotonic() - sent_at > PING_S:
                    yield b": ping\n\n"
                else:
                    await _wait(stream.changed, LONGEST_LOOK_S)
                    continue
                sent_at = time.monotonic()
            if stream.ended.is_set():
                yield b"retry: %d\n\n" % CROWDED_MS
        finally:
            if stream in self._streams:
                self._streams.remove(stream)

    async def _poll(self, stream: _Stream) -> Sequence[LiveEvent]:
        try:
            return await self.workers.call(stream.feed.poll)
        except Unanswerable:
            # The run is gone: the page connects again, and gets 404.
            stream.ended.set()
        except Exception:
            log.exception("the viewer failed to look for news")
            stream.ended.set()
        return []

    def _add(self, stream: _Stream) -> None:
        own = [one for one in self._streams if one.browser == stream.browser]
        for crowded in own[: max(0, len(own) - MOST_STREAMS + 1)]:
            crowded.ended.set()
            crowded.changed.set()
            self._streams.remove(crowded)
        self._streams.append(stream)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Wake the streams whose runs have changed, as long as there are any."""
        known: dict[Path, Signature] = {}
        while self._streams:
            found = await self.workers.call(self._sign_runs)
            changed = {run for run, (path, signature) in found.items() if known.get(path) != signature}
            known = dict(found.values())
            for stream in self._streams:
                if stream.feed.run in changed or (changed and stream.feed.run is None):
                    stream.changed.set()
            await asyncio.sleep(LOOK_S)

    def _sign_runs(self) -> dict[str, tuple[Path, Signature]]:
        """Return the sizes and times of what changes in each run that somebody listens to, by the run's id."""
        wanted = {stream.feed.run for stream in list(self._streams)}
        runs = [run for run in self.library.list_runs() if None in wanted or run.id in wanted]
        return {run.id: (run.path, sign_run(run.path, run.index.path)) for run in runs}


def sign_run(run: Path, index: Path) -> Signature:
    """Return the sizes and times of the files of a run and of its index."""
    return tuple(map(_sign, [*(run / name for name in FILES), index, index.with_name(f"{index.name}-wal")]))


def format_event(event: LiveEvent) -> bytes:
    """Return an event as it is sent."""
    identity = f"id: {event.id}\n" if event.id else ""
    return f"{identity}event: {event.name}\ndata: ".encode() + encode_answer(dict(event.data)) + b"\n\n"


def _sign(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return found.st_mtime_ns, found.st_size


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
