from __future__ import annotations

import asyncio
import importlib.util
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from openai import AsyncOpenAI

from astuner import Task, WorkflowOutput, WorkflowTask

TASK = WorkflowTask(Task(main_query="What is 57 * 83?", metadata={"answer": "4731"}))


def _call(arguments: str) -> dict[str, Any]:
    function = {"name": "calculator", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]}


def _said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


class _Server(ThreadingHTTPServer):
    """Answers chat requests with the given messages, in order, and keeps the requests."""

    replies: list[dict[str, Any]]
    requests: list[dict[str, Any]]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        self.server.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        choice = {"index": 0, "finish_reason": "stop", "message": self.server.replies.pop(0)}
        body = json.dumps({"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class _Tuner:
    """Hands out a client for a server."""

    def __init__(self, server: _Server) -> None:
        self._base_url = f"http://127.0.0.1:{server.server_port}/v1"

    def as_raw_openai_sdk_client(self) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=self._base_url, api_key="none", max_retries=0)


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Handler) as serving:
        serving.replies, serving.requests = [], []
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield serving
        serving.shutdown()
        thread.join()


def _module(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"quickstart_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def agent(project: Path) -> ModuleType:
    return _module(project / "agent.py")


@pytest.fixture
def judge(project: Path) -> Any:
    return _module(project / "judge.py").ExactAnswer()


def _play(agent: ModuleType, server: _Server, replies: list[dict[str, Any]]) -> WorkflowOutput:
    server.replies[:] = replies
    output = asyncio.run(agent.CalculatorAgent().execute(TASK, _Tuner(server)))
    assert isinstance(output, WorkflowOutput)
    return output


def test_an_answer_without_the_tool_ends_the_episode(agent: ModuleType, server: _Server) -> None:
    output = _play(agent, server, [_said("I do not know.")])
    assert (output.metadata["final_answer"], output.log_metrics["tool_calls"]) == ("I do not know.", 0)


def test_the_result_of_a_call_reaches_the_model(agent: ModuleType, server: _Server) -> None:
    output = _play(agent, server, [_call('{"expression": "57*83"}'), _said("The answer is \\boxed{4731}")])
    assert server.requests[1]["messages"][-1] == {"role": "tool", "tool_call_id": "c1", "content": "4731"}
    assert (output.metadata["final_answer"], output.log_metrics["tool_calls"]) == ("The answer is \\boxed{4731}", 1)


def test_the_call_is_sent_back_as_it_was_received(agent: ModuleType, server: _Server) -> None:
    _play(agent, server, [_call('{"expression":"57*83" }'), _said("done")])
    assert server.requests[1]["messages"][-2]["tool_calls"][0]["function"]["arguments"] == '{"expression":"57*83" }'


def test_the_model_is_asked_with_the_prompt_the_question_and_the_tool(agent: ModuleType, server: _Server) -> None:
    _play(agent, server, [_said("done")])
    request = server.requests[0]
    assert [message["content"] for message in request["messages"]] == ["Use your tools.", "What is 57 * 83?"]
    assert [tool["function"]["name"] for tool in request["tools"]] == ["calculator"]


def test_a_model_that_never_stops_calling_has_no_answer(agent: ModuleType, server: _Server) -> None:
    output = _play(agent, server, [_call('{"expression": "1"}')] * 3)
    assert (output.metadata["final_answer"], output.log_metrics["tool_calls"]) == ("", 3)


@pytest.mark.parametrize(
    ("expression", "value"), [("57*83", "4731"), ("5783", "5783"), ("2+3*4", "14"), ("-(2-5)", "3"), (" 7 * 6 ", "42")]
)
def test_the_calculator_works_out_whole_numbers(agent: ModuleType, expression: str, value: str) -> None:
    assert value == agent.calculate(json.dumps({"expression": expression}))


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps({"expression": "__import__('os').getpid()"}),
        json.dumps({"expression": "9**9**9"}),
        json.dumps({"expression": "1.5*2"}),
        json.dumps({"expression": "True"}),
        json.dumps({"expression": "57*"}),
        json.dumps({"expression": ""}),
        json.dumps({"expr": "57"}),
        json.dumps({"expression": "9" * 5000}),
        json.dumps({"expression": "(" * 300 + ")" * 300}),
        "[]",
        "57*83",
    ],
)
def test_the_calculator_says_what_it_cannot_work_out(agent: ModuleType, arguments: str) -> None:
    assert agent.calculate(arguments).startswith("error: ")


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("The answer is \\boxed{4731}", (1.0, True)),
        ("\\boxed{1}, no: \\boxed{4731}", (1.0, True)),
        ("The answer is \\boxed{4732}", (0.0, False)),
        ("4731", (0.0, False)),
        ("", (0.0, False)),
    ],
)
def test_the_judge_wants_the_boxed_number(judge: Any, answer: str, verdict: tuple[float, bool]) -> None:
    assert verdict == judge.compute_reward(TASK, WorkflowOutput(metadata={"final_answer": answer}))
