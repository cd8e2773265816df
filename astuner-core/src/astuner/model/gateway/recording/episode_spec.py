"""What the gateway needs to know about an episode before its first call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from attrs import field, frozen

from astuner.contract.protocols import Sampled
from astuner.contract.schema import Message, Sampling
from astuner.settings.config.auxiliary_models import AuxiliaryModel

Rewriter = Callable[[str, tuple[Message, ...]], tuple[Message, ...]]
"""From an agent's name and the messages of its request to those that the model sees and the record holds."""


@frozen(kw_only=True)
class EpisodeSpec:
    """One episode that is about to be recorded."""

    episode_id: str
    seed: int
    """All random numbers of the episode's calls derive from it."""
    sampling: Sampling
    """Sampling parameters of trained calls: temperature, top_p, top_k; `max_tokens` limits each call."""
    rewriter: Rewriter | None = None
    """Applied to the requests of trained agents."""
    max_model_len: int
    """Prompt and answer together."""
    max_prompt_length: int | None = None
    """Of the first prompt of a trained agent's conversation; None sets no limit below `max_model_len`."""
    max_response_length: int | None = None
    """Of everything after that prompt in a trained agent's conversation: sampled answers and replies to them."""
    disable_tools: bool = False
    """Remove the tools from every call."""
    trainable_targets: Sequence[str] | None
    """Target tags that are trained; None trains every call."""
    constraints: Literal["ignore", "enforce"] = "ignore"
    """What a grammar that an agent asks for does to its trained calls; `enforce` leaves them untrained."""
    max_steps: int | None = None
    """Calls of each trained agent. Frozen agents are limited by the time of the episode alone."""
    names_changes: bool = True
    """Whether what changes in a conversation before it is sent back is reported: a context tracker changes it on purpose."""
    train: bool = True
    llm_timeout_s: float | None = None
    """For one call, from its beginning to its last token."""
    examine: Callable[[Sampled], str | None] | None = None
    """Examines each trainable call once it is recorded and before its client sees the end. A returned text
    ends the episode: further calls are refused with it."""

    auxiliary_models: Mapping[str, AuxiliaryModel] = field(factory=dict)
    """What the episode's tuner offers besides the model, by name."""
    adapters: Collection[str] = ()
    """Target tags with adapters of their own; if there are any, no others are trained."""
    opponents: Collection[str] = ()
    """Target tags that earlier weights answer."""

    def find_context(self, engine_limit: int | None) -> int:
        """Return the most ids that any prompt and its answer may have together."""
        return min(self.max_model_len, engine_limit or self.max_model_len)

    def find_trained_context(self, engine_limit: int | None) -> int:
        """Return the same for trained agents; a conversation with a short first prompt has less room."""
        limits = [self.find_context(engine_limit)]
        if self.max_prompt_length is not None and self.max_response_length is not None:
            limits.append(self.max_prompt_length + self.max_response_length)
        return min(limits)

    def trains(self, target_tag: str) -> bool:
        """Whether calls of this target are trained."""
        named = self.trainable_targets is None or target_tag in self.trainable_targets
        adapted = not self.adapters or target_tag in self.adapters
        return self.train and named and adapted and target_tag not in {*self.frozen_targets, *self.opponents}

    @property
    def frozen_targets(self) -> frozenset[str]:
        """Target tags of auxiliary models that are the model in training."""
        return frozenset(name for name, chosen in self.auxiliary_models.items() if chosen.is_frozen_target)
