"""Embeddings, for agents with a memory: passed on to another server, since the model that answers has none to give."""

from __future__ import annotations

import os

from attrs import frozen

from astuner.model.gateway.admission import FindRecorder, authorise, read_body
from astuner.model.gateway.reply_sending import send_refusal, send_reply
from astuner.model.gateway.route_table import EMBEDDINGS, NotServed
from astuner.model.gateway.wire_apis import CHAT_COMPLETIONS, ApiError
from astuner.model.http_server.hosts import Receive, Scope, Send
from astuner.shared.clients.foreign_answers import LIMITED, describe_cause

TIMEOUT_S = 120.0


@frozen(kw_only=True)
class EmbeddingsServer:
    """Who makes the embeddings."""

    url: str
    """With its version, as in `http://127.0.0.1:8000/v1`."""
    key_env: str | None = None
    """The environment variable that holds its key; None sends none."""


async def pass_embeddings_on(
    server: EmbeddingsServer | None,
    find_recorder: FindRecorder,
    max_body_bytes: int | None,
    scope: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Answer a request as the server does; nothing of it is recorded. Raises NotServed if there is no server."""
    if server is None:
        text = f"POST {EMBEDDINGS} is not served: set gateway.embeddings to the address of a server that makes embeddings. "
        text += "POST /v1/chat/completions is served."
        raise NotServed(text, code="no_embeddings")
    if scope["method"] != "POST":
        raise NotServed(f"{scope['method']} {EMBEDDINGS} is not served; POST is.", ("POST",))
    import httpx

    try:
        recorder, _ = authorise(find_recorder, CHAT_COMPLETIONS.find_key(scope))
        body = await read_body(scope, receive, recorder.find_body_limit(max_body_bytes))
        key = None if server.key_env is None else os.environ.get(server.key_env)
        headers = {"content-type": "application/json"} | ({} if key is None else {"authorization": f"Bearer {key}"})
        try:
            async with httpx.AsyncClient(timeout=TIMEOUT_S, **LIMITED) as client:
                found = await client.post(f"{server.url.rstrip('/')}/embeddings", content=bytes(body), headers=headers)
        except httpx.HTTPError as error:
            raise ApiError(
                503, f"gateway.embeddings, {server.url}, does not answer: {describe_cause(error)}", code="embeddings_lost"
            ) from error
        await send_reply(send, found.status_code, found.content)
    except ApiError as error:
        await send_refusal(send, CHAT_COMPLETIONS, error)
