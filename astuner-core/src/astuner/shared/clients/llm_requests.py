"""One request to an OpenAI-compatible API with patience: keys in turn, retries, and an account of what it took."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from attrs import define, field, frozen
from attrs.validators import ge, gt

from astuner.contract.errors import AstunerError
from astuner.shared.clients.backoff import parse_retry_after, plan_retry
from astuner.shared.clients.foreign_answers import LIMITED, describe_cause, shorten
from astuner.shared.clients.llm_budget import Usage
from astuner.shared.clients.llm_endpoint import Endpoint
from astuner.shared.install_hints import install_command

_REFUSED = (401, 403)
_BAD_CONTENT = (400, 413, 422)
"""Of a filter that refuses a question, and of one that is too long."""


class LLMFailed(AstunerError):
    """The LLM gave no answer; says which one, and why."""


class ContentFailure(LLMFailed):
    """A failure that the texts of a question can cause: it was refused, or its answer is cut off or not what was asked for."""


@frozen(kw_only=True)
class Patience:
    """Time limits and retries of a client."""

    concurrency: int = field(default=16, validator=ge(1))
    """Requests under way at once."""
    max_retries: int = field(default=4, validator=ge(0))
    """After 408, 409, 429, 5xx and lost connections. A refused key, or a wait that the API asks for, is none."""
    first_pause_s: float = field(default=0.5, validator=ge(0))
    """Before the first retry; each further one waits twice as long, or as long as the API asks for."""
    timeout_s: float = field(default=180.0, validator=gt(0))
    """For one question with all its retries, without the wait for a place."""


@define(kw_only=True)
class Taken:
    """What a question took so far, over all its retries."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    untold: int = 0
    """Requests that may have been answered, but whose usage the API has not reported."""

    def add(self, usage: Any) -> None:
        """Count the usage that came with an answer."""
        prompt, completion = (getattr(usage, name, None) or 0 for name in ("prompt_tokens", "completion_tokens"))
        self.untold -= bool(prompt or completion)
        self.prompt_tokens += prompt
        self.completion_tokens += completion

    def tokens(self, most: Usage) -> tuple[int, int]:
        """Return the tokens of prompts and answers; what the API did not report counts at its maximum."""
        return (
            self.prompt_tokens + self.untold * most.prompt_tokens,
            self.completion_tokens + self.untold * most.completion_tokens,
        )


class _Keys:
    """The keys of one question: each is tried before any pause, and a refused one is not tried again."""

    def __init__(self, endpoint: Endpoint, request: int) -> None:
        self._in_turn = endpoint.iterate_keys(request)
        self._all = {*endpoint.keys, *endpoint.backup}
        self._refused: set[str] = set()
        self._tried: set[str] = set()

    def take(self) -> str:
        """Return the next key; there must be one left."""
        key = next(key for key in self._in_turn if key not in self._refused | self._tried)
        self._tried.add(key)
        return key

    @property
    def has_another(self) -> bool:
        """Whether a key is left that was not tried since the last pause."""
        return not self._all <= self._refused | self._tried

    def refuse(self, key: str) -> None:
        """Leave a key out from now on."""
        self._refused.add(key)

    def rest(self) -> None:
        """Allow those that were not refused again."""
        self._tried.clear()


