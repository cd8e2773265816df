from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from astuner.contract.schema import Sample
from astuner.episodes.builtin.trackers.linear import LinearTracker
from astuner.episodes.builtin.trackers.timeline import TimelineTracker
from astuner.model.rendering import TemplateRenderer
from astuner_tools.demonstrations.reading import Demonstration
from astuner_tools.demonstrations.recording import RecordedDemonstrations, record_demonstrations

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


def record(renderer: TemplateRenderer, *messages: Any, tools: Any = (), limit: int = 1000) -> RecordedDemonstrations:
    demonstration = Demonstration(file=Path("demos.jsonl"), line=7, messages=messages, tools=tools)
    return record_demonstrations([demonstration], renderer, TimelineTracker, limit=limit)


def say(role: str, content: str, **others: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **others}


def read_trained(sample: Sample, renderer: TemplateRenderer) -> list[str]:
    """Return the texts of the trained stretches."""
    texts: list[list[int]] = []
    for place, (number, trained) in enumerate(zip(sample.ids.tolist(), sample.mask.tolist(), strict=True)):
        if trained and not sample.mask[place - 1]:
            texts.append([])
        if trained:
            texts[-1].append(number)
    return [renderer.decode(ids) for ids in texts]


def test_every_answer_is_trained_with_its_end_and_nothing_else_is(renderer: TemplateRenderer) -> None:
    messages = (
        say("system", "Be short."),
        say("user", "hi"),
        say("assistant", "hello"),
        say("user", "and?"),
        say("assistant", "bye"),
    )
    [demonstration] = record(renderer, *messages).recorded
    [sample] = demonstration.samples
    assert read_trained(sample, renderer) == ["hello<|im_end|>", "bye<|im_end|>"]
    assert demonstration.untrained == {}
    whole = renderer.render(messages, (), generate=False, kwargs={})
    assert renderer.decode(sample.ids.tolist()) == whole.rstrip("\n")


def test_an_answer_that_is_only_read_is_in_the_prompt_of_the_next_one(renderer: TemplateRenderer) -> None:
    messages = (say("user", "hi"), say("assistant", "hello"), say("user", "and?"), say("assistant", "bye"))
    demonstration = Demonstration(file=Path("demos.jsonl"), line=1, messages=messages, untrained=frozenset({1}))
    [found] = record_demonstrations([demonstration], renderer, TimelineTracker, limit=1000).recorded
    [sample] = found.samples
    assert read_trained(sample, renderer) == ["bye<|im_end|>"]
    whole = renderer.render(messages, (), generate=False, kwargs={})
    assert renderer.decode(sample.ids.tolist()) == whole.rstrip("\n")


def test_a_tool_call_is_trained_and_its_result_is_not(renderer: TemplateRenderer) -> None:
    messages = (
        say("user", "1 + 1?"),
        say("assistant", "", tool_calls=[CALL]),
        say("tool", "2", tool_call_id="1"),
        say("assistant", "It is 2."),
    )
    [demonstration] = record(renderer, *messages, tools=(TOOL,)).recorded
    [sample] = demonstration.samples
    call, answer = read_trained(sample, renderer)
    assert '"name": "add"' in call
    assert call.endswith("<|im_end|>")
    assert answer == "It is 2.<|im_end|>"


def test_reasoning_that_later_prompts_leave_out_is_trained_in_a_row_of_its_own(
    make_renderer: Callable[[str], TemplateRenderer],
) -> None:
    renderer = make_renderer("forgetful")
    messages = (
        say("user", "hi"),
        say("assistant", "hello", reasoning_content="He greets."),
        say("user", "and?"),
        say("assistant", "bye", reasoning_content="He leaves."),
    )
    [demonstration] = record(renderer, *messages).recorded
    assert [read_trained(sample, renderer) for sample in demonstration.samples] == [
        ["<think>\nHe greets.\n</think>\n\nhello<|im_end|>"],
        ["<think>\nHe leaves.\n</think>\n\nbye<|im_end|>"],
    ]
    assert "He greets." not in renderer.decode(demonstration.samples[1].ids.tolist())


def test_what_the_tracker_of_the_run_leaves_out_is_counted(make_renderer: Callable[[str], TemplateRenderer]) -> None:
    renderer = make_renderer("forgetful")
    messages = (
        say("user", "hi"),
        say("assistant", "hello", reasoning_content="He greets."),
        say("user", "and?"),
        say("assistant", "bye", reasoning_content="He leaves."),
    )
    demonstration = Demonstration(file=Path("demos.jsonl"), line=7, messages=messages)
    [recorded] = record_demonstrations([demonstration], renderer, LinearTracker, limit=1000).recorded
    assert list(recorded.untrained) == ["branch_not_linear"]


def test_reasoning_that_the_template_drops_is_refused(make_renderer: Callable[[str], TemplateRenderer]) -> None:
    found = record(make_renderer("plain"), say("user", "hi"), say("assistant", "hello", reasoning_content="He greets."))
    [problem] = found.problems
    assert str(problem).startswith(
        "demos.jsonl:7: the model's chat template drops the reasoning_content of messages[1] ('He greets.')"
    )
    assert found.recorded == []


def test_a_conversation_that_is_too_long_is_refused_with_both_lengths(renderer: TemplateRenderer) -> None:
    [problem] = record(renderer, say("user", "hi " * 50), say("assistant", "hello"), limit=20).problems
    assert "demos.jsonl:7: up to messages[1] it has" in str(problem)
    assert "the context has 20" in str(problem)


def test_messages_that_the_template_refuses_are_refused(make_renderer: Callable[[str], TemplateRenderer]) -> None:
    messages = (say("user", "hi"), say("assistant", "hello"), say("assistant", "there"))
    [problem] = record(make_renderer("alternating"), *messages).problems
    assert "demos.jsonl:7: The model's chat template refuses these messages: roles must alternate" in str(problem)
