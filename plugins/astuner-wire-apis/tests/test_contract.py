from __future__ import annotations

from typing import ClassVar

from astuner.model.gateway.route_table import find_known_api
from astuner_devkit.contracts import PackageContract, WireApiContract
from astuner_wire_apis.anthropic_messages import ANTHROPIC_MESSAGES
from astuner_wire_apis.completions import COMPLETIONS
from astuner_wire_apis.gemini_content import GEMINI_CONTENT
from astuner_wire_apis.responses import RESPONSES

USER = [{"role": "user", "content": "hello"}]
APIS = {
    "anthropic_messages": ANTHROPIC_MESSAGES,
    "gemini_content": GEMINI_CONTENT,
    "openai_responses": RESPONSES,
    "text_completions": COMPLETIONS,
}


class TestAnthropicMessages(WireApiContract):
    component = ANTHROPIC_MESSAGES
    body: ClassVar = {"messages": USER, "max_tokens": 50}
    streamed_body: ClassVar = {"messages": USER, "max_tokens": 50, "stream": True}
    key_header = ("x-api-key", "{key}")


class TestCompletions(WireApiContract):
    component = COMPLETIONS
    body: ClassVar = {"prompt": "hello"}
    streamed_body: ClassVar = {"prompt": "hello", "stream": True}


class TestGeminiContent(WireApiContract):
    component = GEMINI_CONTENT
    body: ClassVar = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
    key_header = ("x-goog-api-key", "{key}")


class TestResponses(WireApiContract):
    component = RESPONSES
    body: ClassVar = {"input": "hello"}
    streamed_body: ClassVar = {"input": "hello", "stream": True}


class TestPackage(PackageContract):
    distribution = "astuner-wire-apis"


def test_core_knows_which_api_a_path_belongs_to() -> None:
    # Lists of models are core's as well.
    paths = {route.path: name for name, api in APIS.items() for route in api.routes if route.path not in SHARED}
    assert {path: find_known_api(path.format(model="m")) for path in paths} == paths


SHARED = ("/v1/models", "/v1/models/{model}")
