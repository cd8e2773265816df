"""What an episode is as a trace."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tool_episodes import ask_for_tool, make_call, make_episode, make_failed_episode, make_group

from astuner.contract.schema import Episode, Verdict
from astuner.settings.config.secrets import Secrets
from astuner_loggers.otel.drafts import SpanDraft
from astuner_loggers.otel.episode_trace import TraceFacts, draft_trace
from astuner_loggers.otel.messages import MessageConverter, make_cleaner, shorten_texts
from astuner_loggers.otel.selection import ChosenEpisode, choose_episodes
from astuner_loggers.otel.timeline import FIRST_S, place_calls
from astuner_loggers.otel.tool_runs import find_tool_runs

FACTS = TraceFacts(run_id="run-1", model="tiny")
ENOUGH = 1_000_000
PNG = "data:image/png;base64,iVBORw0KGgo="


def draft(episode: Episode, most: int = ENOUGH, secrets: frozenset[str] = frozenset()) -> dict[str, SpanDraft]:
    chosen = ChosenEpisode(group="train/3/sum", episode=episode)
    return {span.key: span for span in draft_trace(chosen, FACTS, make_cleaner(Secrets(secrets)), most).spans}


def write(spans: dict[str, SpanDraft]) -> str:
    return json.dumps([[span.name, span.attributes, span.documents, span.error] for span in spans.values()], ensure_ascii=False)


def read_texts(span: SpanDraft) -> list[str]:
    return [
        part["content"] for message in span.documents["gen_ai.input.messages"] for part in message["parts"] if "content" in part
    ]


def convert(message: dict[str, Any]) -> Any:
    return MessageConverter(str).convert(message)


def test_an_episode_is_an_agent_with_its_calls_and_tools_and_the_root_comes_last() -> None:
    assert {key: span.name for key, span in draft(make_episode()).items()} == {
        "call 0": "chat tiny",
        "call 1": "chat tiny",
        "call 0 tool 0": "execute_tool add",
        "": "invoke_agent solver",
    }
    assert list(draft(make_episode()))[-1] == ""


def test_the_root_has_what_is_known_of_the_episode() -> None:
    root = draft(make_episode(reward=0.0))[""]
    expected = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": "run-1",
        "gen_ai.agent.name": "solver",
        "astuner.episode": "train/3/sum/0",
        "astuner.group": "train/3/sum",
        "astuner.task.id": "sum",
        "astuner.step": 3,
        "astuner.split": "train",
        "astuner.reward": 0.0,
        "astuner.success": False,
        "astuner.abnormal": True,
        "astuner.trained_tokens": 6,
        "astuner.duration_s": 2.0,
        "input.value": "What is 2 + 2?",
        "output.value": "It is 4.",
    }
    assert {name: root.attributes.get(name) for name in expected} == expected
    assert root.documents["astuner.findings"] == [{"detector": "nonsense", "call": 1, "evidence": "gibberish"}]
    assert root.error is None


def test_the_verdict_is_an_evaluation() -> None:
    events = draft(make_episode(reward=1.0))[""].events
    assert [event.name for event in events] == ["gen_ai.evaluation.result"] * 2
    assert events[0].attributes == {
        "gen_ai.evaluation.name": "reward",
        "gen_ai.evaluation.score.value": 1.0,
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.evaluation.explanation": "equal",
    }
    assert events[1].attributes == {"gen_ai.evaluation.name": "exact", "gen_ai.evaluation.score.value": 1.0}


def test_a_failed_episode_is_an_error_without_a_reward() -> None:
    root = draft(make_failed_episode())[""]
    assert (root.error, root.attributes["error.type"]) == ("timeout: it took over 60 s", "timeout")
    assert root.attributes["astuner.failure"] == "timeout"
    assert not {"astuner.reward", "astuner.success"} & set(root.attributes)


def test_an_episode_without_calls_is_its_root_alone() -> None:
    spans = draft(evolve(make_failed_episode(), calls=()))
    assert list(spans) == [""]
    assert read_texts(spans[""]) == ["What is 2 + 2?"]


def test_an_episode_that_was_not_judged_has_no_reward_but_the_reason() -> None:
    attributes = draft(make_episode(reward=None))[""].attributes
    assert attributes["astuner.unjudged"] == "judge_error"
    assert "astuner.reward" not in attributes


def test_rewards_of_agents_and_parts_are_on_the_root() -> None:
    documents = draft(evolve(make_episode(), verdict=Verdict(1.0, rewards={"a.b": 0.5}, components={"x": 2.0})))[""].documents
    assert (documents["astuner.rewards"], documents["astuner.reward_components"]) == ({"a.b": 0.5}, {"x": 2.0})


def test_a_call_has_its_tokens_its_end_and_what_of_it_is_trained() -> None:
    first, second = (draft(make_episode())[f"call {index}"] for index in (0, 1))
    assert first.attributes["gen_ai.response.finish_reasons"] == ["tool_call"]
    assert (first.attributes["gen_ai.usage.input_tokens"], first.attributes["gen_ai.usage.output_tokens"]) == (2, 3)
    assert (second.attributes["gen_ai.usage.input_tokens"], second.attributes["gen_ai.usage.output_tokens"]) == (7, 3)
    assert second.attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert (second.attributes["astuner.trained_tokens"], second.attributes["astuner.continues_call"]) == (3, 0)
    assert second.is_client
    assert (second.attributes["gen_ai.request.model"], second.attributes["astuner.weight_version"]) == ("tiny", 7)


@pytest.mark.parametrize(("ours", "theirs"), [("length", "length"), ("context", "length"), ("abort", "error")])
def test_other_ends_have_the_names_of_the_conventions(ours: str, theirs: str) -> None:
    call = make_call(0, [{"role": "user", "content": "?"}], {"role": "assistant", "content": "!"}, finish_reason=ours)
    span = draft(make_episode(calls=[call]))["call 0"]
    assert span.attributes["gen_ai.response.finish_reasons"] == [theirs]
    assert span.documents["gen_ai.output.messages"][0]["finish_reason"] == theirs


def test_each_call_has_its_whole_conversation() -> None:
    messages = draft(make_episode())["call 1"].documents["gen_ai.input.messages"]
    assert messages == [
        {"role": "system", "parts": [{"type": "text", "content": "Use your tool."}]},
        {"role": "user", "parts": [{"type": "text", "content": "What is 2 + 2?"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "I add."},
                {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 2, "b": 2}},
            ],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "4"}]},
    ]


def test_conversations_that_are_too_large_together_have_only_new_messages() -> None:
    spans = draft(make_episode(query="x" * 1000), most=1500)
    assert read_texts(spans["call 0"]) == ["Use your tool.", "x" * 1000]
    assert [message["role"] for message in spans["call 1"].documents["gen_ai.input.messages"]] == ["tool"]
    assert "the messages of call 0 are left out" in str(spans["call 1"].attributes["astuner.shortened"])


def test_offered_tools_are_with_the_call_that_brought_them() -> None:
    (tool,) = draft(make_episode())["call 0"].documents["gen_ai.tool.definitions"]
    assert (tool["type"], tool["name"], tool["description"]) == ("function", "add", "Adds.")


def test_a_tool_has_what_it_was_given_and_what_it_returned() -> None:
    tool = draft(make_episode())["call 0 tool 0"]
    assert tool.documents == {"gen_ai.tool.call.arguments": {"a": 2, "b": 2}, "gen_ai.tool.call.result": "4"}
    assert (tool.attributes["gen_ai.tool.name"], tool.attributes["gen_ai.tool.call.id"]) == ("add", "c1")


def test_arguments_that_are_no_json_are_text() -> None:
    first = make_call(0, [{"role": "user", "content": "?"}], ask_for_tool(arguments='{"a": 2'))
    second = make_call(1, [{"role": "tool", "tool_call_id": "c1", "content": "what?"}], {"role": "assistant"}, parent=first)
    assert draft(make_episode(calls=[first, second]))["call 0 tool 0"].documents["gen_ai.tool.call.arguments"] == '{"a": 2'


def test_a_tool_call_that_nothing_answers_was_not_run() -> None:
    asked = make_call(0, [{"role": "user", "content": "?"}], ask_for_tool())
    assert list(find_tool_runs([asked])) == []


def test_answers_are_those_of_their_own_turn_where_every_turn_has_the_same_ids() -> None:
    calls = [make_call(0, [{"role": "user", "content": "?"}], ask_for_tool())]
    for index, content in ((1, "one"), (2, "two")):
        answered = [{"role": "tool", "tool_call_id": "c1", "content": content}]
        calls.append(make_call(index, answered, ask_for_tool(), parent=calls[-1]))
    assert [run.answer["content"] for run in find_tool_runs(calls)] == ["one", "two"]


def test_answers_are_found_where_each_call_stores_the_whole_conversation() -> None:
    question, asked = {"role": "user", "content": "?"}, ask_for_tool()
    told = {"role": "tool", "tool_call_id": "c1", "content": "4"}
    calls = [make_call(0, [question], asked), make_call(1, [question, asked, told], {"role": "assistant", "content": "4"})]
    assert [run.answer["content"] for run in find_tool_runs(calls)] == ["4"]


def test_another_agents_tool_does_not_answer() -> None:
    told = {"role": "tool", "tool_call_id": "c1", "content": "4"}
    other = [{"role": "user", "content": "!"}, ask_for_tool(name="other"), told]
    calls = [make_call(0, [{"role": "user", "content": "?"}], ask_for_tool()), make_call(1, other, {"role": "assistant"})]
    assert list(find_tool_runs(calls)) == []


def test_agents_are_named_on_their_calls_and_together_on_the_root() -> None:
    calls = [
        make_call(index, [{"role": "user", "content": "?"}], {"role": "assistant", "content": "!"}, agent=agent)
        for index, agent in enumerate(("planner", "coder", "planner"))
    ]
    spans = draft(make_episode(calls=calls))
    assert spans[""].attributes["gen_ai.agent.name"] == "planner, coder"
    assert [spans[f"call {index}"].attributes["gen_ai.agent.name"] for index in range(3)] == ["planner", "coder", "planner"]


def test_images_are_parts_of_their_own_kind() -> None:
    content = [{"type": "image_url", "image_url": {"url": PNG}}, {"type": "image_url", "image_url": {"url": "http://host/x"}}]
    assert convert({"role": "user", "content": content})["parts"] == [
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "iVBORw0KGgo="},
        {"type": "uri", "modality": "image", "uri": "http://host/x"},
    ]


def test_a_long_text_loses_its_middle_and_a_large_image_everything() -> None:
    parts = convert({"role": "user", "content": [{"type": "text", "text": "a" * 60 + "b" * 40}, {"image_url": PNG}]})["parts"]
    text, image = shorten_texts(parts, 10)
    assert text["content"] == "aaaaaa [... 91 characters ...] bbb"
    assert image == {"type": "text", "content": "[... image, image/png, 12 characters ...]"}


def test_no_text_has_a_secret() -> None:
    secret = "sesame-9-open"
    call = make_call(
        0,
        [{"role": "user", "content": f"I am {secret}", "name": secret}],
        ask_for_tool(arguments=json.dumps({"key": secret, secret: 1}), reasoning_content=secret),
        tools=({"type": "function", "function": {"name": "f", "description": secret}},),
    )
    told = [{"role": "tool", "tool_call_id": "c1", "content": f"{secret} it is"}]
    last = make_call(1, told, {"role": "assistant", "content": secret}, parent=call)
    episode = evolve(make_episode(query=secret, calls=[call, last]), verdict=Verdict(1.0, rationale=secret))
    spans = draft(episode, secrets=frozenset({secret}))
    assert secret in write(draft(episode))
    assert secret not in write(spans)
    assert [event for event in spans[""].events if secret in str(event.attributes)] == []


@given(st.text())
def test_every_text_can_be_encoded_and_stored(text: str) -> None:
    call = make_call(0, [{"role": "user", "content": text + "\udc80\0"}], {"role": "assistant", "content": text})
    written = write(draft(make_episode(calls=[call])))
    assert "\\u0000" not in written
    written.encode()


@given(st.sampled_from([make_episode(), make_episode(reward=0.0), make_episode(reward=None), make_failed_episode()]))
def test_no_attribute_is_named_like_the_beginning_of_another(episode: Episode) -> None:
    for span in draft(episode).values():
        names = {**span.attributes, **span.documents}
        assert [(one, two) for one, two in combinations(sorted(names), 2) if two.startswith(f"{one}.")] == []


durations = st.floats(min_value=0, max_value=1e4)


@given(st.lists(durations, max_size=8), durations)
def test_calls_keep_their_durations_and_their_order_and_begin_within_the_episode(latencies: list[float], duration: float) -> None:
    placed = place_calls(latencies, duration)
    assert [end - start for start, end in placed] == pytest.approx(latencies, abs=1e-6)
    assert [start for start, _ in placed] == sorted(start for start, _ in placed)
    assert all(start <= duration * (1 + 1e-9) + FIRST_S for start, _ in placed)


def test_calls_that_took_longer_than_the_episode_overlap() -> None:
    assert place_calls([2.0, 2.0], 2.0) == [(FIRST_S, 2.0 + FIRST_S), (1.0 + FIRST_S, 3.0 + FIRST_S)]


def test_a_trace_is_as_long_as_its_episode_and_tools_take_no_time() -> None:
    spans = draft(make_episode())
    assert (spans[""].start_s, spans[""].end_s) == (0.0, 2.0)
    assert spans["call 0 tool 0"].start_s == spans["call 0 tool 0"].end_s == spans["call 0"].end_s


def make_groups(step: int) -> list[Any]:
    return [make_group(*(make_episode(n, task=f"t{task}", step=step) for n in range(2))) for task in range(40)]


def test_a_share_is_the_same_tasks_in_every_step_with_all_their_episodes() -> None:
    first, second = (choose_episodes(make_groups(step), share=0.5, most=1000) for step in (1, 2))
    tasks = [one.episode.task.task_id for one in first]
    assert tasks == [one.episode.task.task_id for one in second]
    assert 0 < len(tasks) < 80
    assert {tasks.count(task) for task in tasks} == {2}


@given(st.integers(1, 100), st.floats(0.01, 1))
def test_never_more_are_sent_than_wanted(most: int, share: float) -> None:
    assert len(choose_episodes(make_groups(1), share=share, most=most)) <= most


def test_all_are_sent_by_default_in_their_order() -> None:
    groups = make_groups(1)
    chosen = choose_episodes(groups, share=1.0, most=80)
    assert [one.episode for one in chosen] == [episode for group in groups for episode in group.episodes]
