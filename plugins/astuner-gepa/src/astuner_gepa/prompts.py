"""The texts that are tuned: where they are in an agent's messages, and how others take their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import frozen

from astuner.contract.errors import ConfigError, Problem, RunFailed
from astuner.contract.schema import Call, Group, Message

Candidate = Mapping[str, str]
"""A text for each tuned agent."""

FROZEN = "frozen_agent"
"""Why a call of an agent that is not trained is not; its prompt is not tuned either."""

SHOWN = 120
"""Characters of a system message that an error shows."""


@frozen(kw_only=True)
class Prompt:
    """The place of one text."""

    agent: str
    seed: str
    """What the workflow sends: a system message or a part of one. Empty if the tuned text comes in addition, in front of all."""
    part: bool = False
    """Whether more than the seed is in the message."""

    def place(self, messages: Sequence[Message], text: str) -> tuple[Message, ...]:
        """Return the messages with a text in place of the seed; as they are without the seed, or if the text is there already."""
        if not self.seed:
            return self._put_in_front(messages, text)
        for number, message in enumerate(messages):
            content = message["content"]
            if message["role"] != "system" or self.seed not in content or not (self.part or content == self.seed):
                continue
            # In a conversation that goes on from a stored response, and a text that quotes the seed.
            if self.part and self.seed in text and text in content:
                continue
            changed = {**message, "content": content.replace(self.seed, text, 1)}
            return (*messages[:number], changed, *messages[number + 1 :])
        return tuple(messages)

    def is_held(self, system: str, text: str) -> bool:
        """Whether a system message that was sent has the text in the place of the seed."""
        return system == text if self.seed and not self.part else text in system

    def _put_in_front(self, messages: Sequence[Message], text: str) -> tuple[Message, ...]:
        if not text or not messages:
            return tuple(messages)
        first = messages[0]
        if first["role"] != "system":
            return ({"role": "system", "content": text}, *messages)
        if first["content"] == text or first["content"].startswith(f"{text}\n\n"):
            return tuple(messages)
        return ({**first, "content": f"{text}\n\n{first['content']}"}, *messages[1:])


@frozen(kw_only=True)
class PromptRewriter:
    """What the gateway calls for each request of a trained agent. It crosses processes pickled."""

    prompts: tuple[Prompt, ...]
    texts: Candidate

    def __call__(self, agent: str, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages with the texts of this agent."""
        for prompt in self.prompts:
            if prompt.agent == agent:
                messages = prompt.place(messages, self.texts[agent])
        return messages


class PromptLearner:
    """What plays the episodes, as `astuner.runs.training.rollouts` knows a learner: it has no weights, but rewrites messages."""

    def __init__(self) -> None:
        """Rewrite nothing yet."""
        from astuner.runs.training.learner import LearnerTraits

        self.traits = LearnerTraits(rewrites_messages=True)
        self.rewriter: PromptRewriter | None = None


def find_prompts(groups: Sequence[Group], given: Mapping[str, str]) -> tuple[list[Prompt], list[str]]:
    """Return what is tuned, and notices, from episodes in which the workflow's own messages were sent.

    Raises `ConfigError` for a `given` text that no episode has sent, and `RunFailed` if no trained agent has asked the model.
    """
    sent = _collect_systems(groups)
    if not sent:
        raise RunFailed("no episode of the validation tasks has a call of a trained agent, so there is no prompt to tune")
    if given:
        return [_find_given(agent, text, sent) for agent, text in given.items()], []
    prompts, notices = [], []
    for agent, systems in sent.items():
        texts = set(systems)
        seed = next(iter(texts)) if len(texts) == 1 else None
        prompts.append(Prompt(agent=agent, seed=seed or ""))
        if len(texts) > 1:
            notices.append(
                f"the system message of the agent '{agent}' varies with the task ({len(texts)} different ones in "
                f"{len(systems)} conversations), so the tuned prompt is put in front of it. To tune a part of it that is always "
                f"the same, write that part in gepa.prompts.{agent}"
            )
        elif not seed:
            notices.append(f"the agent '{agent}' sends no system message, so the tuned prompt is added as one, in front")
    return prompts, notices


def count_missed(groups: Sequence[Group], prompts: Sequence[Prompt], texts: Candidate) -> dict[str, int]:
    """Count, by agent, the conversations that did not hold its text."""
    missed: dict[str, int] = {}
    for call in _iterate_openings(groups):
        for prompt in prompts:
            systems = [message["content"] for message in call.messages if message["role"] == "system"]
            if prompt.agent == call.agent and not any(prompt.is_held(system, texts[call.agent]) for system in systems or [""]):
                missed[call.agent] = missed.get(call.agent, 0) + 1
    return missed


def _find_given(agent: str, text: str, sent: Mapping[str, Sequence[str]]) -> Prompt:
    key = f"gepa.prompts.{agent}"
    if agent not in sent:
        message = f"no trained agent of this name asks the model; there are {', '.join(sent)}."
        raise ConfigError([Problem(key=key, message=message)])
    if not any(text in system for system in sent[agent]):
        example = next((system for system in sent[agent] if system), "")
        shown = example if len(example) <= SHOWN else f"{example[:SHOWN]}…"
        what = f"one of them begins {shown!r}" if shown else "it sends none"
        raise ConfigError(
            [Problem(key=key, message=f"this text is in no system message of the agent; {what}. Copy it from there.")]
        )
    return Prompt(agent=agent, seed=text, part=any(text != system for system in sent[agent]))


def _collect_systems(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Return the system message of each conversation, empty where there is none, by agent in the order of their first calls."""
    sent: dict[str, list[str]] = {}
    for call in _iterate_openings(groups):
        first = call.messages[0]
        sent.setdefault(call.agent, []).append(first["content"] if first["role"] == "system" else "")
    return sent


def _iterate_openings(groups: Iterable[Group]) -> Iterator[Call]:
    """Yield the calls that begin conversations of trained agents: those whose messages are stored from the first on."""
    for group in groups:
        for episode in group.episodes:
            yield from (call for call in episode.calls if call.parent is None and call.messages and call.untrained != FROZEN)
