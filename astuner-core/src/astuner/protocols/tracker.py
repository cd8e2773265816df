"""What reads training samples off an episode, and may manage its conversation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from attrs import field, frozen

from astuner.schema import Call, Message, Sample


@frozen(kw_only=True)
class Tracked:
    """What a tracker made of an episode's calls."""

    samples: Sequence[Sample]
    untrained: Mapping[str, int] = field(factory=dict)
    """Sampled tokens that no sample trains, by reason code."""
    notices: Mapping[str, str] = field(factory=dict)
    """What a user should read, by what it is about; each is shown once per run and topic."""


@frozen(kw_only=True)
class EpisodeIdentity:
    """What samples carry of their episode."""

    episode_id: str
    task_id: str
    repeat: int


class Tracker(Protocol):
    """Reads training samples off an episode's recorded calls. Made per episode, in the rollout process; data in, data out.

    A tracker that also manages the conversation has the two methods of `ContextPolicy`; without them a model is shown every
    message, and an environment is given every answer as it is.
    """

    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Tracked:
        """Return the samples. Each sampled token is trained at most once, and each untrained one is counted under a reason."""
        ...


@frozen(kw_only=True, eq=False)
class ContextRoom:
    """What a context policy has to work with."""

    max_prompt_tokens: int
    """Most tokens that the messages may take, rendered: the context less the longest answer."""
    count_tokens: Callable[[Sequence[Message]], int]
    """Counts the tokens of messages as the model's template renders them; an estimate where there is no tokenizer."""
    ask_model: Callable[[Sequence[Message], int], Awaitable[str]]
    """Asks the model under training, with the most tokens to answer with; the call is recorded and trained as any other."""


@runtime_checkable
class ContextPolicy(Protocol):
    """What a tracker decides when no workflow does (`rollout.use_agentscope_protocol: false`); one instance per episode."""

    async def view(self, messages: Sequence[Message], room: ContextRoom) -> Sequence[Message]:
        """Return what the model is shown of the whole conversation so far; called before each of its turns."""
        ...

    def action(self, reply: Message) -> Message:
        """Return the assistant message that the environment is given for a reply."""
        ...


MakeTracker = Callable[[], Tracker]
