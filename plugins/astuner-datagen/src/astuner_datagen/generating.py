"""Requests in waves until there are enough questions: each wave asks for exactly what is still missing."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from math import ceil

from attrs import define, field, frozen

from astuner.shared.clients import LLMBudgetSpent, LLMFailed
from astuner_datagen.drafts import Draft, Source
from astuner_datagen.duplicates import find_repeats
from astuner_datagen.question_requests import Asker, RequestOutcome
from astuner_datagen.reasons import classify_failure
from astuner_datagen.sources import Sources
from astuner_datagen.vectors import InParts, Unembedded
from astuner_judges.embedding import Embedding

HOPELESS = 8
"""After this many failures without an answer no further requests are sent."""

Place = tuple[int, int, int]
"""Position of a draft: turn, source, place in the answer."""


@frozen(kw_only=True)
class GenerationRequest:
    """What to make."""

    sources: Sources
    count: int
    per_request: int
    taken: Mapping[str, str] = field(factory=dict)
    """Texts that no question may be like, with the reason to count."""


@frozen(kw_only=True)
class GenerationResult:
    """The result of a generation."""

    drafts: tuple[Draft, ...]
    requests: int
    """Sources asked, with or without success."""
    failed: Mapping[str, int]
    """Requests without an answer, by reason."""
    dropped: Mapping[str, int]
    """Questions that were not kept, by reason."""
    examples: Mapping[str, str]
    """Details of the first one, by reason."""
    stopped: str | None
    """Why it ended before there were enough; None if there are."""


@define(eq=False)
class Generation:
    """One generation."""

    asker: Asker
    wanted: GenerationRequest
    embedding: Embedding | None
    threshold: float
    least_yield: float
    """A turn is the last unless this share of its requested questions is new and kept."""
    wave: int
    """Most requests started together."""
    progress: Callable[[int, int, int], object]
    """Called after each wave with questions kept and wanted, and requests so far."""

    _drafts: dict[Place, Draft] = field(factory=dict, init=False)
    _written: dict[tuple[int, int], tuple[str, ...]] = field(factory=dict, init=False)
    _kept: list[Draft] = field(factory=list, init=False)
    _unsifted: int = field(default=0, init=False)
    _repeats: Counter[str] = field(factory=Counter, init=False)
    _failed: Counter[str] = field(factory=Counter, init=False)
    _dropped: Counter[str] = field(factory=Counter, init=False)
    _examples: dict[str, str] = field(factory=dict, init=False)
    _answered: int = field(default=0, init=False)
    _requests: int = field(default=0, init=False)
    _blank: list[tuple[Source, list[str]]] = field(factory=list, init=False)
    """Requests that gave no question."""

    async def run(self) -> GenerationResult:
        """Ask until there are enough, nothing new comes, or a limit is reached."""
        if (stopped := await self._prepare()) is not None:
            return self._build_result(stopped)
        for turn in count():
            before, requests = len(self._kept), self._requests
            stopped = await self._turn(turn)
            stopped = await self._sift() or stopped
            if stopped is not None or self._missing <= 0:
                break
            # The first turn is never the last: failures pass, and dropped questions are replaced.
            new, wanted = len(self._kept) - before, (self._requests - requests) * self.wanted.per_request
            if turn > 0 and (new <= 0 or new < self.least_yield * wanted):
                stopped = self._explain_end(max(new, 0), wanted)
                # In the cache, they would answer the next generation too. If a limit ended this one, they stay: the next would
                # only pay for them again, and get no further.
                await asyncio.gather(
                    *(self.asker.forget(source, self.wanted.per_request, earlier) for source, earlier in self._blank)
                )
                break
        return self._build_result(stopped)

    def _build_result(self, stopped: str | None) -> GenerationResult:
        surplus = max(0, len(self._kept) - self.wanted.count)
        dropped = self._dropped + self._repeats + Counter({"surplus": surplus})
        return GenerationResult(
            drafts=tuple(self._kept[: self.wanted.count]),
            requests=self._requests,
            failed=dict(sorted(self._failed.items())),
            dropped=dict(sorted((+dropped).items())),
            examples=self._examples,
            stopped=stopped,
        )

    @property
    def _missing(self) -> int:
        return self.wanted.count - len(self._kept)

    async def _prepare(self) -> str | None:
        """Have an API embed the texts that no question may be like, before paying for questions; return why it fails."""
        if isinstance(self.embedding, InParts) and self.wanted.taken:
            try:
                await self.embedding.vectors(list(self.wanted.taken))
            except Unembedded as error:
                return str(error)
        return None

    async def _turn(self, turn: int) -> str | None:
        """Go through all sources while tasks are missing; return why no more may be asked."""
        waiting = deque(enumerate(self.wanted.sources(turn)))
        earlier = self._collect_written(turn)
        most = self.wave
        while waiting and self._missing > 0:
            size = min(ceil((self._missing - self._unsifted) / self.wanted.per_request), most, len(waiting))
            refusal = None if size <= 0 else await self._run_wave(turn, waiting, earlier, size)
            if not self._answered and self._failed.total() >= HOPELESS:
                return f"none of the first {self._failed.total()} requests was answered"
            if refusal is not None and size > 1:
                # Fewer questions need a smaller reserve for comparisons.
                most = size // 2
                continue
            if refusal is not None and not self._unsifted:
                return refusal
            # If all were refused, comparing the present ones releases the excess reserve.
            if (refusal is not None or size <= 0) and (stopped := await self._sift()) is not None:
                return stopped
            most = self.wave
        return None

    async def _run_wave(
        self, turn: int, waiting: deque[tuple[int, Source]], earlier: Mapping[tuple[str, str], list[str]], size: int
    ) -> str | None:
        """Ask the first waiting sources, and put back those that a limit refuses; return why, if it refuses all."""
        try:
            self._hold(size * self.wanted.per_request)
        except LLMBudgetSpent as error:
            return str(error)
        begun = [waiting.popleft() for _ in range(size)]
        found = await asyncio.gather(*(self._ask_source(source, earlier.get(source.key, [])) for _, source in begun))
        refused, spent = [], ""
        for (position, source), answer in zip(begun, found, strict=True):
            if isinstance(answer, LLMBudgetSpent):
                refused.append((position, source))
                spent = str(answer)
            elif isinstance(answer, LLMFailed):
                self._count_failure(answer, source)
            else:
                self._take(turn, position, answer)
                if not answer.questions:
                    self._blank.append((source, earlier.get(source.key, [])))
        self._requests += size - len(refused)
        self.progress(len(self._kept) + self._unsifted, self.wanted.count, self._requests)
        # A request under way counts at its maximum cost: there may be room again when it has ended.
        waiting.extendleft(reversed(refused))
        return spent if len(refused) == size else None

    def _hold(self, questions: int) -> None:
        """Reserve the cost of comparing this many questions with all others; raises `LLMBudgetSpent`."""
        if isinstance(self.embedding, InParts):
            self.embedding.hold((draft.question for draft in self._drafts.values()), questions)

    async def _ask_source(self, source: Source, earlier: list[str]) -> RequestOutcome | LLMFailed | LLMBudgetSpent:
        try:
            return await self.asker.ask(source, self.wanted.per_request, earlier)
        except (LLMFailed, LLMBudgetSpent) as error:
            return error

    def _take(self, turn: int, position: int, answer: RequestOutcome) -> None:
        self._answered += 1
        self._written[turn, position] = answer.questions
        self._dropped.update(answer.dropped)
        for reason, example in answer.examples.items():
            self._examples.setdefault(reason, example)
        for number, draft in enumerate(answer.drafts):
            self._drafts[turn, position, number] = draft
        self._unsifted += len(answer.drafts)

    def _count_failure(self, error: LLMFailed, source: Source) -> None:
        reason = classify_failure(error)
        self._failed[reason] += 1
        self._examples.setdefault(reason, f"{source.place}: {error}")

    async def _sift(self) -> str | None:
        """Find the drafts that stay, and return why some could not be compared.

        In the order of their sources, so that the order of the answers does not matter.
        """
        drafts = [self._drafts[place] for place in sorted(self._drafts)]
        stopped = None
        try:
            reasons = await self._find_repeats(drafts)
        except Unembedded as error:
            # Those before it have vectors, and are kept.
            stopped = str(error)
            drafts = drafts[: max(0, error.first - len(self.wanted.taken))]
            reasons = await self._find_repeats(drafts) if drafts else []
        self._kept = [draft for draft, reason in zip(drafts, reasons, strict=True) if reason is None]
        self._repeats = Counter(reason for reason in reasons if reason is not None)
        self._unsifted = 0
        for draft, reason in zip(drafts, reasons, strict=True):
            if reason is not None:
                self._examples.setdefault(reason, f"{draft.source.place}: {draft.question}")
        return stopped

    async def _find_repeats(self, drafts: Sequence[Draft]) -> list[str | None]:
        return await find_repeats([draft.question for draft in drafts], self.wanted.taken, self.embedding, self.threshold)

    def _collect_written(self, turn: int) -> dict[tuple[str, str], list[str]]:
        """Return the questions of the turns before, in their order."""
        found: dict[tuple[str, str], list[str]] = {}
        for before in range(turn):
            for position, source in enumerate(self.wanted.sources(before)):
                found.setdefault(source.key, []).extend(self._written.get((before, position), ()))
        return found

    def _explain_end(self, new: int, wanted: int) -> str:
        failed = self._failed.total()
        brought = f"{new} new for the {wanted} that it asked for (least_yield: {self.least_yield:g})" if new else "nothing new"
        return f"asking all over once more brought {brought}" + (f", and {failed} requests failed" if failed else "")
