"""Decides which row of the KV cache a request gets, and finds already computed prefixes of its prompt."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astuner_local.engine.kv_cache import ROWS, STRIDE, KvCache, round_up
from astuner_local.engine.prefixes import PrefixIndex, common_prefix, prefix_keys
from astuner_local.engine.slots import Generation, Slot

_FIRST_LENGTH = 256


class Placement:
    """The slots of a KV cache, and the sequences in them.

    A prompt is computed once: prefixes in the session's own sequences, or any other, are kept or copied. Keys and values depend
    only on the ids, so this changes no result, and neither does evicting the least recently used sequence.
    """

    def __init__(self, cache: KvCache, *, max_rows: int, max_length: int, max_tokens: int) -> None:
        """Hold at most `max_rows` sequences and `max_tokens` = rows * length, of at most `max_length` tokens each."""
        self._cache = cache
        self._max_length = round_up(max_length, STRIDE)
        self._max_tokens = max(max_tokens, ROWS * self._max_length)
        self._max_rows = max_rows
        self._index = PrefixIndex()
        self._by_session: dict[str, list[Slot]] = {}
        self._released: set[str] = set()
        self._clock = 0
        self.slots: list[Slot] = []
        self.running: list[Slot] = []
        """Slots with a request, in the order in which they were placed."""
        self.preempted: list[Generation] = []
        """Requests that lost their slot to longer sequences, to be placed again."""
        self.shared = 0
        """Prompt tokens that were already computed."""

    def place(self, generation: Generation) -> bool:
        """Give a request a slot; False when it has to wait: for room, or for a running request that computes the same prompt."""
        self._clock += 1
        self._released.discard(generation.request.session)
        self._fit(generation.known)
        ids = generation.tokens[: generation.known]
        usable = len(ids) - 1  # The last token is always run, for its logits.
        keys = prefix_keys(ids.tolist())
        donor = self._index.find(keys)
        promised = 0 if donor is None else min(common_prefix(_get_known_ids(donor), ids), usable)
        ready = 0 if donor is None else min(promised, donor.length)
        own, kept = self._find_continued(generation.request.session, ids, usable)
        if promised > max(ready, kept):
            return False
        slot = own if own is not None and kept >= ready and self._keeps_in_place(own, kept) else None
        if slot is None:
            source, size = (own, kept) if own is not None and kept >= ready else (donor, ready)
            slot = self._find_vacant(keep=source)
            if slot is None and own is not None:
                slot, source, size = own, own, kept
            if slot is None:
                return False
            if source is not None and source is not slot and size:
                self._cache.copy(source.index, slot.index, size)
            kept = size
        self.shared += kept
        self._occupy(slot, generation, kept)
        self._index.add(slot, keys)
        return True

    def finish(self, slot: Slot) -> None:
        """Let a slot's request go; its sequence stays for the session's next call."""
        slot.generation = None
        slot.used = self._clock
        self.running.remove(slot)
        if slot.session in self._released:
            self._free(slot)

    def release(self, session: str) -> None:
        """Free the slots of a session; those with a request, once it ends."""
        for slot in list(self._by_session.get(session, ())):
            if slot.idle:
                self._free(slot)
            else:
                self._released.add(session)

    def forget(self) -> None:
        """Drop all keys and values; running requests compute theirs again."""
        for slot in self.slots:
            if slot.idle:
                self._free(slot)
            self._index.discard(slot)
            slot.length = 0
        self._cache.clear()

    def make_room(self) -> None:
        """Make room for the tokens that the running requests are about to add."""
        self._fit(max((slot.generation.known for slot in self.running if slot.generation is not None), default=0))

    def compact(self) -> None:
        """Move the running slots to the front when about a third of the rows up to the last would be computed for nothing."""
        count = len(self.running)
        last = max((slot.index for slot in self.running), default=-1)
        if last + 1 <= 1.5 * count + 4:
            return
        high = [slot for slot in self.running if slot.index >= count]
        low = [slot for slot in self.slots[:count] if slot.generation is None]
        length = max(slot.length for slot in [*high, *low])
        self._cache.exchange([slot.index for slot in low], [slot.index for slot in high], length)
        for one, other in zip(low, high, strict=True):
            one.index, other.index = other.index, one.index
            self.slots[one.index], self.slots[other.index] = one, other

    def _find_continued(self, session: str, ids: NDArray[np.int32], usable: int) -> tuple[Slot | None, int]:
        """Return the session's idle slot with the longest common prefix, and its length."""
        best, most = None, -1
        for slot in self._by_session.get(session, ()):
            if slot.idle:
                size = min(common_prefix(_get_known_ids(slot), ids), usable)
                if size > most:
                    best, most = slot, size
        return best, max(most, 0)

    def _keeps_in_place(self, slot: Slot, kept: int) -> bool:
        """Whether to cut a slot down to the prefix, rather than copy that and leave the slot to a later call."""
        return kept >= slot.length - 1 or 2 * kept >= slot.length

    def _fit(self, tokens: int) -> None:
        """Make the cache long enough for sequences of `tokens` tokens; it grows with them, since few reach the limit."""
        if tokens > self._cache.length:
            length = max(round_up(tokens, _FIRST_LENGTH), 2 * self._cache.length)
            self._resize(max(self._cache.rows, ROWS), min(self._max_length, length))

    def _find_vacant(self, keep: Slot | None) -> Slot | None:
        """Return a free slot: the lowest one, or a new one, or that of the least recently used sequence."""
        for slot in self.slots:
            if slot.session is None:
                return slot
        more = min(2 * self._cache.rows, round_up(self._max_rows, ROWS))
        if more > self._cache.rows and more * self._cache.length <= self._max_tokens:
            fresh = len(self.slots)
            self._resize(more, self._cache.length)
            return self.slots[fresh]
        idle = [slot for slot in self.slots if slot.idle and slot is not keep]
        if not idle:
            return None
        oldest = min(idle, key=lambda slot: slot.used)
        self._free(oldest)
        return oldest

    def _resize(self, rows: int, length: int) -> None:
        """Give the cache another size; of the sequences that no longer fit, the idle ones go first, then the youngest."""
        rows = min(rows, self._max_tokens // length // ROWS * ROWS)
        order = sorted(self.slots, key=self._claim)
        for slot in order[rows:]:
            if slot.generation is not None:
                self.preempted.append(slot.generation)
                self.finish(slot)
            self._free(slot)
        kept = order[:rows]
        self._cache.reshape([slot.index for slot in kept], rows, length)
        for index, slot in enumerate(kept):
            slot.index = index
        self.slots = kept + [Slot(index=index) for index in range(len(kept), rows)]

    def _claim(self, slot: Slot) -> tuple[int, int]:
        if slot.generation is not None:
            return 0, slot.used
        return (1, -slot.used) if slot.idle else (2, slot.index)

    def _occupy(self, slot: Slot, generation: Generation, kept: int) -> None:
        session = generation.request.session
        if slot.session != session:
            self._free(slot)
            slot.session = session
            self._by_session.setdefault(session, []).append(slot)
        slot.ids, slot.length, slot.generation, slot.used = generation.tokens, kept, generation, self._clock
        self.running.append(slot)

    def _free(self, slot: Slot) -> None:
        if slot.session is not None:
            siblings = self._by_session[slot.session]
            siblings.remove(slot)
            if not siblings:
                del self._by_session[slot.session]
        self._index.discard(slot)
        slot.session, slot.length, slot.ids = None, 0, slot.ids[:0]


def _get_known_ids(slot: Slot) -> NDArray[np.int32]:
    """Return the ids that a slot has computed, or is about to compute."""
    return slot.ids[: slot.length if slot.generation is None else slot.generation.known]
