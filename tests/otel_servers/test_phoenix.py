"""What Phoenix has of a run, read back from its interface."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from astuner_devkit.waiting import until


@pytest.fixture
def phoenix(servers: dict[str, str]) -> str:
    return servers["phoenix"]


def read_spans(address: str, project: str, count: int) -> list[dict[str, Any]]:
    """Return the spans of a project, once there are so many: Phoenix stores them after it has answered."""
    found: list[dict[str, Any]] = []
    place = f"{address}/v1/projects/{project}/spans?limit=1000"

    def are_there() -> bool:
        # The project comes with its first span.
        with suppress(urllib.error.HTTPError), urllib.request.urlopen(place, timeout=60) as answer:
            found[:] = json.load(answer)["data"]
        return len(found) >= count

    until(are_there, limit_s=60)
    return found


def find_span(spans: list[dict[str, Any]], **attributes: Any) -> dict[str, Any]:
    wanted = {name.replace("__", "."): value for name, value in attributes.items()}
    (found,) = [span for span in spans if all(span["attributes"].get(name) == value for name, value in wanted.items())]
    return found


def test_an_episode_is_an_agent_with_model_calls_and_tools(phoenix: str, send: Callable[..., None]) -> None:
    send("kinds", endpoint=phoenix)
    spans = read_spans(phoenix, "kinds", 12)
    root = find_span(spans, astuner__episode="train/3/sum/0")
    children = [span for span in spans if span["parent_id"] == root["context"]["span_id"]]
    assert (root["span_kind"], root["name"], root["status_code"]) == ("AGENT", "invoke_agent solver", "OK")
    assert sorted((span["span_kind"], span["name"]) for span in children) == [
        ("LLM", "chat model"),
        ("LLM", "chat model"),
        ("TOOL", "execute_tool add"),
    ]


def test_rewards_findings_and_failures_are_attributes(phoenix: str, send: Callable[..., None]) -> None:
    send("outcomes", endpoint=phoenix)
    spans = read_spans(phoenix, "outcomes", 12)
    good, bad, failed = (find_span(spans, astuner__episode=f"train/3/sum/{n}") for n in range(3))
    assert [span["attributes"].get("astuner.reward") for span in (good, bad, failed)] == [1.0, 0.0, None]
    assert [span["attributes"].get("astuner.success") for span in (good, bad, failed)] == [True, False, None]
    assert json.loads(bad["attributes"]["astuner.findings"])[0]["detector"] == "nonsense"
    assert (failed["status_code"], failed["status_message"]) == ("ERROR", "timeout: it took over 60 s")
    assert {span["attributes"]["input.value"] for span in (good, bad, failed)} == {"What is 2 + 2?"}


def test_phoenix_reads_messages_tools_and_tokens(phoenix: str, send: Callable[..., None]) -> None:
    send("messages", endpoint=phoenix)
    spans = read_spans(phoenix, "messages", 12)
    root = find_span(spans, astuner__episode="train/3/sum/0")
    siblings = [span for span in spans if span["parent_id"] == root["context"]["span_id"]]
    first, second = (find_span(siblings, astuner__call=index, gen_ai__operation__name="chat")["attributes"] for index in (0, 1))
    tool = find_span(siblings, gen_ai__operation__name="execute_tool")["attributes"]
    said, asked = "llm.output_messages.0.message", "llm.output_messages.0.message.tool_calls.0.tool_call.function"
    assert first["llm.input_messages.1.message.content"] == "What is 2 + 2?"
    assert (first[f"{asked}.name"], json.loads(first[f"{asked}.arguments"])) == ("add", {"a": 2, "b": 2})
    assert "add" in first["llm.tools.0.tool.json_schema"]
    assert (second["llm.input_messages.3.message.role"], second["llm.input_messages.3.message.content"]) == ("tool", "4")
    assert second[f"{said}.content"] == "It is 4."
    assert (second["llm.token_count.prompt"], second["llm.token_count.completion"]) == (7, 3)
    assert (tool["tool.name"], tool["output.value"]) == ("add", "4")


def test_a_resumed_run_is_there_once(phoenix: str, send: Callable[..., None]) -> None:
    send("resumed", endpoint=phoenix)
    send("resumed", endpoint=phoenix, resumed=True)
    # Of another run in the same project: what was sent before is stored before it.
    send("resumed", endpoint=phoenix)
    spans = read_spans(phoenix, "resumed", 24)
    assert len(spans) == 24
    assert len({span["context"]["trace_id"] for span in spans}) == 6


def test_a_run_is_a_session(phoenix: str, run_project: Callable[..., None]) -> None:
    run_project(endpoint=phoenix)
    spans = read_spans(phoenix, "testing", 4)
    roots = [span["attributes"] for span in spans if span["parent_id"] is None]
    assert sorted((root["astuner.task.id"], root["astuner.reward"]) for root in roots) == [("one", 1.0), ("two", 1.0)]
    assert len({span["attributes"]["session.id"] for span in spans}) == 1
