"""An auxiliary LLM behind any OpenAI-compatible chat API: limited, with retries, and never the model under training."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from astuner.clients.llm_budget import Budget
from astuner.clients.llm_cache import CachedAnswer, LLMCache, make_question_key
from astuner.clients.llm_endpoint import Endpoint
from astuner.clients.llm_requests import LLMFailed, Patience, Sender, Taken

__all__ = ["Answer", "LLMClient", "LLMFailed", "Patience"]


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

        `budget` may be shared by several clients; `always` are fields of every request.
        """
        self.endpoint, self.model = endpoint, model
        self.budget = budget or Budget()
        self.cache = cache
        self._always = dict(always or {})
        self._sender = Sender(endpoint, patience or Patience(), f"LLM '{model}'")

    @property
    def where(self) -> str:
        """The model and its address."""
        return self._sender.where

    async def ask(self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int, **more: Any) -> str:
        """Return the text of the answer; `more` are further fields of the request. Raises `LLMFailed`.

        An answer without text is also a failure.
        """
        return (await self.answer(messages, max_tokens=max_tokens, **more)).text

    async def answer(self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int, **more: Any) -> Answer:
        """Return the answer with its tokens and cost; raises `LLMFailed`, and `LLMBudgetSpent` if a limit is reached."""
        body = self._build_body(messages, max_tokens, more)
        key = make_question_key(self.endpoint.base_url, body)
        if (kept := await self._find_cached(key)) is not None:
            return kept
        async with self._sender.slots:
            # While this request waited for its slot, the same question may have been answered.
            if (kept := await self._find_cached(key)) is not None:
                return kept
            answer = await self._send(body, max_tokens)
            if self.cache is not None:
                found = CachedAnswer(answer.text, answer.prompt_tokens, answer.completion_tokens)
                await asyncio.to_thread(self.cache.put, key, self.model, found)
            return answer

    async def forget(self, messages: Sequence[Mapping[str, Any]], *, max_tokens: int, **more: Any) -> None:
        """Remove a useless answer from the cache, so that the question is asked again."""
        if self.cache is not None:
            key = make_question_key(self.endpoint.base_url, self._build_body(messages, max_tokens, more))
            await asyncio.to_thread(self.cache.drop, key)

    def close(self) -> None:
        """Close the cache; connections close on their own."""
        if self.cache is not None:
            self.cache.close()

    def _build_body(self, messages: Sequence[Mapping[str, Any]], max_tokens: int, more: Mapping[str, Any]) -> dict[str, Any]:
        shown = [dict(message) for message in messages]
        return {"model": self.model, "messages": shown, "max_tokens": max_tokens, **self._always, **more}

    async def _find_cached(self, key: str) -> Answer | None:
        kept = None if self.cache is None else await asyncio.to_thread(self.cache.get, key)
        if kept is None:
            return None
        self.budget.count_cached()
        return Answer(text=kept.text, prompt_tokens=kept.prompt_tokens, completion_tokens=kept.completion_tokens, cached=True)

    async def _send(self, body: Mapping[str, Any], max_tokens: int) -> Answer:
        reserved, taken = self.budget.reserve(json.dumps(body["messages"], ensure_ascii=False), max_tokens), Taken()
        try:
            response = await self._sender.send(lambda client: client.chat.completions.create(**body), taken)
        finally:
            # A useless or late answer costs something too.
            tokens = taken.tokens(reserved)
            cost = self.budget.settle(reserved, *tokens)
        return Answer(text=self._read_text(response), prompt_tokens=tokens[0], completion_tokens=tokens[1], cost=cost)

    def _read_text(self, response: Any) -> str:
        choices = getattr(response, "choices", None)
        message = choices[0].message if choices else None
        content = getattr(message, "content", None)
        if isinstance(content, str) and content.strip():
            return content
        refusal = getattr(message, "refusal", None)
        reason = f"it refused: {refusal}" if refusal else f"finish_reason: {choices[0].finish_reason if choices else None}"
        raise LLMFailed(f"{self.where}: the answer holds no text ({reason})")
