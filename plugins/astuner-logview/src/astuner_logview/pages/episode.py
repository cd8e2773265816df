"""The page of an episode."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from astuner.contract.schema import Call, Episode
from astuner.contract.token_streams import prompt_length
from astuner.episodes.transcript.conversations import name_conversations
from astuner.episodes.transcript.trained_tokens import mark_trained_tokens
from astuner_logview.errors import BadRequest, Missing
from astuner_logview.index.message_text import list_tool_calls, read_content, read_reasoning
from astuner_logview.index.schema import SPLITS
from astuner_logview.library import Library
from astuner_logview.pages.episode_rows import describe_row
from astuner_logview.pages.lookups import find_group, find_row
from astuner_logview.pages.outcome import describe_failure, describe_output, describe_verdict
from astuner_logview.pages.problems import list_problems
from astuner_logview.pages.turns import Turn, describe_message, describe_turns, list_new_messages
from astuner_logview.parameters import Parameters
from astuner_logview.tokens.paths import list_paths


def show_episode(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return an episode, without its tokens."""
    run = library.find(parameters.run)
    row = find_row(run, parameters.read_text("id"))
    episode = library.episodes.read(run.path, row)
    task = episode.task
    with run.index.open() as connection:
        before, after = (
            connection.execute(
                f"SELECT id FROM episodes WHERE place{sign}? ORDER BY place {order} LIMIT 1", (row["place"],)
            ).fetchone()
            for sign, order in (("<", "DESC"), (">", "ASC"))
        )
    siblings = find_group(run, SPLITS[row["split"]], row["step"], row["task"])
    return {
        **describe_row(row),
        "task_id": task.task_id,
        "task": {
            "id": task.task_id,
            "query": task.main_query,
            "messages": [describe_message(message) for message in task.init_messages],
            "metadata": dict(task.metadata),
            "env_type": task.env_type,
        },
        "output": describe_output(episode),
        "verdict": describe_verdict(episode.verdict),
        "failures": [describe_failure(failure) for failure in episode.failures],
        "findings": [
            {"detector": name, "call": one.call, "evidence": one.evidence}
            for name, found in episode.findings.items()
            for one in found
        ],
        "observations": dict(episode.observations),
        "calls": describe_calls(episode, describe_turns(episode)),
        "paths": list_paths(episode),
        "lanes": list_lanes(episode),
        "advantages": json.loads(row["advantages"]),
        "siblings": [{"id": one["id"], "repeat": one["repeat"], "reward": one["reward"]} for one in siblings],
        "previous": before["id"] if before else None,
        "next": after["id"] if after else None,
        "untrained": dict(episode.untrained),
        "problems": list_problems(run),
    }


def show_text(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return the whole of a message that was cut."""
    run = library.find(parameters.run)
    episode = library.episodes.read(run.path, find_row(run, parameters.read_text("id")))
    number, part = parameters.read_number("call"), parameters.find_choice("part", ("reply", "messages"))
    said: dict[str, list[Any]] = {}
    for call in episode.calls:
        messages = list_new_messages(call, said)
        if call.index != number:
            continue
        place = parameters.find_number("message") or 0
        if part == "messages" and not 0 <= place < len(messages):
            raise BadRequest(f"message: the call has {len(messages)} new messages", "count from 0")
        message = call.reply if part == "reply" else messages[place]
        return {
            "text": read_content(message.get("content")),
            "reasoning": read_reasoning(message),
            "tool_calls": list_tool_calls(message),
        }
    raise Missing(f"the episode has no call {number}", "its page lists the calls")


def describe_calls(episode: Episode, turns: list[Turn]) -> list[dict[str, Any]]:
    """Return a row for each call."""
    trained, names = mark_trained_tokens(episode), name_conversations(episode.calls)
    return [
        {**_describe_call(call, turn, int(trained[call.index].sum())), "conversation": names.get(call.index)}
        for call, turn in zip(episode.calls, turns, strict=True)
    ]


def list_lanes(episode: Episode) -> list[dict[str, Any]]:
    """Return the calls by agent and target."""
    found: dict[tuple[str, str], list[Call]] = {}
    for call in episode.calls:
        found.setdefault((call.agent, call.target_tag), []).append(call)
    return [
        {
            "agent": agent,
            "target_tag": tag,
            "trained": any(call.untrained is None and len(call.output_ids) for call in calls),
            "calls": [call.index for call in calls],
        }
        for (agent, tag), calls in found.items()
    ]


def _describe_call(call: Call, turn: Turn, trained: int) -> dict[str, Any]:
    return {
        "index": call.index,
        "agent": call.agent,
        "target_tag": call.target_tag,
        "parent": call.parent,
        "kept": call.kept,
        "prompt_tokens": prompt_length(call),
        "output_tokens": len(call.output_ids),
        "trained_tokens": trained,
        "untrained": call.untrained,
        "finish_reason": call.finish_reason,
        "weights": [[span.start, span.version] for span in call.weights],
        "latency_s": call.latency_s,
        "temperature": call.temperature,
        "turn": turn,
        "mean_logprob": float(np.mean(call.logprobs, dtype=np.float64)) if len(call.logprobs) else None,
    }
