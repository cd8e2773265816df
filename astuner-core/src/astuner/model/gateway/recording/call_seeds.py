"""Seeds and ids that depend on what is asked, not on time: two runs of an episode give the same transcript."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from astuner.model.gateway.recording.request import ChatRequest


@frozen(eq=False)
class Draw:
    """The seeds of one request."""

    seeds: list[int]
    """One for each choice."""
    key: bytes
    """Identifies prompt and agent."""
    number: int
    """Which of the agent's requests with this prompt it is."""


class Seeds:
    """Makes the seeds of an episode's calls, 64 bits each."""

    def __init__(self, seed: int) -> None:
        """`seed` is the episode's."""
        self._seed = seed
        self._taken: defaultdict[bytes, set[int]] = defaultdict(set)

    def draw(self, request: ChatRequest, agent: str, prompt: bytes) -> Draw:
        """Return seeds that depend on the prompt and how often this agent has sent it before."""
        key = blake2b(f"{self._seed}\0{agent}\0".encode() + prompt, digest_size=16).digest()
        taken = self._taken[key]
        number = next(number for number in count() if number not in taken)
        taken.add(number)
        client_seed = "" if request.seed is None else str(request.seed)
        seeds = [
            int.from_bytes(blake2b(key + f"{number}/{client_seed}/{choice}".encode(), digest_size=8).digest())
            for choice in range(request.n)
        ]
        return Draw(seeds, key, number)

    def give_back(self, draw: Draw) -> None:
        """Let the next request with this prompt have these seeds: the agent never saw what was sampled with them.

        With other seeds, an answer that an agent stops waiting for would be replaced by another, most often a shorter one.
        """
        self._taken[draw.key].discard(draw.number)


class CallIds:
    """Makes the ids that an episode's clients see from the seeds of its calls."""

    def __init__(self, episode_id: str) -> None:
        """Ids of different episodes differ."""
        self._episode_id = episode_id

    def make_response_id(self, agent: str, seed: int) -> str:
        """Return the unique part of a response's id; each API adds its own prefix."""
        return self._digest(agent, seed, "response")

    def number_tool_calls(self, agent: str, seed: int) -> Callable[[int], str]:
        """Return a function that makes the id of the n-th tool call of an answer."""
        # Nine letters and digits: the only form every model's chat template accepts.
        return lambda number: self._digest(agent, seed, str(number))[:9]

    def _digest(self, agent: str, seed: int, what: str) -> str:
        key = f"{self._episode_id}\0{agent}\0{seed}\0{what}"
        return blake2b(key.encode(), digest_size=12).hexdigest()


def derive_seed(*parts: object) -> int:
    """Return 63 bits that depend on every part, and never on when an episode ran."""
    return int.from_bytes(blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest(), "big") >> 1
