"""Tasks from reasoning-gym: puzzles of about a hundred families, made from a seed, with a scorer for their answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attrs import Attribute, field, frozen
from attrs.validators import and_, ge, gt, le, min_len, optional

from astuner.contract.errors import DataError, PluginError
from astuner.contract.protocols import ReaderTraits, RunInfo
from astuner.contract.schema import Split, Task
from astuner.shared.install_hints import install_command
from astuner_judges.json_child import JsonChild
from astuner_reasoning_gym.program import is_installed, make_program

_KEY = "astuner.task_reader.reasoning_gym"
_VALIDATION = 2**31
"""Added to the training seeds for validation."""
_MOST = 10**9
"""Largest seed, and most tasks: their sum stays below 2³², numpy's limit for seeds."""


def _check_no_seed(_: Any, attribute: Attribute[Any], value: Mapping[str, Any]) -> None:
    for key in ("seed", "size"):
        if key in value:
            raise ValueError(f"'{attribute.name}' holds '{key}', which is an option of the reader itself: set it there")


@frozen(kw_only=True)
class GymDataset:
    """One family of puzzles."""

    name: str = field(validator=min_len(1))
    """Its name in the library."""
    weight: float = field(default=1.0, validator=gt(0))
    """Its share of the tasks, relative to the others'."""
    config: Mapping[str, Any] = field(factory=dict, validator=_check_no_seed)
    """Settings of the family, instead of the library's."""


def _check_not_below_start(instance: Any, _: Any, value: int | None) -> None:
    if value is not None and value < instance.start_level:
        raise ValueError(f"'end_level' is {value}, which is below start_level, {instance.start_level}; levels only rise")


@frozen(kw_only=True)
class Curriculum:
    """From easy to hard: the tasks of a split are divided evenly among the levels, in order."""

    start_level: int = field(default=0, validator=ge(0))
    """Level of the first tasks."""
    end_level: int | None = field(default=None, validator=optional(and_(ge(0), _check_not_below_start)))
    """Level of the last ones; a family with fewer levels stays at its highest. Null: 3, the highest of most families."""


_HIGHEST_OF_MOST = 3


def _check_distinct(_: Any, attribute: Attribute[Any], value: Sequence[str | GymDataset]) -> None:
    found = [_as_dataset(dataset) for dataset in value]
    for number, dataset in enumerate(found):
        if any((dataset.name, dataset.config) == (other.name, other.config) for other in found[:number]):
            raise ValueError(f"'{attribute.name}' names '{dataset.name}' twice with one configuration; give it a weight instead")


def _check_apart(instance: Any, _: Any, value: int | None) -> None:
    first, second = instance.seed, _validation_seed(instance)
    if first < second + instance.validation_size and second < first + instance.size:
        raise ValueError(
            f"'validation_seed' is {value}, too close to seed, {first}: puzzle n of a seed is the first of seed + n, so the "
            "splits would share puzzles; leave it null, or move the seeds apart by as many as there are tasks"
        )


