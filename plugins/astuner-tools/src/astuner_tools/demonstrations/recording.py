"""From a demonstration to training samples, as if the model had been called and had sampled each answer of the assistant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from astuner.contract.errors import Problem
from astuner.contract.protocols import EpisodeIdentity, MakeTracker
from astuner.contract.schema import Call, Message, Sample
from astuner.model.gateway.recording.request import ChatRequest
from astuner.model.gateway.tree.token_tree import TokenTree
from astuner.model.rendering.errors import ApiError
from astuner_tools.demonstrations.reading import Demonstration

if TYPE_CHECKING:
    from astuner.contract.schema import Ids
    from astuner.model.rendering import TemplateRenderer

AGENT = "agent"


@frozen(kw_only=True, eq=False)
class RecordedDemonstration:
    """What the trainer gets of a conversation."""

    demonstration: Demonstration
    samples: tuple[Sample, ...]
    untrained: Mapping[str, int]
    """Tokens of the assistant that the run's tracker does not train, by reason code."""


@frozen(kw_only=True, eq=False)
class RecordedDemonstrations:
    """What became of all of them."""

    recorded: Sequence[RecordedDemonstration]
    problems: Sequence[Problem]


def record_demonstrations(
    demonstrations: Sequence[Demonstration], renderer: TemplateRenderer, make_tracker: MakeTracker, *, limit: int
) -> RecordedDemonstrations:
    """Record each with a tracker of its own. One of more than `limit` tokens, or that the template cannot show, is a problem."""
    recorded: list[RecordedDemonstration] = []
    problems: list[Problem] = []
    for demonstration in demonstrations:
        try:
            calls = _record_calls(demonstration, renderer, limit)
        except ApiError as error:
            problems.append(demonstration.describe_problem(error.message))
            continue
        except _AnswerError as error:
            problems.append(demonstration.describe_problem(str(error)))
            continue
        name = f"{demonstration.file.stem}-{demonstration.line}"
        identity = EpisodeIdentity(episode_id=f"demonstration/{name}", task_id=name, repeat=0)
        tracked = make_tracker().samples(calls, identity)
        samples = tuple(tracked.samples)
        recorded.append(RecordedDemonstration(demonstration=demonstration, samples=samples, untrained=tracked.untrained))
    return RecordedDemonstrations(recorded=recorded, problems=problems)


class _AnswerError(Exception):
    """An answer that the model could not have written."""


def _record_calls(demonstration: Demonstration, renderer: TemplateRenderer, limit: int) -> list[Call]:
    tree = TokenTree(renderer)
    calls: list[Call] = []
    tools: tuple[Mapping[str, Any], ...] = demonstration.tools
    for place, message in enumerate(demonstration.messages):
        if message["role"] != "assistant" or place in demonstration.untrained:
            continue
        request = ChatRequest(messages=demonstration.messages[:place], tools=tools, template_kwargs={}, body={})
        placement = tree.place(request, AGENT, renderer.encode)
        answer = _cut_answer(demonstration, place, placement.text, renderer)
        ids = _encode_answer(placement.text, answer, renderer)
        length = len(placement.ids) + len(ids)
        if length > limit:
            raise _AnswerError(
                f"up to messages[{place}] it has {length} tokens, and the context has {limit}. Shorten it, remove it, or raise "
                "rollout.max_model_len if the model's own context is longer"
            )
        index = len(calls)
        tree.add_prompt(index, placement)
        call = Call(
            index=index,
            agent=AGENT,
            target_tag=AGENT,
            parent=placement.parent,
            kept=placement.kept,
            prompt_ids=placement.prompt_ids,
            output_ids=ids,
            logprobs=np.zeros(len(ids), np.float32),
            finish_reason="stop",
            messages=demonstration.messages[placement.known : place],
            reply=message,
            tools=tools if placement.parent is None else (),
        )
        tree.add_reply(placement, call, len(ids), int(ids[-1]))
        calls.append(call)
    return calls


def _cut_answer(demonstration: Demonstration, place: int, prompt: str, renderer: TemplateRenderer) -> str:
    """Return what the model writes after the prompt, with the token that ends its turn."""
    written = renderer.render(demonstration.messages[: place + 1], demonstration.tools, generate=False, kwargs={})
    if not written.startswith(prompt):
        raise _AnswerError(
            f"the model's chat template writes messages[{place}] otherwise than it prompts for it (the prompt ends in "
            f"{prompt[-30:]!r}), so the model could never answer like this. Give the answer the form that the template expects, "
            "such as reasoning in 'reasoning_content', or choose another model"
        )
    answer = written[len(prompt) :]
    closers = renderer.closers.values()
    ends = [(answer.rfind(word), word) for word in closers if word in answer]
    if not ends:
        raise _AnswerError(
            f"the model's chat template writes no end after messages[{place}], so the model would not learn to end its turn. Add "
            "the end token to its chat_template.jinja"
        )
    end, word = max(ends)
    # Some templates write several; the model stops at the first.
    while before := next((other for other in closers if answer[:end].endswith(other)), None):
        end, word = end - len(before), before
    _check_shown(demonstration.messages[place], place, answer[:end])
    return answer[: end + len(word)]


def _check_shown(message: Message, place: int, answer: str) -> None:
    """Raise if the template leaves out a part of an answer."""
    parts = {"content": message["content"], "reasoning_content": message.get("reasoning_content") or ""}
    for name, text in parts.items():
        if text.strip() not in answer:
            raise _AnswerError(
                f"the model's chat template drops the {name} of messages[{place}] ({text.strip()!r:.60}), so it cannot be "
                "learnt. Remove it, or write it where the template shows it"
            )
    for number, call in enumerate(message.get("tool_calls") or ()):
        name = call["function"]["name"]
        if name not in answer:
            raise _AnswerError(
                f"the model's chat template drops messages[{place}].tool_calls[{number}] ({name!r}). Use another model"
            )


def _encode_answer(prompt: str, answer: str, renderer: TemplateRenderer) -> Ids:
    """Return the ids of an answer, as the tokenizer writes them after the prompt."""
    before, whole = renderer.encode(prompt), renderer.encode(prompt + answer)
    if np.array_equal(whole[: len(before)], before):
        return whole[len(before) :].copy()
    # The tokenizer joins the end of the prompt with the answer; a model that is prompted cannot.
    return renderer.encode(answer).copy()
