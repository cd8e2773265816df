"""A description of wire APIs: it names every route, real answers conform to it, and a fuzzer that reads it finds no fault.

A module that imports these tests has its `APIS`, a body for each path in `BODIES` and `COUNTS`, and the paths that are tried
`ELSEWHERE`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from astuner.model.gateway.wire_apis import CHAT_COMPLETIONS

Document = Mapping[str, Any]

CALL = '<tool_call>\n{"name": "add", "arguments": {"a":1,  "b": 2}}\n</tool_call>'


def conforms(document: Document, value: Any, path: str, status: int) -> None:
    answer = followed(document, document["paths"][path]["post"]["responses"][str(status)])
    schema = answer["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(value)


def followed(document: Document, node: Any) -> Any:
    if "$ref" not in node:
        return node
    found: Any = document
    for name in node["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return followed(document, found)


def nodes(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(child)


def test_every_route_is_described_and_has_a_body_here(api_document: Document, bodies: Document, request: Any) -> None:
    routes = [route for api in (CHAT_COMPLETIONS, *request.module.APIS) for route in api.routes]
    served = {(route.path, route.method.lower()) for route in routes}
    described = {(path, method) for path, found in api_document["paths"].items() for method in found}
    other_names = {(path, method) for path, method in served if path.startswith(("/v1alpha", "/v1/models/{model}:", "/openai/"))}
    assert described == served - other_names | {("/health", "get"), ("/healthz", "get")}
    assert set(bodies) == {path for path, method in described if method == "post"} - request.module.ELSEWHERE


def test_every_schema_is_valid_and_every_reference_leads_somewhere(api_document: Document) -> None:
    document = api_document
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    references = [node for node in nodes(document) if "$ref" in node]
    assert len(references) > 20
    assert all(followed(document, node) for node in references)


@pytest.mark.asyncio
async def test_requests_answers_and_refusals_conform(
    serving: Any, bodies: Document, api_document: Document, any_path: str
) -> None:
    path, asked, document = any_path, bodies[any_path], api_document
    jsonschema.Draft202012Validator(
        {
            **document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"],
            "components": document["components"],
        }
    ).validate(asked)
    async with serving(f"<think>\nhm\n</think>\n\nlet me see\n{CALL}", max_steps=1) as stage:
        api = stage.recorder.tuner.as_oai_baseurl_apikey()
        root = stage.gateway.base_url.removesuffix("/v1")
        async with httpx.AsyncClient(base_url=root, headers={"Authorization": f"Bearer {api.api_key}"}) as client:
            found = [
                await client.post(path.format(model="m"), json=asked),
                await client.post(path.format(model="m"), json={}),
                await client.post(path.format(model="m"), json=asked, headers={"Authorization": "Bearer nobody"}),
                await client.post(path.format(model="m"), json=asked),
            ]
    last = 200 if path.endswith(("count_tokens", "countTokens")) else 403
    assert [response.status_code for response in found] == [200, 400, 401, last]
    for response in found:
        if response.headers["content-type"].startswith("text/event-stream"):
            continue
        conforms(document, response.json(), path, response.status_code)


CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
    "response_schema_conformance,unsupported_method,allow_header_conformance,ignored_auth"
)
"""All but those that want the description to say all that a template may refuse."""


@pytest.mark.asyncio
async def test_a_fuzzer_that_reads_the_description_finds_no_fault(serving: Any, api_document: Document, tmp_path: Path) -> None:
    pytest.importorskip("schemathesis", reason="the fuzzer is not installed: pip install schemathesis")
    examples = os.environ.get("ASTUNER_FUZZ_EXAMPLES", "4")
    says = ["yes", f"<think>\nhm\n</think>\n\nlet me see\n{CALL}\n{CALL}", "", "été 中文 🙂", "<tool_call>{", "<think>hm"]
    async with serving(lambda prompt, request: says[len(prompt) % len(says)]) as stage:
        key = stage.recorder.tuner.as_oai_baseurl_apikey().api_key
        described = tmp_path / "openapi.json"
        described.write_text(json.dumps(api_document), encoding="utf-8")
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
