"""An auxiliary LLM behind any OpenAI-compatible chat API: bounded, patient, and never the model under training."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from attrs import evolve, field, frozen
from attrs.validators import ge, gt

from astuner.clients.llm_budget import Budget
from astuner.clients.llm_cache import Kept, LLMCache, question_key
from astuner.clients.llm_endpoint import Endpoint
from astuner.errors import AstunerError

LONGEST_PAUSE_S = 30.0


class LLMFailed(AstunerError):
    """The LLM gave no answer; says which one, and why."""


@frozen(kw_only=True)
class Answer:
    """What an LLM said, and what it took."""

    text: str
    prompt_tokens: int = 0
    """0 where the API does not say."""
    completion_tokens: int = 0
    cost: float = 0.0
    """By the prices of the budget."""
    cached: bool = False


@frozen(kw_only=True)
class Patience:
    """How hard a client tries."""

    concurrency: int = field(default=16, validator=ge(1))
    """Requests under way at once."""
    max_retries: int = field(default=4, validator=ge(0))
    """After 408, 409, 429, 5xx, a refused key while there are others, and lost connections."""
    first_pause_s: float = field(default=0.5, validator=ge(0))
    """Before the first retry; each further one waits twice as long, or as long as the API asks for."""
    timeout_s: float = field(default=180.0, validator=gt(0))
    """For one question with all its retries, the wait for a place not counted."""


class LLMClient:
    """Asks one model. May be used from several event loops; no connection stays open between requests."""

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        patience: Patience | None = None,
        *,
        budget: Budget | None = None,
        cache: LLMCache | None = None,
        always: Mapping[str, Any] | None = None,
    ) -> None:
        """Nothing is sent, and the library `openai` not imported, before the first question.

        `budget` may be shared by several clients; `always` are fields of every request.
        """
        self.endpoint, self.model = endpoint, model
        self.budget = budget or Budget()
        self._patience = patience or Patience()
        self._cache = cache
        self._always = dict(always or {})
        self._requests = itertools.count()
        self._in_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _InLoop] = WeakKeyDictionary()

    @property
    def where(self) -> str:
        """Which model is asked at which address."""
        return f"LLM '{self.model}' at {self.endpoint.base_url}"

    async def ask(self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int, **more: Any) -> str:
        """Return the text of the answer; `more` are further fields of the request. Raises `LLMFailed`.

        An answer without text is a failure too.
        """
        return (await self.answer(messages, max_tokens=max_tokens, **more)).text

    async def answer(self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int, **more: Any) -> Answer:
        """Return the answer with what it took; raises `LLMFailed`, and `LLMBudgetSpent` where a limit allows no request."""
        place = self._place()
        body = {
            "model": self.model,
            "messages": [dict(message) for message in messages],
            "max_tokens": max_tokens,
            **self._always,
            **more,
        }
        key = question_key(self.endpoint.base_url, body)
        if (kept := self._kept(key)) is not None:
            return kept
        async with place.slots:
            # While this one waited for its place, the same question may have been answered.
            if (kept := self._kept(key)) is not None:
                return kept
            reserved = self.budget.reserve(body["messages"], max_tokens)
            try:
                async with asyncio.timeout(self._patience.timeout_s) as limit:
                    answer = await self._patiently(place.client, body)
            except TimeoutError as error:
                self.budget.settle(reserved)
                if not limit.expired():
                    raise
                raise LLMFailed(f"{self.where}: no answer within {self._patience.timeout_s:g} s") from error
            except BaseException:
                self.budget.settle(reserved)
                raise
            if self._cache is not None:
                self._cache.put(key, self.model, Kept(answer.text, answer.prompt_tokens, answer.completion_tokens))
            cost = self.budget.settle(reserved, answer.prompt_tokens, answer.completion_tokens)
            return evolve(answer, cost=cost)

    def close(self) -> None:
        """Close the cache; connections close by themselves."""
        if self._cache is not None:
            self._cache.close()

    def _kept(self, key: str) -> Answer | None:
        kept = None if self._cache is None else self._cache.get(key)
        if kept is None:
            return None
        self.budget.count_cached()
        return Answer(text=kept.text, prompt_tokens=kept.prompt_tokens, completion_tokens=kept.completion_tokens, cached=True)

    async def _patiently(self, client: Any, body: Mapping[str, Any]) -> Answer:
        keys = self.endpoint.keys_for(next(self._requests))
        others = len({*self.endpoint.keys, *self.endpoint.backup}) - 1
        for attempt in itertools.count():
            try:
                return self._read(await client.with_options(api_key=next(keys)).chat.completions.create(**body))
            except LLMFailed as failure:
                pause_s: float | None = None
                last = failure
            except Exception as error:  # noqa: BLE001 - the boundary for a remote API: every failure of it has one name here
                pause_s = _pause(error, attempt < others)
                last = LLMFailed(self._told(error))
                last.__cause__ = error
            if pause_s is None or attempt >= self._patience.max_retries:
                raise last
            await asyncio.sleep(min(max(pause_s, self._patience.first_pause_s * 2**attempt), LONGEST_PAUSE_S))
        raise AssertionError("counting has no end")

    def _read(self, response: Any) -> Answer:
        choices = getattr(response, "choices", None)
        message = choices[0].message if choices else None
        content = getattr(message, "content", None)
        if not isinstance(content, str) or not content.strip():
            refusal = getattr(message, "refusal", None)
            reason = f"it refused: {refusal}" if refusal else f"finish_reason: {choices[0].finish_reason if choices else None}"
            raise LLMFailed(f"{self.where}: the answer holds no text ({reason})")
        usage = getattr(response, "usage", None)
        prompt, completion = (getattr(usage, name, None) or 0 for name in ("prompt_tokens", "completion_tokens"))
        return Answer(text=content, prompt_tokens=prompt, completion_tokens=completion)

    def _told(self, error: Exception) -> str:
        status = getattr(error, "status_code", None)
        said = f"answered {status}: {getattr(error, 'message', error)}" if status else f"could not be reached: {error!r}"
        hint = f" The keys come from the environment variable {self.endpoint.keys_from}." if status in (401, 403) else ""
        text = f"{self.where} {said}{hint}"
        # An API may quote the key it refuses.
        for key in (*self.endpoint.keys, *self.endpoint.backup):
            text = text.replace(key, "***") if len(key) > len("none") else text
        return text

    def _place(self) -> _InLoop:
        loop = asyncio.get_running_loop()
        if loop not in self._in_loop:
            self._in_loop[loop] = _InLoop(self.endpoint, self._patience)
        return self._in_loop[loop]


class _InLoop:
    """What belongs to one event loop."""

    def __init__(self, endpoint: Endpoint, patience: Patience) -> None:
        try:
            from openai import AsyncOpenAI
        except ImportError as error:
            raise LLMFailed("asking an LLM needs the library openai: pip install 'astuner-core[rollout]'") from error
        self.slots = asyncio.Semaphore(patience.concurrency)
        self.client = AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.keys[0],
            max_retries=0,
            timeout=patience.timeout_s,
            # Trackers and judges come and go with their loops; connections that are not kept need nobody to close them.
            default_headers={"Connection": "close"},
        )


def _pause(error: Exception, has_other_keys: bool) -> float | None:
    """Return how long to wait at least before a retry (s); None when one is no use."""
    status = getattr(error, "status_code", None)
    if status is None:
        from openai import APIConnectionError

        return 0.0 if isinstance(error, APIConnectionError) else None
    if status in (401, 403):
        return 0.0 if has_other_keys else None
    if status not in (408, 409, 429) and status < 500:
        return None
    try:
        return float(error.response.headers.get("retry-after") or 0)  # type: ignore[attr-defined]  # every status error has one
    except ValueError:
        return 0.0
