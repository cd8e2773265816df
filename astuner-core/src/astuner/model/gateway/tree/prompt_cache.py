"""Caches the prompts of an episode's latest calls, so that the next call of a conversation costs only what it adds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from astuner.model.gateway.recording.messages import extend_digest

if TYPE_CHECKING:
    from astuner.contract.schema import Ids, Message
    from astuner.model.gateway.recording.request import ChatRequest

KEPT = 16
"""Number of cached calls and conversations: a few agents at a time, since each keeps its whole text."""


@frozen(eq=False)
class Prompt:
    """A rendered prompt and its ids."""

    text: str
    ids: Ids
    _hashed: Any
    """A hash object that has read the text."""

    @property
    def digest(self) -> bytes:
        """The digest of the text."""
        return bytes(self._hashed.digest())

    def extend(self, text: str, ids: Ids) -> Prompt:
        """Return a prompt whose text begins with this one's."""
        hashed = self._hashed.copy()
        hashed.update(text[len(self.text) :].encode())
        return Prompt(text, ids, hashed)


def digest_text(text: str) -> bytes:
    """Return the digest of a text."""
    return bytes(_start_hash(text).digest())


@define(eq=False)
class PromptCache:
    """Gives the same results as a computation from scratch; cache misses only take longer."""

    _prompts: OrderedDict[int, Prompt] = field(factory=OrderedDict, init=False)
    _chains: OrderedDict[tuple[Any, ...], tuple[tuple[Message, ...], list[bytes]]] = field(factory=OrderedDict, init=False)
    _roots: dict[str, tuple[tuple[Mapping[str, Any], ...], Mapping[str, Any], bytes]] = field(factory=dict, init=False)

    def find_prompt(self, call: int | None) -> Prompt | None:
        """Return the prompt of a recent call."""
        return None if call is None else self._prompts.get(call)

    def add_prompt(self, call: int, parent: int | None, text: str, ids: Ids) -> Prompt:
        """Cache the prompt of a call; `parent` is the call that it may continue."""
        earlier = self.find_prompt(parent)
        if earlier is not None and text.startswith(earlier.text):
            made = earlier.extend(text, ids)
        else:
            made = Prompt(text, ids, _start_hash(text))
        _keep(self._prompts, call, made)
        return made

    def digest_prefixes(self, request: ChatRequest, agent: str) -> list[bytes]:
        """Return the rolling digest of the meaning of every prefix of the messages, the empty one first.

        Valid until the next call.
        """
        messages, root = request.messages, self._root(request, agent)
        key = _make_key(root, request)
        earlier, chain = self._chains.get(key, ((), [root]))
        if messages[: len(earlier)] != earlier:
            earlier, chain = (), [root]
        for message in messages[len(earlier) :]:
            chain.append(extend_digest(chain[-1], message))
        _keep(self._chains, key, (messages, chain))
        return chain

    def forget_prefixes(self, request: ChatRequest, agent: str) -> None:
        """Drop a conversation that was refused."""
        self._chains.pop(_make_key(self._root(request, agent), request), None)

    def _root(self, request: ChatRequest, agent: str) -> bytes:
        tools, kwargs, digest = self._roots.get(agent, (None, None, b""))
        if tools != request.tools or kwargs != request.template_kwargs:
            digest = request.make_root_digest(agent)
            self._roots[agent] = (request.tools, request.template_kwargs, digest)
        return digest


def _make_key(root: bytes, request: ChatRequest) -> tuple[Any, ...]:
    return (root, *(message["content"] for message in request.messages[:2]))


def _keep(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > KEPT:
        kept.popitem(last=False)


def _start_hash(text: str) -> Any:
    return blake2b(text.encode(), digest_size=16)
