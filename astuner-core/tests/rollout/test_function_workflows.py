"""Workflow functions as AgentScope's `tune()` takes them: their arguments, and what they return."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from astuner.contract.errors import PluginError
from astuner.contract.schema import Call, Episode, Task, WorkflowOutput, WorkflowTask
from astuner.contract.user_values.outputs import check_output
from astuner.contract.user_values.responses import restore_response
from astuner.episodes.rollout.permission_stop import describe_permission_stop
from astuner.episodes.rollout.workflow_shape import UnfitWorkflow, check_function
from astuner.episodes.rollout.workflows import FunctionWorkflow, load_workflow
from astuner.runs.store.codec import dump_episode, load_output
from astuner_devkit.episodes import episode

TASK = WorkflowTask(Task("2 + 2?", task_id="t", metadata={"answer": "4"}, columns={"question": "main_query"}))


class Tuner:
    def as_agentscope_model(self) -> Any:
        return SimpleNamespace(stream=True)

    def as_agentscope_auxiliary_models(self) -> dict[str, Any]:
        return {}

    def as_oai_baseurl_apikey(self) -> Any:
        return SimpleNamespace(base_url="http://127.0.0.1:1/v1")


def play(function: Callable[..., Any]) -> WorkflowOutput:
    tuner: Any = Tuner()
    return asyncio.run(FunctionWorkflow(function).execute(TASK, tuner))


def test_every_argument_that_is_named_is_given():
    async def workflow(task: Any, model: Any, auxiliary_models: Any, logger: Any) -> Any:
        assert task == {"question": "2 + 2?", "answer": "4", "main_query": "2 + 2?", "task_id": "t"}
        assert (model.stream, auxiliary_models, logger) == (False, {}, logging.getLogger("astuner.workflow"))
        return SimpleNamespace(reward=1.0, response=None, metrics=None)

    assert play(workflow) == WorkflowOutput(reward=1.0)


def test_other_parameters_may_have_defaults_or_be_any():
    async def workflow(*, model: Any, task: Any, temperature: float = 0.5, **more: Any) -> Any:
        return SimpleNamespace(reward=temperature, metrics={"names": len(more)})

    check_function(workflow)
    assert play(workflow) == WorkflowOutput(reward=0.5, log_metrics={"names": 2})


@pytest.mark.parametrize(
    "function", [lambda task: 1, lambda task, system_prompt: 1, lambda task, model, rubric: 1, lambda task, model, /: 1]
)
def test_a_function_that_cannot_be_called_is_refused(function: Callable[..., Any]):
    with pytest.raises(UnfitWorkflow, match="a workflow function takes `task` and `model`"):
        check_function(function)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("raise ModuleNotFoundError('no', name='agentscope.tuner')", "AgentScope 2 has no such module: return any object with"),
        ("import dspy", "The module agentscope.tuner of AgentScope 1 needs it: pip install dspy"),
        ("import nothing_here", "No module named 'nothing_here'"),
    ],
)
def test_a_missing_module_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, hint: str):
    monkeypatch.setitem(sys.modules, "dspy", None)
    (tmp_path / "flow.py").write_text(f"{line}\n\n\nasync def workflow(task, model): ...\n")
    with pytest.raises(PluginError, match=re.escape(hint)):
        load_workflow("./flow.py:workflow", tmp_path)


def test_an_answer_that_holds_nothing_is_an_error_that_says_what_to_return():
    async def workflow(task: Any, model: Any) -> Any:
        return 7

    with pytest.raises(TypeError, match="the workflow returned 7; it must return an object with `reward`, `response`"):
        play(workflow)


@pytest.mark.parametrize(
    ("response", "metadata", "restored"),
    [
        ("4", {"final_answer": "4"}, "4"),
        ({"value": 4}, {"final_answer": "{'value': 4}", "response": {"value": 4}}, {"value": 4}),
        (4.0, {"final_answer": "4.0", "response": 4.0}, 4.0),
        (SimpleNamespace(get_text_content=lambda: "4"), {"final_answer": "4"}, "4"),
    ],
)
def test_a_response_stays_here_and_what_can_be_stored_of_it_is(response: Any, metadata: dict[str, Any], restored: Any):
    checked = check_output(WorkflowOutput(response=response)).output
    assert (checked.response, checked.metadata) == (response, metadata)
    assert restore_response(checked) is response
    assert restore_response(pickle.loads(pickle.dumps(checked))) == restored
    stored = json.loads(json.dumps(dump_episode(Episode(id="e", task=TASK.task, step=1, repeat=0, output=checked))["output"]))
    assert "response" not in stored
    output, refusal = load_output(stored)
    assert (refusal, output) == (None, checked)
    assert output is not None
    assert restore_response(output) == restored


def make_call(index: int, *wanted: str, results: int = 0) -> Call:
    asked = [{"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}} for name in wanted]
    example = episode("e").calls[0]
    return Call(
        index=index,
        agent="agent",
        target_tag="agent",
        parent=None,
        kept=0,
        prompt_ids=example.prompt_ids,
        output_ids=example.output_ids,
        logprobs=example.logprobs,
        finish_reason="stop",
        messages=[{"role": "tool", "content": "4"}] * results,
        reply={"role": "assistant", "content": "", "tool_calls": asked},
    )


def test_a_permission_stop_is_told_with_the_tool_and_the_remedy():
    text = "I'm waiting for your permission or the external execution to finish."
    said = describe_permission_stop(WorkflowOutput(metadata={"final_answer": text}), (make_call(0, "calculator"),))
    assert said is not None
    assert "calculator" in said
    assert "is_read_only=True" in said


def test_a_tool_that_ends_the_episode_is_no_permission_stop():
    calls = make_call(0, "calculator"), make_call(1, "finish", results=1)
    assert describe_permission_stop(WorkflowOutput(metadata={"final_answer": "4"}), calls) is None
    assert describe_permission_stop(WorkflowOutput(metadata={"final_answer": "4"}), (make_call(0),)) is None
    assert describe_permission_stop(None, (make_call(0, "calculator"),)) is None
