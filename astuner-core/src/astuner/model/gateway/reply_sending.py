"""Sending answers to a client: in one piece, or as a stream."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from astuner.model.gateway.recording.choice_events import Answer, Delta, Done
from astuner.model.rendering.errors import ApiError

if TYPE_CHECKING:
    from astuner.model.gateway.recording.turn import Turn
    from astuner.model.gateway.wire_apis import WireApi, Writer
    from astuner.model.http_server.hosts import Send


async def collect_answers(turn: Turn, choices: int) -> list[Answer]:
    """Wait for the answers of a turn, ordered by choice."""
    answers: dict[int, Answer] = {}
    while len(answers) < choices:
        happened = await _wait_for_event(turn)
        if isinstance(happened, Done) and isinstance(happened.result, Answer):
            answers[happened.choice] = happened.result
    return [answers[number] for number in range(choices)]


async def send_stream(turn: Turn, choices: int, writer: Writer, content_type: str, send: Send) -> None:
    """Send the answers of a turn as they come."""
    # Nothing is sent before the first tokens, so that an engine's immediate failure becomes an HTTP status.
    happened = await _wait_for_event(turn)
    headers = [(b"content-type", content_type.encode()), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await _send_part(send, writer.write_opening())
    answers: dict[int, Answer] = {}
    try:
        while True:
            if isinstance(happened, Delta):
                await _send_part(send, writer.write_delta(happened))
            elif isinstance(happened.result, Answer):
                answers[happened.choice] = happened.result
                await _send_part(send, writer.write_done(happened.choice, happened.result))
                if len(answers) == choices:
                    break
            happened = await _wait_for_event(turn)
    except ApiError as error:
        # The status is already sent.
        await _send_part(send, writer.write_failure(error), more=False)
        return
    await _send_part(send, writer.write_closing([answers[number] for number in range(choices)]), more=False)


async def send_reply(send: Send, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """Send a response in one piece."""
    length = (b"content-length", str(len(body)).encode())
    await send(
        {"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json"), length, *headers]}
    )
    await _send_part(send, body, more=False)


async def send_refusal(send: Send, api: WireApi, error: ApiError) -> None:
    """Send an error in the shape of an API."""
    await send_reply(send, error.status, json.dumps(api.format_error(error)).encode(), error.headers)


async def _wait_for_event(turn: Turn) -> Delta | Done:
    """Wait for the next event; raises ConnectionAbortedError if the client is gone, or a choice's failure."""
    happened = await turn.wait()
    if happened is None:
        raise ConnectionAbortedError
    if isinstance(happened, Done) and isinstance(happened.result, Exception):
        raise happened.result
    return happened


async def _send_part(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})
