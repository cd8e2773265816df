"""The gateway's own description: it names every route, real answers conform to it, and a fuzzer that reads it finds no fault."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from openapi_document import document

from astuner.model.gateway.app import make_app

CALL = '<tool_call>\n{"name": "add", "arguments": {"a":1,  "b": 2}}\n</tool_call>'
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
FUNCTION = {"name": "add", "parameters": PARAMETERS}
USER = [{"role": "user", "content": "hello"}]
CONTENTS = [{"role": "user", "parts": [{"text": "hello"}]}]
DECLARED = {"name": "add", "parametersJsonSchema": PARAMETERS}
ASKED: dict[str, Any] = {
    "/v1/chat/completions": {"messages": USER, "tools": [{"type": "function", "function": FUNCTION}], "logprobs": True},
    "/v1/completions": {"prompt": "hello", "logprobs": 1},
    "/v1/responses": {"input": USER, "tools": [{"type": "function", **FUNCTION}]},
    "/v1/messages": {"messages": USER, "tools": [{"name": "add", "input_schema": PARAMETERS}], "max_tokens": 90},
    "/v1/messages/count_tokens": {"messages": USER},
    "/v1beta/models/{model}:generateContent": {"contents": CONTENTS, "tools": [{"functionDeclarations": [DECLARED]}]},
    "/v1beta/models/{model}:streamGenerateContent": {"contents": CONTENTS, "tools": [{"functionDeclarations": [DECLARED]}]},
    "/v1beta/models/{model}:countTokens": {"contents": CONTENTS},
}


def conforms(value: Any, path: str, status: int) -> None:
    answer = followed(document()["paths"][path]["post"]["responses"][str(status)])
    schema = answer["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": document()["components"]}).validate(value)


def followed(node: Any) -> Any:
    if "$ref" not in node:
        return node
    found: Any = document()
    for name in node["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return followed(found)


def nodes(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(child)


def test_every_route_is_described_and_nothing_else() -> None:
    served: Any = make_app(lambda secret: None, model_name="m", max_body_bytes=1)
    routes = inspect.getclosurevars(served).nonlocals["others"].routes
    found = {(route.path.replace(":path", ""), method.lower()) for route in routes for method in route.methods - {"HEAD"}}
    described = {(path, method) for path, methods in document()["paths"].items() for method in methods}
    assert described == found


def test_every_example_of_this_module_is_a_route_that_takes_a_body() -> None:
    assert set(ASKED) == {path for path, methods in document()["paths"].items() if "post" in methods}


def test_every_schema_is_valid_and_every_reference_leads_somewhere() -> None:
    for schema in document()["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    references = [node for node in nodes(document()) if "$ref" in node]
    assert len(references) > 50
    assert all(followed(node) for node in references)


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ASKED)
async def test_requests_answers_and_refusals_conform(serving: Any, path: str) -> None:
    jsonschema.Draft202012Validator(
        {
            **document()["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"],
            "components": document()["components"],
        }
    ).validate(ASKED[path])
    async with serving(f"<think>\nhm\n</think>\n\nlet me see\n{CALL}", max_steps=1) as stage:
        api = stage.recorder.tuner.as_oai_baseurl_apikey()
        root = stage.gateway.base_url.removesuffix("/v1")
        async with httpx.AsyncClient(base_url=root, headers={"Authorization": f"Bearer {api.api_key}"}) as client:
            found = [
                await client.post(path.format(model="m"), json=ASKED[path]),
                await client.post(path.format(model="m"), json={}),
                await client.post(path.format(model="m"), json=ASKED[path], headers={"Authorization": "Bearer nobody"}),
                await client.post(path.format(model="m"), json=ASKED[path]),
            ]
    last = 200 if path.endswith(("count_tokens", "countTokens")) else 403
    assert [response.status_code for response in found] == [200, 400, 401, last]
    for response in found:
        if response.headers["content-type"].startswith("text/event-stream"):
            continue
        conforms(response.json(), path, response.status_code)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("path", "allowed"), [("/v1/messages", {"POST"}), ("/v1/responses", {"POST"}), ("/healthz", {"GET", "HEAD"})]
)
async def test_another_method_is_405_and_says_which_is_allowed(serving: Any, path: str, allowed: set[str]) -> None:
    async with serving("yes") as stage, httpx.AsyncClient(base_url=stage.gateway.base_url.removesuffix("/v1")) as client:
        response = await client.delete(path)
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == allowed


CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,unsupported_method,allow_header_conformance,ignored_auth"
)
"""All but those that want the description to say all that a template may refuse."""


@pytest.mark.asyncio
async def test_a_fuzzer_that_reads_the_description_finds_no_fault(serving: Any, tmp_path: Path) -> None:
    pytest.importorskip("schemathesis", reason="the fuzzer is not installed: pip install schemathesis")
    examples = os.environ.get("ASTUNER_FUZZ_EXAMPLES", "4")
    says = ["yes", f"<think>\nhm\n</think>\n\nlet me see\n{CALL}\n{CALL}", "", "été 中文 🙂", "<tool_call>{", "<think>hm"]
    async with serving(lambda prompt, request: says[len(prompt) % len(says)]) as stage:
        key = stage.recorder.tuner.as_oai_baseurl_apikey().api_key
        described = tmp_path / "openapi.json"
        described.write_text(json.dumps(document()), encoding="utf-8")
        command = [sys.executable, "-m", "schemathesis.cli", "run", str(described)]
        command += ["--url", stage.gateway.base_url.removesuffix("/v1")]
        command += ["-H", f"Authorization: Bearer {key}", "-H", f"x-api-key: {key}", "--no-color", "--checks", CHECKS]
        command += [
            "-n",
            examples,
            "--seed",
            "1",
            "--phases",
            os.environ.get("ASTUNER_FUZZ_PHASES", "fuzzing"),
            "--suppress-health-check",
            "all",
        ]
        fuzzer = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            async with asyncio.timeout(60 + 60 * int(examples)):
                output, _ = await fuzzer.communicate()
        finally:
            if fuzzer.returncode is None:
                fuzzer.kill()
    assert fuzzer.returncode == 0, output.decode()[-4000:]
