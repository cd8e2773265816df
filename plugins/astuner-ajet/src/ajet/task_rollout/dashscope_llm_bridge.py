"""A function that asks another LLM, for judges."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from astuner.shared.clients import LLMClient, find_endpoint, run_blocking


def create_external_llm_fn(
    alien_llm_model: str, alien_llm_response_length: int
) -> Callable[[Sequence[Mapping[str, Any]]], dict[str, str]]:
    """Return a function from messages to the LLM's message, `{"role": …, "content": …}`; it blocks.

    The environment names the LLM: `DASHSCOPE_API_KEY` (several keys: `a|b`), or `OPENAI_BASE_URL` and `OPENAI_API_KEY`. A request
    that fails is repeated, with the next key. Raises `NoEndpoint` when the environment names none, and `LLMFailed` without an
    answer.
    """

    def ask(
        messages: Sequence[Mapping[str, Any]], sampling_params_override: Mapping[str, Any] | None = None, request_id: str = ""
    ) -> dict[str, str]:
        client = LLMClient(find_endpoint(os.environ, "create_external_llm_fn"), alien_llm_model)
        sampling = {"max_tokens": alien_llm_response_length, "temperature": 0.0, **(sampling_params_override or {})}
        return {"role": "assistant", "content": run_blocking(client.ask(messages, **sampling))}

    return ask
