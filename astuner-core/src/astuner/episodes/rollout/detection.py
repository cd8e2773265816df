"""Watching an episode with the detectors of abnormal behaviour, and how their findings change its reward."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from attrs import frozen

from astuner.contract.protocols import Detector, Sampled
from astuner.contract.schema import Finding, Verdict
from astuner.episodes.containment.endings import describe_raised, is_requested

T = TypeVar("T")

LONGEST_EVIDENCE = 500
"""Characters of evidence that are kept."""


@frozen
class NamedDetector:
    """One detector of a run."""

    name: str
    blame: str
    """The prefix of messages about its failures."""
    detector: Detector


class EpisodeEnded(Exception):
    """A detector ended the episode."""


class Watch:
    """Examines the calls of one attempt of an episode. Lives in the gateway's event loop."""

    def __init__(self, detectors: Sequence[NamedDetector], *, terminates: bool, notify: Callable[[str], None]) -> None:
        """`terminates`: the first finding ends the episode. `notify` hears of detectors that fail."""
        self._detectors = tuple(detectors)
        self._terminates = terminates
        self._notify = notify
        self._found: dict[str, list[Finding]] = {named.name: [] for named in detectors}
        self._ended = asyncio.Event()

    @property
    def findings(self) -> Mapping[str, tuple[Finding, ...]]:
        """What was found so far, by detector."""
        return {name: tuple(found) for name, found in self._found.items()}

    def examine(self, output: Sampled) -> str | None:
        """Ask every detector about a call; return why the episode ends here, or None when it continues."""
        found = {}
        for named in self._detectors:
            evidence = self._ask(named, output)
            if evidence is not None:
                found[named.name] = evidence
                self._found[named.name].append(Finding(call=output.call.index, evidence=evidence))
        if not found or not self._terminates:
            return None
        self._ended.set()
        return "; ".join(f"the detector '{name}' found {evidence}" for name, evidence in found.items())

    async def unless_ended(self, playing: Coroutine[Any, Any, T]) -> T:
        """Return what the coroutine does; cancel it and raise `EpisodeEnded` as soon as a detector ends the episode."""
        if not self._terminates or not self._detectors:
            return await playing
        work = asyncio.ensure_future(playing)
        ending = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait((work, ending), return_when=asyncio.FIRST_COMPLETED)
            if not self._ended.is_set():
                return work.result()
            raise EpisodeEnded
        finally:
            # Wait for its end: what it holds is released before the episode is closed.
            work.cancel()
            ending.cancel()
            await asyncio.gather(work, ending, return_exceptions=True)

    def _ask(self, named: NamedDetector, output: Sampled) -> str | None:
        try:
            evidence = named.detector.look(output)
        except BaseException as error:
            # The boundary for detectors: one that fails has found nothing, and is named.
            if is_requested(error):
                raise
            self._notify(f"{named.blame} raised {describe_raised(error)}; what it would have found there is missing")
            return None
        if evidence is not None and not isinstance(evidence, str):
            self._notify(f"{named.blame} returned {evidence!r:.100}; it must return the evidence as text, or None")
            return None
        return evidence if evidence is None or len(evidence) <= LONGEST_EVIDENCE else f"{evidence[:LONGEST_EVIDENCE]}…"


def abnormal_verdict(findings: Mapping[str, Sequence[Finding]], reward: float) -> Verdict:
    """Return the verdict of an episode in which detectors found something; its rationale says that no judge gave it."""
    told = "; ".join(f"{name} in call {found[0].call}: {found[0].evidence}" for name, found in findings.items() if found)
    return Verdict(reward, False, rationale=f"rollout.agent_madness_reward, since detectors found {told}", presumed=True)
