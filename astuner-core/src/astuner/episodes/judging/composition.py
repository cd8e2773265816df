"""Several judges as one: gates, weights and shaping, each judge's own reward kept as a component."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from astuner.contract.protocols import Judge
from astuner.contract.schema import Episode, Group, Task, Unjudged, Verdict
from astuner.episodes.judging.failures import collect_observations, collect_verdicts
from astuner.episodes.judging.simple_judges import PartwiseJudge
from astuner.settings.config.rewards import RewardComposition, Shape, order_by_requirements

log = logging.getLogger(__name__)

OVERLONG = "overlong"
"""The component under which the penalty for length is logged."""
ABSTAINED = "abstained"
"""The reason if a judge has no opinion; also of an episode of which no judge has one."""
NO_JUDGE = "no_judge_for_task"
"""The reason if no judge is for the task of an episode."""
_BLIND = "astuner_unobserved"
"""Key in the observations of a judge: why it has none, as reason and text."""


def combine_judges(judges: Sequence[WeightedJudge], how: RewardComposition | None = None) -> Judge | None:
    """Return the only judge, if its reward is not changed, or one that combines all; None for none.

    Raises `ValueError` for gates that no order satisfies.
    """
    how = how or RewardComposition()
    if not judges:
        return None
    if len(judges) == 1 and judges[0] == WeightedJudge(judges[0].name, 1.0, judges[0].judge) and how == RewardComposition():
        return judges[0].judge
    return Composition(judges, how)


class Composition(PartwiseJudge):
    """Asks judges round by round, and combines their rewards into one."""

    def __init__(self, judges: Sequence[WeightedJudge], how: RewardComposition) -> None:
        """Raises `ValueError` for gates that no order satisfies."""
        self._judges = {weighted.name: weighted for weighted in judges}
        self._how = how
        self._lacking = {weighted.name: set(weighted.only) for weighted in judges if weighted.only}
        self._rounds = order_by_requirements({weighted.name: weighted.requires for weighted in judges})

    async def observe(self, episode: Episode, environment: Any) -> Mapping[str, Any]:
        """Let each judge observe; observations are stored under the judge's name."""
        return await self.observe_within(episode, environment, None)

    async def observe_within(self, episode: Episode, environment: Any, timeout_s: float | None) -> Mapping[str, Any]:
        """Let each judge observe for at most `timeout_s`; one that fails does not judge the episode."""
        judges = [weighted for weighted in self._judges.values() if weighted.is_for(episode.task)]
        looks = (collect_observations(weighted.judge, episode, environment, timeout_s) for weighted in judges)
        seen = [
            {_BLIND: [found.reason, found.detail]} if isinstance(found, Unjudged) else found
            for found in await asyncio.gather(*looks)
        ]
        return {weighted.name: found for weighted, found in zip(judges, seen, strict=True) if found}

    async def judge_within(self, group: Group, timeout_s: float | None) -> Sequence[Verdict | Unjudged]:
        """Ask every judge whose gates an episode passes; an episode that one of them could not judge stays unjudged."""
        found: dict[str, dict[str, Verdict | Unjudged]] = {episode.id: {} for episode in group.episodes if episode.completed}
        for names in self._rounds:
            answers = await asyncio.gather(*(self._ask(self._judges[name], group, found, timeout_s) for name in names))
            for name, answer in zip(names, answers, strict=True):
                for episode_id, verdict in answer.items():
                    found[episode_id][name] = verdict
        return [self._build_verdict(episode, found[episode.id]) for episode in group.episodes if episode.completed]

    async def close(self) -> None:
        """Close each judge, even if one fails."""
        for name, fields in self._lacking.items():
            log.warning("judge '%s' judged nothing: no task has %s (task_judge.judges[].only)", name, ", ".join(sorted(fields)))
        closing = await asyncio.gather(*(weighted.judge.close() for weighted in self._judges.values()), return_exceptions=True)
        for error in closing:
            if error is not None:
                raise error

    async def _ask(
        self,
        weighted: WeightedJudge,
        group: Group,
        found: Mapping[str, Mapping[str, Verdict | Unjudged]],
        timeout_s: float | None,
    ) -> dict[str, Verdict | Unjudged]:
        """Return a judge's verdicts by episode, for those that pass its gates."""
        completed = [episode for episode in group.episodes if episode.completed and weighted.is_for(episode.task)]
        if all(_read_field(group.task, name) is not None for name in weighted.only):
            self._lacking.pop(weighted.name, None)
        passing = [episode for episode in completed if self._passes(weighted, found[episode.id])]
        seen = {episode.id: episode.observations.get(weighted.name, {}) for episode in passing}
        blind: dict[str, Verdict | Unjudged] = {
            one: Unjudged(reason=said[_BLIND][0], detail=said[_BLIND][1]) for one, said in seen.items() if _BLIND in said
        }
        asked = [episode for episode in passing if episode.id not in blind]
        if not asked:
            return blind
        ids = {episode.id for episode in asked}
        episodes = tuple(
            evolve(episode, observations=seen.get(episode.id, {}))
            for episode in group.episodes
            if not episode.completed or episode.id in ids
        )
        answers = await collect_verdicts(weighted.judge, evolve(group, episodes=episodes), timeout_s)
        return blind | {episode.id: verdict for episode, verdict in zip(asked, answers, strict=True)}

    def _passes(self, weighted: WeightedJudge, found: Mapping[str, Verdict | Unjudged]) -> bool:
        needed = ((found.get(name), least) for name, least in weighted.requires.items())
        return all(isinstance(verdict, Verdict) and verdict.reward >= least for verdict, least in needed)

    def _build_verdict(self, episode: Episode, found: Mapping[str, Verdict | Unjudged]) -> Verdict | Unjudged:
        failed = {name: result for name, result in found.items() if isinstance(result, Unjudged) and result.reason != ABSTAINED}
        # What the answer caused comes before what a service did, which would leave the episode out.
        for name, result in sorted(failed.items(), key=lambda item: not item[1].by_answer):
            # A judge that only records does not discard a reward.
            if self._counts(name):
                return evolve(result, detail=f"judge '{name}': {result.detail}")
        silent = self._find_silent(episode.task, found)
        if not any(weighted.weight > 0 and name not in silent for name, weighted in self._judges.items()):
            return _describe_silence(episode.task, found)
        verdicts = {name: result for name, result in found.items() if isinstance(result, Verdict)}
        components: dict[str, float] = {}
        for name, verdict in verdicts.items():
            components[name] = verdict.reward
            components.update({f"{name}.{part}": value for part, value in verdict.components.items()})
        # A mean over those that passed the gate alone would be one over the better episodes.
        closed = {n: one for n, one in self._judges.items() if n not in found and n not in silent and one.weight > 0}
        components |= {name: weighted.shape.undo(weighted.otherwise) for name, weighted in closed.items()}
        penalty = 0.0
        if self._how.overlong is not None:
            # What a frozen agent said is not the model's doing.
            own = (call for call in episode.calls if call.untrained != "frozen_agent")
            penalty = components[OVERLONG] = self._how.overlong(sum(len(call.output_ids) for call in own))
        agents = dict.fromkeys(agent for verdict in verdicts.values() for agent in verdict.rewards or ())
        decided = [verdict.is_success for verdict in verdicts.values() if verdict.is_success is not None]
        rationales = [f"{name}: {verdict.rationale}" for name, verdict in verdicts.items() if verdict.rationale]
        return Verdict(
            self._combine_rewards(verdicts, silent, None) + penalty,
            self._combine_successes([*decided, *(False for _ in closed)]),
            rewards={agent: self._combine_rewards(verdicts, silent, agent) + penalty for agent in agents} or None,
            components=components,
            rationale="\n".join(rationales) or None,
            presumed=bool(closed) and not decided,
        )

    def _find_silent(self, task: Task, found: Mapping[str, Verdict | Unjudged]) -> set[str]:
        """Return the judges that have no say in an episode: not for its task, abstaining, or behind a gate of such a judge."""
        silent: set[str] = set()
        for name in (name for names in self._rounds for name in names):
            weighted, result = self._judges[name], found.get(name)
            abstained = isinstance(result, Unjudged) and result.reason == ABSTAINED
            if abstained or not weighted.is_for(task) or (result is None and weighted.requires.keys() & silent):
                silent.add(name)
        return silent

    def _counts(self, name: str) -> bool:
        """Whether a judge's verdict affects the reward, by its weight or as a gate."""
        return self._judges[name].weight > 0 or any(name in weighted.requires for weighted in self._judges.values())

    def _combine_rewards(self, verdicts: Mapping[str, Verdict], silent: Collection[str], agent: str | None) -> float:
        """Combine the shared rewards, or those of an agent: a judge that does not name the agent gives it the shared reward."""
        terms = []
        for name, weighted in self._judges.items():
            verdict = verdicts.get(name)
            if name in silent:
                continue
            if verdict is None:
                terms.append((weighted.weight, weighted.otherwise))
            else:
                own = verdict.reward if agent is None else (verdict.rewards or {}).get(agent, verdict.reward)
                terms.append((weighted.weight, weighted.shape(own)))
        return self._how.shape(self._combine(terms))

    def _combine(self, terms: Sequence[tuple[float, float]]) -> float:
        total = sum(weight * reward for weight, reward in terms)
        if self._how.combine == "sum":
            return total
        counted = [(weight, reward) for weight, reward in terms if weight > 0]
        if not counted:
            return 0.0
        rewards = [reward for _, reward in counted]
        match self._how.combine:
            case "mean":
                return total / sum(weight for weight, _ in counted)
            case "product":
                return math.prod(rewards)
            case "min":
                return min(rewards)
        return max(rewards)

    def _combine_successes(self, decided: Sequence[bool]) -> bool | None:
        if not decided or self._how.success is None:
            return None
        return all(decided) if self._how.success == "all" else any(decided)