class ReasoningGymReader:
    """Makes tasks in a fixed order, on demand; the same options give the same tasks in every process."""

    traits = ReaderTraits(lists_revisions=True)

    @frozen(kw_only=True)
    class Options:
        """Options of the reader `reasoning_gym`."""

        datasets: tuple[str | GymDataset, ...] = field(validator=and_(min_len(1), _check_distinct))
        """Families by name, or as `{name: …, weight: …, config: {…}}`; they take turns according to their weights."""
        size: int = field(default=1000, validator=and_(ge(1), le(_MOST)))
        """Number of training tasks."""
        validation_size: int = field(default=100, validator=and_(ge(0), le(_MOST)))
        """Number of validation tasks; 0 for none."""
        seed: int = field(default=42, validator=and_(ge(0), le(_MOST)))
        """The seed of the training tasks, independent of the run's: the same tasks in each run."""
        validation_seed: int | None = field(default=None, validator=and_(optional(and_(ge(0), le(3 * _MOST))), _check_apart))
        """The same for validation; null takes one without puzzles in common with training."""
        curriculum: Curriculum | None = None
        """From easy to hard, by the library's levels of difficulty; null uses the library's default for all tasks."""
        prompt_suffix: str | None = None
        """Follows each question after an empty line; null asks for the answer between <answer> and </answer>, "" adds nothing."""
        timeout_s: float = field(default=60.0, validator=gt(0))
        """Longest time for making one task."""

    def __init__(self, options: Options, child: JsonChild | None = None) -> None:
        """Check the datasets; `child` may be shared by several readers; by default this reader has its own."""
        if not is_installed():
            raise PluginError(
                f"reader 'reasoning_gym' needs the package reasoning-gym: {install_command('astuner-reasoning-gym')}"
            )
        self._options = options
        self._datasets = [_as_dataset(dataset) for dataset in options.datasets]
        suffix = options.prompt_suffix
        self._suffix = Path(__file__).with_name("question_suffix.txt").read_text("utf-8") if suffix is None else suffix
        self._child = child or JsonChild(make_program(options.timeout_s))
        self._check()

    @classmethod
    def from_run(cls, options: Options, run_info: RunInfo) -> ReasoningGymReader:
        """Make the reader; it uses nothing of the run."""
        return cls(options)

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split. Raises `DataError` for one that cannot be made in time."""
        seed, size = self._seed_and_size(split)
        made = [0] * len(self._datasets)
        for position in range(size):
            chosen = self._choose_dataset(position, made)
            yield self._task(self._datasets[chosen], seed, size, self._level(position, size), made[chosen])
            made[chosen] += 1

    def list_revisions(self) -> Mapping[str, str]:
        """Return the version of the library, which makes the tasks."""
        return {"reasoning-gym": version("reasoning-gym")}

    def _seed_and_size(self, split: Split) -> tuple[int, int]:
        options = self._options
        return (options.seed, options.size) if split == "train" else (_validation_seed(options), options.validation_size)

    def _choose_dataset(self, position: int, made: Sequence[int]) -> int:
        """Return the dataset furthest behind its share, the first of several."""
        total = sum(dataset.weight for dataset in self._datasets)
        behind = [dataset.weight / total * (position + 1) - count for dataset, count in zip(self._datasets, made, strict=True)]
        return behind.index(max(behind))

    def _level(self, position: int, size: int) -> int | None:
        curriculum = self._options.curriculum
        if curriculum is None:
            return None
        levels = _end_of(curriculum) - curriculum.start_level + 1
        return curriculum.start_level + position * levels // size

    def _task(self, dataset: GymDataset, seed: int, size: int, level: int | None, index: int) -> Task:
        source: dict[str, Any] = {"dataset": dataset.name, "config": dict(dataset.config)}
        source |= {"seed": seed, "size": size, "level": level, "index": index}
        place = f"{_KEY}: task {index} of dataset '{dataset.name}' (seed {seed}{'' if level is None else f', level {level}'})"
        try:
            answer = self._child.ask({"make": source}, self._options.timeout_s)
        except TimeoutError as error:
            raise DataError(f"{place} was not made within timeout_s, {self._options.timeout_s:g} s; make it easier") from error
        except RuntimeError as error:
            raise DataError(f"{place}: {error}") from error
        if "error" in answer:
            raise DataError(f"{place} cannot be made: {answer['error']}; change its config, or leave the dataset out")
        entry = answer["entry"]
        gold = {"answer": entry["answer"]} if isinstance(entry["answer"], str) else {}
        return Task(
            main_query=f"{entry['question']}\n\n{self._suffix.strip()}".strip() if self._suffix.strip() else entry["question"],
            task_id=f"{dataset.name}-{seed}-{index}-{_short_digest(source)}",
            metadata={**gold, "data_source": dataset.name, "reasoning_gym": {**source, "entry": entry}},
        )

    def _check(self) -> None:
        """Raise `DataError` with all mistakes in the datasets."""
        curriculum = self._options.curriculum
        levels = None if curriculum is None else (curriculum.start_level, _end_of(curriculum))
        problems = []
        for dataset in self._datasets:
            seed, size = self._seed_and_size("train")
            check = {"dataset": dataset.name, "config": dict(dataset.config), "seed": seed, "size": size, "levels": levels}
            try:
                found = self._child.ask({"check": check}, self._options.timeout_s)
            except (RuntimeError, TimeoutError) as error:
                raise PluginError(f"reader 'reasoning_gym': {error}") from error
            problems.append(found.get("error") or found["problem"])
        if told := [f"{_KEY}.datasets: {problem}" for problem in problems if problem]:
            raise DataError("\n".join(told))


def _as_dataset(dataset: str | GymDataset) -> GymDataset:
    return GymDataset(name=dataset) if isinstance(dataset, str) else dataset


def _validation_seed(options: Any) -> int:
    given: int | None = options.validation_seed
    return options.seed + _VALIDATION if given is None else given


def _end_of(curriculum: Curriculum) -> int:
    return max(_HIGHEST_OF_MOST, curriculum.start_level) if curriculum.end_level is None else curriculum.end_level


def _short_digest(source: Mapping[str, Any]) -> str:
    """Return 8 hex digits of what else changes a puzzle than dataset, seed and index."""
    settings = {key: source[key] for key in ("config", "size", "level")}
    return blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=4).hexdigest()
