"""The contract of judges: one verdict per completed episode, and failures that are never scores."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar
from unittest import SkipTest

from attrs import evolve

from astuner.contract.protocols import has_methods
from astuner.contract.schema import Episode, Group, Unjudged, Verdict
from astuner_devkit.contracts.base import Contract, self_contained
from astuner_devkit.contracts.shape import assert_method, find_call_problem
from astuner_devkit.contracts.snapshot import find_changes, take_snapshot
from astuner_devkit.contracts.sum_groups import make_sum_group
from astuner_devkit.contracts.unreadable_groups import WAYS
from astuner_devkit.contracts.verdict_comparison import AnyVerdict, agree, describe, list_numbers

Pair = tuple[Episode, AnyVerdict]

AT_RANDOM = (
    "A judge that draws at random cannot be checked: set its temperature to 0 in `options`, or script its answers in `make`"
)


class JudgeRaised(AssertionError):
    """A judge raised; distinct from a broken rule, since some rules let a judge fail."""


class JudgeContract(Contract):
    """Rules for judges: a whole `astuner.Judge`, a class with `compute_reward`, or a function.

    A function is named as `component = staticmethod(score)` or as `component = "acme:score"`.
    """

    kind = "judge"
    timeout_s: ClassVar[float] = 60.0
    """Time limit for a group."""

    def group(self) -> Group:
        """Return a group that the judge can judge, with several completed episodes and a failed one; made-up sums by default."""
        return make_sum_group(7, 5)

    def groups(self) -> Sequence[Group]:
        """Return groups that are judged at once: other sums, or, with your own group, that and each sibling alone."""
        if type(self).group is JudgeContract.group:
            return [make_sum_group(7, 5), make_sum_group(20, 1), make_sum_group(-3, 4)]
        group = self.group()
        return [group, *(_keep_only(group, episode) for episode in _list_completed(group))]

    def break_calls(self, judge: Any) -> None:
        """Make every external call of this judge fail (to a model, a server). Override it if there are any."""

    @self_contained
    def test_it_is_a_judge(self) -> None:
        """A judge has `judge(group)`, or `compute_reward(workflow_task, workflow_output)`, or is a function of these two."""
        target, blame = self.target(), self._blame
        simple = "compute_reward(self, workflow_task, workflow_output)"
        if inspect.isroutine(target):
            wrong = find_call_problem(target, ["workflow_task", "workflow_output"])
            assert not wrong, f"{blame} is called with (workflow_task, workflow_output), and does not take that: {wrong}"
        elif has_methods(target, "observe", "judge"):
            missing = sorted(getattr(target, "__abstractmethods__", ()))
            assert not missing, f"{blame} lacks {', '.join(missing)}, which every astuner.Judge has"
            assert_method(target, "judge", ["group"], blame=blame, is_async=True)
            assert_method(target, "observe", ["episode", "environment"], blame=blame, is_async=True)
        elif getattr(target, "judge", None) is not None and getattr(target, "compute_reward", None) is None:
            raise AssertionError(f"{blame} has `judge` and no `observe`: subclass astuner.Judge, or write `{simple}`")
        else:
            assert getattr(target, "compute_reward", None) is not None, (
                f"{blame} has neither `judge` nor `compute_reward`: subclass astuner.Judge, or write `{simple}`"
            )
            assert_method(target, "compute_reward", ["workflow_task", "workflow_output"], blame=blame, is_async=None)

    def test_it_judges_its_group(self, tmp_path: Path) -> None:
        """The group is one that the judge can judge: else the other rules would check nothing."""
        pairs = self._judge_group(tmp_path, self.group())
        reasons = [f"{verdict.reason}: {verdict.detail}" for _, verdict in pairs if isinstance(verdict, Unjudged)]
        assert len(reasons) < len(pairs), (
            f"{self._blame} judged no episode of the group ({'; '.join(reasons) or 'no episode is completed'}): "
            "override `group()` with one that it can judge"
        )

    def test_each_completed_episode_gets_one_verdict(self, tmp_path: Path) -> None:
        """There is one verdict per completed episode and none for a failed one, also when only one sibling is completed."""
        group = self.group()
        lone = [_keep_only(group, episode, among_failed=True) for episode in _list_completed(group)[:1]]
        for some in (group, *lone):
            self._judge_group(tmp_path, some)

    def test_answers_are_verdicts_or_failures(self, tmp_path: Path) -> None:
        """Every verdict is a Verdict, or Unjudged with its reason; a simple judge gives a float, (float, bool) or a Verdict."""
        for episode, verdict in self._judge_group(tmp_path, self.group()):
            known = isinstance(verdict, Verdict | Unjudged)
            assert known, f"{self._name(episode)} is {verdict!r:.120}: return astuner.Verdict(reward), or raise"
            if isinstance(verdict, Unjudged):
                assert verdict.reason != "bad_verdict", f"{self._name(episode)}: {verdict.detail}"
                assert verdict.reason, (
                    f"{self._name(episode)} is Unjudged without a reason: give a short code, as in `judge_error`"
                )

    def test_rewards_are_finite_numbers(self, tmp_path: Path) -> None:
        """Rewards, those per agent and components are finite numbers, never None, NaN or True; success is a bool or None."""
        for episode, verdict in self._judge_group(tmp_path, self.group()):
            if isinstance(verdict, Unjudged):
                assert verdict.reason != "bad_verdict", f"{self._name(episode)}: {verdict.detail}"
            if not isinstance(verdict, Verdict):
                continue
            for name, number in list_numbers(verdict).items():
                finite = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
                assert finite, (
                    f"{self._name(episode)}: {name} is {number!r} ({type(number).__name__}): give a finite Python float; "
                    "raise where there is no score"
                )
            decided = verdict.is_success is None or isinstance(verdict.is_success, bool)
            assert decided, f"{self._name(episode)}: is_success is {verdict.is_success!r}: give a bool or None"

    def test_verdicts_follow_the_episodes(self, tmp_path: Path) -> None:
        """An episode gets the same verdict wherever it stands among its siblings: verdicts are in the order of the episodes."""
        group = self.group()
        expected = {episode.id: verdict for episode, verdict in self._judge_group(tmp_path, group)}
        for turned in (_reorder(group, group.episodes[::-1]), _reorder(group, [*group.episodes[1:], group.episodes[0]])):
            for episode, verdict in self._judge_group(tmp_path, turned):
                assert agree(verdict, expected[episode.id]), (
                    f"{self._name(episode)} was {describe(expected[episode.id])}, and {describe(verdict)} with its siblings in "
                    f"another order: return verdicts in the order of the group's completed episodes. {AT_RANDOM}"
                )

    def test_the_group_stays_as_it_is(self, tmp_path: Path) -> None:
        """Judging changes nothing of the group: others judge it too, and it is stored."""
        group = self.group()
        before = take_snapshot(group)
        self._judge_group(tmp_path, group)
        changed = find_changes(before, take_snapshot(group))
        assert not changed, f"{self._blame} changed the group that it judged: {'; '.join(changed[:5])}. Work on a copy"

    def test_a_failure_is_never_a_score(self, tmp_path: Path) -> None:
        """When its input cannot be read, the judge raises or returns `Unjudged`: a failure is never a score, not even 0."""
        touched = False
        for what, break_it in WAYS.items():
            group, broken = break_it(self.group())
            try:
                pairs = self._judge_group(tmp_path, group)
            except JudgeRaised:
                touched = True
                continue
            for episode, verdict in pairs:
                touched = touched or broken[episode.id].touched
                assert not broken[episode.id].touched or isinstance(verdict, Unjudged), (
                    f"{self._name(episode)} is {describe(verdict)} although {what} cannot be read: raise (it is counted, "
                    "and the episode takes no part in the update); a default score would be trained on"
                )
        if not touched:
            raise SkipTest("it read nothing that the contract can break")

    def test_a_broken_call_is_never_a_score(self, tmp_path: Path) -> None:
        """When an external call fails (see `break_calls`), the judge raises or returns `Unjudged`."""
        if type(self).break_calls is JudgeContract.break_calls:
            raise SkipTest("`break_calls` is not overridden: nothing is called, as far as the contract knows")
        try:
            pairs = self._judge_group(tmp_path, self.group(), before=self.break_calls)
        except JudgeRaised:
            return
        for episode, verdict in pairs:
            assert isinstance(verdict, Unjudged), (
                f"{self._name(episode)} is {describe(verdict)} although its calls failed: let the error out, or return "
                "Unjudged(reason=…); a default score would be trained on"
            )

    def test_groups_can_be_judged_at_once(self, tmp_path: Path) -> None:
        """Several groups judged at once get the same verdicts as in sequence: a judge is made once per process and shared."""
        groups = self.groups()
        one_by_one = self._judge(tmp_path, groups)
        at_once = self._judge(tmp_path, groups, at_once=True)
        for alone, together in zip(one_by_one, at_once, strict=True):
            for (episode, expected), (_, verdict) in zip(alone, together, strict=True):
                assert agree(verdict, expected), (
                    f"{self._name(episode)} was {describe(expected)} alone, and {describe(verdict)} when other groups were "
                    f"judged at the same time: keep nothing about a group or an episode on `self`. {AT_RANDOM}"
                )

    def make(self, directory: Path) -> Any:
        """Return the judge as core makes it, before it is adapted; a function is taken as it is."""
        target = self.target()
        return super().make(directory) if isinstance(target, type) else target

    def _judge_group(self, directory: Path, group: Group, before: Callable[[Any], None] | None = None) -> list[Pair]:
        """Return the completed episodes of a group, each with its verdict."""
        return self._judge(directory, [group], before=before)[0]

    def _judge(
        self, directory: Path, groups: Sequence[Group], *, at_once: bool = False, before: Callable[[Any], None] | None = None
    ) -> list[list[Pair]]:
        from astuner.episodes.judging.simple_judges import make_judge

        made = self.make(directory)
        judge = make_judge(made, blame=self._blame)
        if before is not None:
            before(made)

        async def ask() -> list[list[Pair]]:
            try:
                if at_once:
                    return list(await asyncio.gather(*(self._ask(judge, group) for group in groups)))
                return [await self._ask(judge, group) for group in groups]
            finally:
                if has_methods(made, "close") and inspect.isawaitable(closing := made.close()):
                    await closing

        return asyncio.run(ask())

    async def _ask(self, judge: Any, group: Group) -> list[Pair]:
        blame, completed = self._blame, _list_completed(group)
        try:
            async with asyncio.timeout(self.timeout_s) as limit:
                verdicts = list(await judge.judge(group))
        except Exception as error:
            if isinstance(error, TimeoutError) and limit.expired():
                raise AssertionError(
                    f"{blame} gave no verdicts within {self.timeout_s:g} s: set `timeout_s` for a slow judge"
                ) from error
            remedy = "override `group()` when it needs other data than made-up sums"
            raise JudgeRaised(f"{blame} raised {type(error).__name__}: {error}: {remedy}") from error
        assert len(verdicts) == len(completed), (
            f"{blame} gave {len(verdicts)} verdicts for {len(completed)} completed episodes of {len(group.episodes)}: "
            "return one for each episode whose `completed` is true, and none for the others"
        )
        return list(zip(completed, verdicts, strict=True))

    def _name(self, episode: Episode) -> str:
        return f"{self._blame}: the verdict on episode {episode.id!r}"


def _list_completed(group: Group) -> list[Episode]:
    return [episode for episode in group.episodes if episode.completed]


def _keep_only(group: Group, episode: Episode, *, among_failed: bool = False) -> Group:
    """Return the group with one completed episode; failed ones stay with `among_failed`."""
    kept = [other for other in group.episodes if other is episode or (among_failed and not other.completed)]
    return evolve(group, episodes=tuple(kept))


def _reorder(group: Group, episodes: Sequence[Episode]) -> Group:
    # Repeats count up along a group, so they belong to the place, not the episode.
    return evolve(group, episodes=tuple(evolve(episode, repeat=place) for place, episode in enumerate(episodes)))