def _describe_silence(task: Task, found: Mapping[str, Verdict | Unjudged]) -> Unjudged:
    """Return that no judge whose weight counts has a say in the reward, and why."""
    silent = [f"'{name}': {result.detail}" for name, result in found.items() if isinstance(result, Unjudged)]
    if silent:
        return Unjudged(reason=ABSTAINED, detail=f"no judge has an opinion on task {task.task_id!r}: {'; '.join(silent)}")
    return Unjudged(reason=NO_JUDGE, detail=f"no judge with a weight is for task {task.task_id!r} (task_judge.judges[].only)")


@frozen
class WeightedJudge:
    """One judge among several, and the terms on which it counts."""

    name: str
    weight: float
    judge: Judge
    requires: Mapping[str, float] = field(factory=dict)
    """The least reward, by name of another judge, at which this one judges."""
    otherwise: float = 0.0
    """Its reward if it did not judge."""
    shape: Shape = field(factory=Shape)
    only: Mapping[str, Any] = field(factory=dict)
    """The values, by field of a task, for which it judges."""

    def is_for(self, task: Task) -> bool:
        """Whether it judges episodes of a task."""
        return is_task_of(task, self.only)


def is_task_of(task: Task, only: Mapping[str, Any]) -> bool:
    """Whether the fields of a task have the values of `task_judge.judges[].only`."""
    return all(_has_value(task, name, wanted) for name, wanted in only.items())


def _has_value(task: Task, name: str, wanted: Any) -> bool:
    found = _read_field(task, name)
    wanted = wanted if isinstance(wanted, list | tuple) else [wanted]
    return found in wanted or found == wanted or (isinstance(found, list | tuple) and any(one in wanted for one in found))


def _read_field(task: Task, name: str) -> Any:
    """Return a field of a task, or what is at a path such as `extra_info.split` in its metadata; None if it has none."""
    found: Any = {"task_id": task.task_id, "env_type": task.env_type, "main_query": task.main_query} | dict(task.metadata)
    for key in [name] if name in found else name.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found
