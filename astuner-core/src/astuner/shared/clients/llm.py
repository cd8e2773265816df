"""An auxiliary LLM behind any OpenAI-compatible chat API: limited, with retries, and never the model under training."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from astuner.contract.plain_values import mend_text, mend_texts
from astuner.shared.clients.foreign_answers import shorten
from astuner.shared.clients.llm_budget import Budget
from astuner.shared.clients.llm_cache import CachedAnswer, LLMCache, make_question_key
from astuner.shared.clients.llm_endpoint import Endpoint
from astuner.shared.clients.llm_requests import ContentFailure, LLMFailed, Patience, Sender, Taken

__all__ = ["Answer", "AnswerCut", "AnswerMalformed", "AnswerRefused", "ContentFailure", "LLMClient", "LLMFailed", "Patience"]

MORE_ROOM = 4
"""An answer that was cut off is requested again with this factor times its tokens."""

_OUT_OF_ROOM = ("length", "max_tokens", "model_length", "max_length", "max_output_tokens", "token_limit", "incomplete")
_FILTERED = ("content_filter", "safety", "sensitive", "recitation", "blocklist", "prohibited_content", "spii", "refusal")
_BROKEN_OFF = ("abort", "aborted", "error", "cancelled", "network_error", "insufficient_system_resource")
LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"
"""The field that bounds an answer, and its name for OpenAI's reasoning models."""

_ADAPTABLE = (LIMIT, "temperature", "seed")
_REFUSALS = ("unsupported_parameter", "unsupported_value")

log = logging.getLogger(__name__)


class AnswerCut(ContentFailure):
    """The answer ended before the LLM was done: it had no more room, was filtered, or was broken off."""

    def __init__(self, message: str, *, needs_room: bool) -> None:
        """`needs_room` says whether a higher limit of tokens may help."""
        super().__init__(message)
        self.needs_room = needs_room


class AnswerRefused(ContentFailure):
    """The LLM declined to answer."""


class AnswerMalformed(ContentFailure):
    """No answer had the requested form."""


