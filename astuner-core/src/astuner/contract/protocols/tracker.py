"""The protocols of trackers, which make training samples of an episode, and may manage its conversation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from attrs import field, frozen

from astuner.contract.protocols.traits import promise
from astuner.contract.schema import Call, Message, Sample


@frozen(kw_only=True)
class Tracked:
    """The samples that a tracker made from an episode's calls."""

    samples: Sequence[Sample]
    untrained: Mapping[str, int] = field(factory=dict)
    """Sampled tokens that no sample trains, by reason code."""
    notices: Mapping[str, str] = field(factory=dict)
    """Notices for the user, by topic; each topic is shown once per run."""


@frozen(kw_only=True)
class EpisodeIdentity:
    """The parts of an episode that samples carry."""

    episode_id: str
    task_id: str
    repeat: int


@frozen(kw_only=True)
class TrackerTraits:
    """What a tracker decides beyond samples."""

    manages_context: bool = promise("view", "action")
    """The two methods of `ContextPolicy`: what the model is shown, and what the environment gets, where no workflow decides."""


class Tracker(Protocol):
    """Makes training samples from an episode's recorded calls. Made per episode, in the rollout process; data in, data out.

    Its class may have `traits` (`TrackerTraits`). One that does not manage the context leaves it as it is: a model is shown every
    message, and an environment is given every answer.
    """

    def samples(self, calls: Sequence[Call], identity: EpisodeIdentity) -> Tracked:
        """Return the samples. Each sampled token is trained at most once, and each untrained one is counted under a reason."""


@frozen(kw_only=True, eq=False)
class ContextRoom:
    """The tools of a context policy."""

    max_prompt_tokens: int
    """Most tokens that the messages may take, rendered: the context less the longest answer."""
    count_tokens: Callable[[Sequence[Message]], Awaitable[int]]
    """Counts the tokens of messages as the model's template renders them; an estimate without a tokenizer. What is certainly more
    than the context is not counted to its end."""
    ask_model: Callable[[Sequence[Message], int], Awaitable[str]]
    """Asks the model under training, with a limit on the answer's tokens; the call is recorded and trained like any other."""


class ContextPolicy(Protocol):
    """A tracker's decisions when no workflow makes them (`rollout.use_agentscope_protocol: false`); one instance per episode."""

    async def view(self, messages: Sequence[Message], room: ContextRoom) -> Sequence[Message]:
        """Return what the model is shown of the whole conversation so far; called before each of its turns."""

    def action(self, reply: Message) -> Message:
        """Return the assistant message that the environment gets for a reply."""


MakeTracker = Callable[[], Tracker]
