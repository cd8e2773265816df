"""A function that asks another LLM, for judges."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from astuner.shared.clients import find_endpoint

ATTEMPTS = 4


def create_external_llm_fn(
    alien_llm_model: str, alien_llm_response_length: int
) -> Callable[[Sequence[Mapping[str, Any]]], dict[str, str]]:
    """Return a function from messages to the LLM's message, `{"role": …, "content": …}`; it blocks.

    The environment names the LLM: `DASHSCOPE_API_KEY` (several keys: `a|b`), or `OPENAI_BASE_URL` and `OPENAI_API_KEY`. A request
    that fails is repeated, with the next key. Raises `NoEndpoint` when the environment names none.
    """

    def ask(
        messages: Sequence[Mapping[str, Any]], sampling_params_override: Mapping[str, Any] | None = None, request_id: str = ""
    ) -> dict[str, str]:
        import openai

        endpoint = find_endpoint(os.environ, "create_external_llm_fn")
        sampling = {"max_tokens": alien_llm_response_length, "temperature": 0.0, **(sampling_params_override or {})}
        failure: openai.APIError | None = None
        for key in islice(endpoint.iterate_keys(0), ATTEMPTS):
            client: Any = openai.OpenAI(api_key=key, base_url=endpoint.base_url)
            try:
                answer = client.chat.completions.create(model=alien_llm_model, messages=list(messages), **sampling)
            except openai.APIError as error:
                failure = error
                continue
            message = answer.choices[0].message
            return {"role": message.role, "content": message.content or ""}
        assert failure is not None  # each attempt returned or failed
        raise failure

    return ask
