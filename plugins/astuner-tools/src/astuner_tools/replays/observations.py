"""What judges have observed while an environment lived, given to the judges of a replay: the environment is gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from astuner.contract.protocols import Judge
from astuner.episodes.judging.composition import WeightedJudge
from astuner.episodes.judging.simple_judges import JudgeAdapter


class StoredObservations:
    """Finds the stored observations of each new judge: those of the stored judge of the same name, else of the same code."""

    def __init__(
        self, judges: Sequence[WeightedJudge], *, is_single: bool, specs: Mapping[str, str], stored_specs: Mapping[str, str]
    ) -> None:
        """`specs` and `stored_specs` are how the configurations name each judge, by the judge's name.

        `is_single` says that the only judge is asked as it is: then its observations are not kept under its name.
        """
        self._judges, self._is_single, self._stored_specs = judges, is_single, stored_specs
        self._sources = {judge.name: _find_source(judge.name, specs.get(judge.name, ""), stored_specs) for judge in judges}
        self._lacking: dict[str, int] = {}

    def translate(self, stored: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the observations of an episode in the form that the new judges read."""
        by_name = _separate(stored, self._stored_specs)
        found = {name: by_name[source] for name, source in self._sources.items() if source is not None and source in by_name}
        for judge in self._judges:
            if judge.name not in found and looks_at_environments(judge.judge):
                self._lacking[judge.name] = self._lacking.get(judge.name, 0) + 1
        if self._is_single:
            return next(iter(found.values()), {})
        return found

    def describe_lacking(self) -> list[str]:
        """Return a text for each judge that observes episodes and for which the run has stored no observations."""
        there = ", ".join(map(repr, self._stored_specs)) or "the run had none"
        return [
            f"the judge '{name}' looks at episodes while their environment lives, and nothing that it observed is stored of "
            f"{count} of them: it judges these without. Leave it out, or give it the name of the judge of the run that observed "
            f"the same ({there})"
            for name, count in self._lacking.items()
        ]


def looks_at_environments(judge: Judge) -> bool:
    """Whether a judge observes episodes."""
    target = judge.inner if isinstance(judge, JudgeAdapter) else judge
    return getattr(type(target), "observe", Judge.observe) is not Judge.observe


def _find_source(name: str, spec: str, stored_specs: Mapping[str, str]) -> str | None:
    if name in stored_specs:
        return name
    same = [stored for stored, of in stored_specs.items() if of == spec]
    return same[0] if len(same) == 1 else None


def _separate(stored: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Mapping[str, Any]]:
    """Return the observations by judge: several judges have each kept theirs under a name, a single one has not."""
    if stored and stored.keys() <= names.keys() and all(isinstance(value, Mapping) for value in stored.values()):
        return stored
    return {next(iter(names)): stored} if stored and len(names) == 1 else {}
