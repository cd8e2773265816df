"""A remote OpenAI-compatible API as an engine: chat only, so it serves `debug` and evaluation and is never trained."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any

from attrs import field, frozen, validators

from astuner.contract.errors import PluginError
from astuner.contract.plain_values import mend_texts
from astuner.contract.protocols import EngineTraits
from astuner.contract.schema import Capabilities, Chunk, Request
from astuner.model.rendering.errors import ApiError
from astuner.shared.clients.backoff import parse_retry_after, plan_retry
from astuner.shared.clients.foreign_answers import LIMITED, describe_cause, shorten


class OpenAIEngine:
    """Forwards chat requests, with bounded retries and bounded concurrency."""

    traits = EngineTraits(names_own_model=True, reports_lacks=True)

    @frozen(kw_only=True)
    class Options:
        """The API, its model, time limits and retries."""

        base_url: str
        """With its version, as in `http://127.0.0.1:8000/v1`."""
        model: str
        """Its name there."""
        api_key_env: str = "OPENAI_API_KEY"
        """The environment variable that holds the key; without it no key is sent."""
        timeout_s: float = field(default=120.0, validator=validators.gt(0))
        """For one attempt."""
        max_retries: int = field(default=3, validator=validators.ge(0))
        """After 429, 5xx and lost connections. Pauses that the API asks for, up to `timeout_s` in all, are not counted."""
        max_concurrency: int = field(default=16, validator=validators.ge(1))
        """Requests under way at once."""

    first_pause_s = 0.5
    """Before the first retry; each further one waits twice as long."""

    def __init__(self, options: Options) -> None:
        """Keep the options; nothing is sent yet."""
        self._options = options
        self._client: Any = None
        self._places = asyncio.Semaphore(options.max_concurrency)
        self._running = asyncio.Event()
        self._running.set()

    @classmethod
    def lacks(cls, options: Mapping[str, Any]) -> str | None:
        """Return why it cannot be the default engine: only a user knows an address."""
        return None if options else "rollout.openai names no API: set its base_url and model"

    @property
    def capabilities(self) -> Capabilities:
        """Neither ids nor logprobs."""
        return Capabilities(token_ids=False, logprobs=False)

    async def start(self) -> None:
        """Make the HTTP client."""
        import httpx

        key = os.environ.get(self._options.api_key_env)
        self._client = httpx.AsyncClient(
            base_url=self._options.base_url.rstrip("/"),
            event_hooks=LIMITED["event_hooks"],
            headers=LIMITED["headers"] | ({"authorization": f"Bearer {key}"} if key else {}),
            timeout=self._options.timeout_s,
            limits=httpx.Limits(max_connections=self._options.max_concurrency),
        )

    async def chat(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer one request in OpenAI's chat form; raises ApiError for what the API refuses."""
        await self._running.wait()
        async with self._places:
            attempt, left_s = 0, self._options.timeout_s
            while True:
                answer, failure, pause_s = await self._attempt(mend_texts({**body, "model": self._options.model}))
                if failure is None:
                    return answer
                plan = plan_retry(pause_s, attempt, self._options.max_retries, self.first_pause_s, left_s)
                if plan is None:
                    raise failure
                await asyncio.sleep(plan[0])
                attempt, left_s = attempt + plan[1], left_s - plan[0] * (1 - plan[1])

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Refuse: the API has no token ids."""
        raise PluginError(f"engine 'openai': {self._options.base_url} takes no token ids, so it cannot be trained through.")
        yield  # makes this a generator, per the protocol

    async def release(self, session: str) -> None:
        """Nothing to release."""

    async def update_weights(self, ref: Any, version: int) -> None:
        """Refuse: the weights are not ours."""
        raise PluginError("engine 'openai': a remote API takes no weights; use it with the debug backbone.")

    async def pause(self) -> None:
        """Hold new requests back."""
        self._running.clear()

    async def resume(self) -> None:
        """Release them."""
        self._running.set()

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _attempt(self, body: Mapping[str, Any]) -> tuple[Mapping[str, Any], ApiError | None, float | None]:
        """Try once: the answer, or the failure and the pause (s) that a retry needs; None if a retry is pointless."""
        import httpx

        if self._client is None:
            raise PluginError("engine 'openai': it is not started.")
        where = f"{self._options.base_url} ({self._options.model})"
        try:
            response = await self._client.post("/chat/completions", json=body)
        except httpx.HTTPError as error:
            return {}, ApiError(503, f"{where} could not be reached: {describe_cause(error)}", code="engine_error"), 0.0
        if response.status_code == 200:
            try:
                return mend_texts(response.json()), None, None
            except (ValueError, RecursionError):
                return (
                    {},
                    ApiError(503, f"{where} answered with invalid JSON: {shorten(response.text)!r}", code="engine_error"),
                    0.0,
                )
        details = _read_error(response)
        text = f"{where} answered {response.status_code}: {shorten(str(details.get('message') or response.text))}"
        if response.status_code in (401, 403):
            text += f" The key comes from the environment variable {self._options.api_key_env}."
        if response.status_code in (408, 429) or response.status_code >= 500:
            return {}, ApiError(503, text, code="engine_error"), parse_retry_after(response.headers.get("retry-after"))
        status = 503 if response.status_code in (401, 403) else response.status_code
        return (
            {},
            ApiError(status, text, code=details.get("code") or "engine_error", param=details.get("param"), retry=False),
            None,
        )


def _read_error(response: Any) -> Mapping[str, Any]:
    try:
        error = response.json()["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return error if isinstance(error, dict) else {"message": str(error)}