@frozen(kw_only=True)
class Answer:
    """An LLM's answer, with its tokens and cost."""

    text: str
    prompt_tokens: int = 0
    """Estimated if the API does not report it."""
    completion_tokens: int = 0
    """The maximum allowed if the API does not report it."""
    cost: float = 0.0
    """By the prices of the budget."""
    cached: bool = False


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

        `budget` may be shared by several clients; `always` are fields of every request, and one that is None is not sent.
        """
        self.endpoint, self.model = endpoint, model
        self.budget = budget or Budget()
        self.cache = cache
        self._always = dict(always or {})
        self._refused: set[str] = set()
        """Fields that the API does not take for this model."""
        self._sender = Sender(endpoint, patience or Patience(), f"LLM '{model}'")

    @property
    def where(self) -> str:
        """The model and its address."""
        return self._sender.where

    async def ask(self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int, **more: Any) -> str:
        """Return the text of the answer; `more` are further fields of the request. Raises `LLMFailed`.

        An answer without text is also a failure, and so is one that is cut off even with more room.
        """
        try:
            return (await self.answer(messages, max_tokens=max_tokens, **more)).text
        except AnswerCut as cut:
            if not cut.needs_room:
                raise
        return (await self.answer(messages, max_tokens=max_tokens, room=MORE_ROOM, **more)).text

    async def answer(self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int, room: int = 1, **more: Any) -> Answer:
        """Return the answer with its tokens and cost; `room` multiplies the limit of tokens.

        Raises `LLMFailed` (`AnswerCut` for an answer that was cut off), and `LLMBudgetSpent` if a limit is reached.
        """
        body = self._build_body(messages, max_tokens, room, more)
        key = make_question_key(self.endpoint.base_url, body)
        if (kept := await self._find_cached(key)) is not None:
            return kept
        async with self._sender.slots:
            # While this request waited for its slot, the same question may have been answered.
            if (kept := await self._find_cached(key)) is not None:
                return kept
            answer = await self._send(body)
            if self.cache is not None:
                found = CachedAnswer(answer.text, answer.prompt_tokens, answer.completion_tokens)
                await asyncio.to_thread(self.cache.put, key, self.model, found)
            return answer

    async def forget(self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int, room: int = 1, **more: Any) -> None:
        """Remove a useless answer from the cache, so that the question is asked again."""
        if self.cache is not None:
            key = make_question_key(self.endpoint.base_url, self._build_body(messages, max_tokens, room, more))
            await asyncio.to_thread(self.cache.drop, key)

    def close(self) -> None:
        """Close the cache; connections close on their own."""
        if self.cache is not None:
            self.cache.close()

    def _build_body(
        self, messages: Sequence[Mapping[str, Any]], max_tokens: int, room: int, more: Mapping[str, Any]
    ) -> dict[str, Any]:
        given = {LIMIT: max_tokens, **self._always, **more}
        if given.get(NEW_LIMIT) is not None:
            given[LIMIT] = None
        fields = {name: value for name, value in given.items() if value is not None}
        fields |= {name: fields[name] * room for name in (LIMIT, NEW_LIMIT) if name in fields}
        return mend_texts({"model": self.model, "messages": [dict(message) for message in messages], **fields})

    async def _find_cached(self, key: str) -> Answer | None:
        kept = None if self.cache is None else await asyncio.to_thread(self.cache.get, key)
        if kept is None:
            return None
        self.budget.count_cached()
        return Answer(text=kept.text, prompt_tokens=kept.prompt_tokens, completion_tokens=kept.completion_tokens, cached=True)

    async def _send(self, body: Mapping[str, Any]) -> Answer:
        most = body.get(LIMIT) or body.get(NEW_LIMIT) or 0
        reserved = await self.budget.acquire(json.dumps(body["messages"], ensure_ascii=False), most)
        taken = Taken()
        try:
            response = await self._sender.send(lambda client: self._create(client, body), taken)
        finally:
            # A useless or late answer costs something too.
            tokens = taken.tokens(reserved)
            cost = self.budget.settle(reserved, *tokens)
        return Answer(text=self._read_text(response, most), prompt_tokens=tokens[0], completion_tokens=tokens[1], cost=cost)

    async def _create(self, client: Any, body: Mapping[str, Any]) -> Any:
        """Ask without the fields that this model refuses, as OpenAI's reasoning models do `max_tokens` and `temperature`."""
        while True:
            sent = self._leave_out_refused(body)
            try:
                return await client.chat.completions.create(**sent)
            except Exception as error:
                refused = _find_refused_field(error)
                if refused not in _ADAPTABLE or refused not in sent:
                    raise
                if refused in self._refused:
                    # Another request, sent at the same time, found out first.
                    continue
                self._refused.add(refused)
                instead = f"; {NEW_LIMIT} is sent instead" if refused == LIMIT else ""
                log.warning("%s does not take %s, which is left out from now on%s", self.where, refused, instead)

    def _leave_out_refused(self, body: Mapping[str, Any]) -> dict[str, Any]:
        sent = {name: value for name, value in body.items() if name not in self._refused}
        return {**sent, NEW_LIMIT: body[LIMIT]} if LIMIT in body and LIMIT not in sent else sent

    def _read_text(self, response: Any, most: int) -> str:
        choices = getattr(response, "choices", None)
        message = choices[0].message if choices else None
        ended = str(getattr(choices[0], "finish_reason", None)) if choices else "None"
        if ended.lower() in _OUT_OF_ROOM:
            raise AnswerCut(
                f"{self.where}: the answer was cut off at {most} tokens (finish_reason: {ended}); raise the limit of its length",
                needs_room=True,
            )
        if ended.lower() in _FILTERED:
            raise AnswerCut(f"{self.where}: the answer was filtered (finish_reason: {ended})", needs_room=False)
        if ended.lower() in _BROKEN_OFF:
            raise AnswerCut(f"{self.where}: the answer was broken off (finish_reason: {ended})", needs_room=False)
        refusal = getattr(message, "refusal", None)
        content = getattr(message, "content", None)
        if isinstance(content, str) and content.strip() and not refusal:
            return mend_text(content)
        if refusal:
            raise AnswerRefused(f"{self.where}: the answer holds no text (it refused: {shorten(str(refusal))})")
        raise ContentFailure(f"{self.where}: the answer holds no text (finish_reason: {ended})")


def _find_refused_field(error: Exception) -> str | None:
    """Return the field of a request that an API of OpenAI's kind does not take for this model."""
    if getattr(error, "status_code", None) != 400 or getattr(error, "code", None) not in _REFUSALS:
        return None
    name = getattr(error, "param", None)
    return name if isinstance(name, str) else None
