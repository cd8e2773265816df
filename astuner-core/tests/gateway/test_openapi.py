"""The gateway's own description, and chat completions'."""

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

FUNCTION = {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}
TOOLS = [{"type": "function", "function": FUNCTION}]
BODIES: dict[str, Any] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}], "tools": TOOLS, "logprobs": True}
}
COUNTS: dict[str, Any] = {}
APIS = ()
ELSEWHERE: frozenset[str] = frozenset()


@pytest.mark.asyncio
@pytest.mark.parametrize(("path", "allowed"), [("/v1/chat/completions", {"POST"}), ("/healthz", {"GET", "HEAD"})])
async def test_another_method_is_405_and_says_which_is_allowed(serving: Any, path: str, allowed: set[str]) -> None:
    async with serving("yes") as stage, httpx.AsyncClient(base_url=stage.gateway.base_url.removesuffix("/v1")) as client:
        response = await client.delete(path)
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == allowed
