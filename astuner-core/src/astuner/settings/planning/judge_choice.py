"""Choosing the judges: one by `judge_type` or `judge_protocol`, or those of the list `judges`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from astuner.contract.errors import ConfigError, DataError, Problem
from astuner.contract.protocols import JudgeTraits, has_methods, read_traits
from astuner.contract.schema import Split, Task
from astuner.contract.user_values.named_arguments import check_methods, read_form
from astuner.episodes.judging.composition import is_task_of
from astuner.settings.config.rewards import JudgeChoice
from astuner.settings.planning.key_coverage import find_changed_keys, format_idle_keys
from astuner.settings.plugins.async_methods import format_place, is_plain_function
from astuner.settings.plugins.component import Component
from astuner.settings.plugins.drivers import load
from astuner.settings.plugins.raised_errors import blame_component

if TYPE_CHECKING:
    from astuner.episodes.judging.foreign_functions import TrlFunction, VerlFunction
    from astuner.settings.config.components import TaskJudge
    from astuner.settings.config.loading import LoadedConfig
    from astuner.settings.planning.chooser import Chooser

LLM_KEYS = ("task_judge.alien_llm_model", "task_judge.alien_llm_response_length")

OWN_JUDGE = "customized_protocol"
"""The `judge_type` that means: the judge named by `judge_protocol`, or the workflow's own rewards."""


@frozen(kw_only=True)
class NamedJudge:
    """A judge as a configuration names it."""

    spec: str
    """A name, or the place of its code."""
    key: str
    """Which key names it, below `astuner`."""
    section: str
    """The key of its options."""
    values: Mapping[str, Any]
    """Its options, as written."""
    terms: JudgeChoice | None = None
    """Of one among several: how it counts."""

    @property
    def known_as(self) -> str | None:
        """Its name among several; None for a single one."""
        return None if self.terms is None else self.terms.known_as

    def choose(self, chooser: Chooser) -> Component | None:
        """Return the component; None after noting its problems."""
        key = f"astuner.{self.key}"
        found = chooser.choose("judge", self.spec, key, self.values, self.section, words=(OWN_JUDGE,))
        if found is not None:
            chooser.attempt(lambda: _check_async(found, key))
            chooser.attempt(lambda: _check_form(found, key))
        return None if found is None else evolve(found, terms=self.terms)


def _check_async(judge: Component, key: str) -> None:
    """Raise `ConfigError` for a judge of groups that cannot be awaited; `compute_reward` may be a plain `def`."""
    with blame_component(judge.candidate):
        target = load(judge.candidate)
        methods = {name: getattr(target, name, None) for name in ("judge", "observe")} if isinstance(target, type) else {}
        plain = [f"{name}{format_place(method)}" for name, method in methods.items() if method and is_plain_function(method)]
    if plain:
        message = f"{judge.candidate.blame}: {', '.join(plain)} must be awaited: write `async def`"
        raise ConfigError([Problem(key=key, message=message)])


def _check_form(judge: Component, key: str) -> None:
    """Raise `ConfigError` for a judge that cannot be called with what it is given."""
    with blame_component(judge.candidate):
        target = load(judge.candidate)
    try:
        if isinstance(target, type):
            check_methods(target)
        elif callable(target) and not has_methods(target, "compute_reward") and not has_methods(target, "judge", "observe"):
            read_form(target)
    except TypeError as error:
        raise ConfigError([Problem(key=key, message=f"{judge.candidate.blame}: {error}")]) from error


class RowsToJudge:
    """Checks that each row has what judges in verl's or TRL's form take of it; raises `DataError` for the first without."""

    def __init__(self, judges: Sequence[Component]) -> None:
        """Load the judges."""
        found = [(judge, _find_foreign(load(judge.candidate))) for judge in judges]
        self._functions = [(judge, function) for judge, function in found if function is not None]

    def check(self, task: Task, split: Split) -> None:
        """Look at a task."""
        for judge, function in self._functions:
            if judge.terms is not None and not is_task_of(task, judge.terms.only):
                continue
            try:
                function.read_columns(task)
            except LookupError as lack:
                place, name = f"task '{task.task_id}' ({split})", judge.candidate.blame
                raise DataError(f"{place}: {name} cannot judge it: {lack}. Give it one, or the parameter a default") from None


def _find_foreign(judge: Any) -> VerlFunction | TrlFunction | None:
    """Return a function, or the method of a class or an object, that is called as verl or TRL does; None for another one."""
    function: Any = getattr(judge, "compute_reward", None if isinstance(judge, type) else judge)
    if isinstance(judge, type) and inspect.isfunction(inspect.getattr_static(judge, "compute_reward", None)):
        function = partial(function, None)
    if not callable(function) or has_methods(judge, "judge", "observe") or (form := read_form(function)) not in ("verl", "trl"):
        return None
    from astuner.episodes.judging.foreign_functions import TrlFunction, VerlFunction

    return VerlFunction(function) if form == "verl" else TrlFunction(function)


def list_named_judges(judge: TaskJudge) -> list[NamedJudge]:
    """Return the judges of a configuration, in its order; none if the workflow gives the rewards."""
    if judge.judges:
        return [_of_several(judge, position, choice) for position, choice in enumerate(judge.judges)]
    key = "judge_protocol" if judge.judge_type == OWN_JUDGE else "judge_type"
    spec = judge.judge_protocol if judge.judge_type == OWN_JUDGE else judge.judge_type
    if spec is None:
        return []
    return [NamedJudge(spec=spec, key=f"task_judge.{key}", section=f"task_judge.{spec}", values=judge.get_options(spec))]


def _of_several(judge: TaskJudge, position: int, choice: JudgeChoice) -> NamedJudge:
    place = f"task_judge.judges[{position}]"
    return NamedJudge(
        spec=choice.judge,
        key=f"{place}.judge",
        section=f"{place}.options" if choice.options else f"task_judge.{choice.judge}",
        values=choice.options or judge.get_options(choice.judge),
        terms=choice,
    )


def find_judge_notices(loaded: LoadedConfig, judges: Sequence[Component]) -> Iterator[str]:
    """Yield notices on the keys of an LLM that no judge asks.

    Judges list the keys that they read in their traits; the user's own code with `from_run` may read them.
    """
    honoured: set[str] = set()
    for judge in judges:
        with blame_component(judge.candidate):
            target = load(judge.candidate)
            if judge.candidate.dist is None and has_methods(target, "from_run"):
                honoured |= set(LLM_KEYS)
            honoured |= set(read_traits(target, JudgeTraits).honours)
    left = [key for key in LLM_KEYS if key not in honoured]
    yield from format_idle_keys(left, find_changed_keys(loaded), "no judge of this run reads it")