class Sender:
    """Sends requests to one API from any event loop; no connection stays open between them."""

    def __init__(self, endpoint: Endpoint, patience: Patience, what: str) -> None:
        """`what` begins the messages of failures, as in `LLM 'big'`."""
        self._endpoint, self._patience = endpoint, patience
        self.where = f"{what} at {_without_password(endpoint.base_url)}"
        self._requests = itertools.count()
        self._in_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _InLoop] = WeakKeyDictionary()

    @property
    def slots(self) -> asyncio.Semaphore:
        """The places of the running loop: a request holds one."""
        return self._place().slots

    async def send(self, call: Callable[[Any], Awaitable[Any]], taken: Taken) -> Any:
        """Return what `call` gets of an SDK's client; raises `LLMFailed`, also after the time limit."""
        try:
            async with asyncio.timeout(self._patience.timeout_s) as limit:
                return await self._patiently(call, taken, limit)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise LLMFailed(f"{self.where}: no answer within {self._patience.timeout_s:g} s") from error

    async def _patiently(self, call: Callable[[Any], Awaitable[Any]], taken: Taken, limit: asyncio.Timeout) -> Any:
        client = self._place().client
        keys = _Keys(self._endpoint, next(self._requests))
        passing: Exception | None = None
        retries = 0
        while True:
            key = keys.take()
            taken.untold += 1
            try:
                response = await call(client.with_options(api_key=key))
            except Exception as error:  # noqa: BLE001 - the boundary for a remote API: every failure of it has one name here
                taken.untold -= _cost_nothing(error)
                failed = error
            else:
                taken.add(getattr(response, "usage", None))
                return response
            status = getattr(failed, "status_code", None)
            if status in _REFUSED:
                keys.refuse(key)
            else:
                passing = failed
            if status in (*_REFUSED, 429) and keys.has_another:
                continue
            # A refused key is no reason to give up while another is only rate-limited.
            failed = passing or failed
            left_s = (limit.when() or 0.0) - asyncio.get_running_loop().time()
            plan = plan_retry(_pause(failed), retries, self._patience.max_retries, self._patience.first_pause_s, left_s)
            if plan is None:
                kind = ContentFailure if getattr(failed, "status_code", None) in _BAD_CONTENT else LLMFailed
                raise kind(self._describe_failure(failed)) from failed
            await asyncio.sleep(plan[0])
            retries += plan[1]
            keys.rest()
            passing = None

    def _describe_failure(self, error: Exception) -> str:
        status = getattr(error, "status_code", None)
        said = f"answered {status}: {shorten(str(getattr(error, 'message', error)))}" if status else ""
        hint = f" The keys come from the environment variable {self._endpoint.keys_from}." if status in _REFUSED else ""
        text = f"{self.where} {said or f'could not be reached: {describe_cause(error)}'}{hint}"
        # An API may quote the key it refuses.
        for key in (*self._endpoint.keys, *self._endpoint.backup):
            text = text.replace(key, "***") if len(key) > len("none") else text
        return text

    def _place(self) -> _InLoop:
        loop = asyncio.get_running_loop()
        if loop not in self._in_loop:
            self._in_loop[loop] = _InLoop(self._endpoint, self._patience)
        return self._in_loop[loop]


class _InLoop:
    """The slots and client of one event loop."""

    def __init__(self, endpoint: Endpoint, patience: Patience) -> None:
        try:
            from openai import AsyncOpenAI, DefaultAsyncHttpxClient
        except ImportError as error:
            raise LLMFailed(f"asking an LLM needs the library openai: {install_command('astuner-core[rollout]')}") from error
        self.slots = asyncio.Semaphore(patience.concurrency)
        self.client = AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.keys[0],
            max_retries=0,
            timeout=patience.timeout_s,
            # Trackers and judges come and go with their loops; connections that are not kept need no closing.
            default_headers={"Connection": "close"},
            http_client=DefaultAsyncHttpxClient(**LIMITED),
        )


def _cost_nothing(error: Exception) -> bool:
    """Whether a failed request certainly took no tokens: it was refused, or did not reach the API."""
    status = getattr(error, "status_code", None)
    if status is not None:
        return int(status) >= 400
    # The SDK's HTTP library is not one of our dependencies, so its errors are matched by name.
    return type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout", "PoolTimeout")


def _pause(error: Exception) -> float | None:
    """Return how long to wait at least before a retry (s); None if a retry is pointless."""
    status = getattr(error, "status_code", None)
    if status is None:
        from openai import APIConnectionError

        return 0.0 if isinstance(error, APIConnectionError) else None
    if status not in (408, 409, 429) and status < 500:
        return None
    return parse_retry_after(error.response.headers.get("retry-after"))  # type: ignore[attr-defined]  # every status error has one


def _without_password(url: str) -> str:
    """Return an address without user and password: messages are kept with the episodes."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
