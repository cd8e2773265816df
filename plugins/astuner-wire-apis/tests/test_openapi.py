"""The description of the APIs of this package."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from described_apis import (  # noqa: F401 - these tests are run for the paths below
    test_a_fuzzer_that_reads_the_description_finds_no_fault,
    test_every_route_is_described_and_has_a_body_here,
    test_every_schema_is_valid_and_every_reference_leads_somewhere,
    test_requests_answers_and_refusals_conform,
)

from astuner_wire_apis.anthropic_messages import ANTHROPIC_MESSAGES
from astuner_wire_apis.completions import COMPLETIONS
from astuner_wire_apis.gemini_content import GEMINI_CONTENT
from astuner_wire_apis.responses import RESPONSES

PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
FUNCTION = {"name": "add", "parameters": PARAMETERS}
USER = [{"role": "user", "content": "hello"}]
CONTENTS = [{"role": "user", "parts": [{"text": "hello"}]}]
DECLARED = {"name": "add", "parametersJsonSchema": PARAMETERS}
BODIES: dict[str, Any] = {
    "/v1/completions": {"prompt": "hello", "logprobs": 1},
    "/v1/responses": {"input": USER, "tools": [{"type": "function", **FUNCTION}]},
    "/v1/messages": {"messages": USER, "tools": [{"name": "add", "input_schema": PARAMETERS}], "max_tokens": 90},
    "/v1beta/models/{model}:generateContent": {"contents": CONTENTS, "tools": [{"functionDeclarations": [DECLARED]}]},
    "/v1beta/models/{model}:streamGenerateContent": {"contents": CONTENTS, "tools": [{"functionDeclarations": [DECLARED]}]},
}
COUNTS: dict[str, Any] = {
    "/v1/messages/count_tokens": {"messages": USER},
    "/v1beta/models/{model}:countTokens": {"contents": CONTENTS},
}
APIS = (ANTHROPIC_MESSAGES, COMPLETIONS, GEMINI_CONTENT, RESPONSES)
ELSEWHERE = {"/v1/chat/completions"}


@pytest.mark.asyncio
@pytest.mark.parametrize(("path", "allowed"), [("/v1/messages", {"POST"}), ("/v1/responses", {"POST"})])
async def test_another_method_is_405_and_says_which_is_allowed(serving: Any, path: str, allowed: set[str]) -> None:
    async with serving("yes") as stage, httpx.AsyncClient(base_url=stage.gateway.base_url.removesuffix("/v1")) as client:
        response = await client.delete(path)
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == allowed
