"""One stage of a file with several, as the file of an ordinary run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import evolve, fields_dict

from astuner.contract.errors import ConfigError, Problem, SeveralStages, UsageError
from astuner.settings.config.aliases import Renaming
from astuner.settings.config.config_file import ConfigFile
from astuner.settings.config.model import Config
from astuner.settings.config.overrides import Overrides
from astuner.settings.config.places import ROOT, Place
from astuner.settings.config.structure_errors import describe_value, find_closest
from astuner.settings.config.trees import Tree, get, merge, put

STAGES = f"{ROOT}.stages"
OWN_KEYS = ("name", "demonstrations")
"""Keys of a stage that are not a run's."""
OF_THE_FILE = ("stages", "stage", "experiment_name", "experiment_dir")
"""Keys that a stage cannot have."""
MODEL = "model"
"""The folder in the directory of a stage with the model that it ended with, for the next one."""


def choose_stage(file: ConfigFile, command: Overrides, path: Path) -> tuple[ConfigFile, dict[str, Any]]:
    """Return the file with the stage that `--set stage=NAME` chooses merged over the rest, and what `run.json` says of the stage.

    Raises `SeveralStages` if none is chosen, and `ConfigError` for stages that cannot be told apart or merged.
    """
    chosen = command.tree.get(ROOT, {}).pop("stage", None)
    base = dict(file.roots[ROOT])
    if "stages" not in base:
        raise UsageError(f"--set stage={chosen}: {path} has no stages; leave it out, or add `stages` to the file")
    stages = _check_stages(base.pop("stages"), file.places, path)
    if chosen is None:
        raise SeveralStages(path, stages, file.places)
    names = [stage["name"] for stage in stages]
    if str(chosen) not in names:
        message = f"there is no stage '{chosen}' in {path}; there are {', '.join(names)}."
        problem = Problem(message=message, file=Path("--set stage"), suggestion=find_closest(str(chosen), names))
        raise ConfigError([problem])
    index = names.index(str(chosen))
    stage = stages[index]
    places = _move_places(file.places, index)
    over: Tree = {key: value for key, value in stage.items() if key not in OWN_KEYS}
    # Each by itself, so that the older spelling of a key in one and the present one in the other are the same key.
    earlier, of_file, of_stage = dict(file.places), Renaming(), Renaming()
    of_file.apply(base, earlier)
    of_stage.apply(over, places)
    if problems := [*of_file.problems, *(name_in_stage(problem, index, file.places) for problem in of_stage.problems)]:
        raise ConfigError(problems)
    tree = merge(base, over)
    facts: dict[str, Any] = {"name": names[index], "number": index + 1, "of": len(stages)}
    facts["experiment"] = _name_run(tree, command.tree.setdefault(ROOT, {}), path, names, index)
    if index and get(over, "model.path") is None and get(command.tree[ROOT], "model.path") is None:
        put(tree, "model.path", _find_end_of(tree, command.tree[ROOT], names, index))
    if "demonstrations" in stage:
        facts["demonstrations"] = stage["demonstrations"]
    return evolve(file, roots={**file.roots, ROOT: tree}, places={**earlier, **places}), facts


def format_suffix(names: Sequence[str], index: int) -> str:
    """Return what the name of a stage's run ends with, as in `calculator.2-rl`."""
    return f".{index + 1}-{names[index]}"


def name_in_stage(problem: Problem, index: int, places: Mapping[str, Place]) -> Problem:
    """Return a problem with the key as the stage has it, `astuner.stages[1].…`, if it is the stage that sets it."""
    if problem.key is None or not problem.key.startswith(f"{ROOT}."):
        return problem
    own = f"{STAGES}[{index}]{problem.key.removeprefix(ROOT)}"
    return evolve(problem, key=own) if own in places else problem


def _check_stages(stages: Any, places: Mapping[str, Place], path: Path) -> list[Mapping[str, Any]]:
    """Return the stages; raises `ConfigError` with all that is wrong with their names, and with what no stage can have."""
    if not isinstance(stages, list) or not stages:
        message = f"expected a list of stages, each with a name, got {describe_value(stages)}."
        raise ConfigError([_place_problem(STAGES, message, places, path)])
    problems, seen = list[Problem](), dict[str, int]()
    check = fields_dict(Config)["experiment_name"].validator
    for index, stage in enumerate(stages):
        key = f"{STAGES}[{index}]"
        if not isinstance(stage, Mapping):
            message = f"expected a section with a name and keys of the file, got {describe_value(stage)}."
            problems.append(_place_problem(key, message, places, path))
            continue
        name = stage.get("name")
        if not isinstance(name, str):
            message = "a stage needs a name, as text." if name is None else f"expected text, got {describe_value(name)}."
            problems.append(_place_problem(f"{key}.name", message, places, path))
        elif name in seen:
            message = f"stages[{seen[name]}] has the name '{name}' too. Choose another one: it names the run."
            problems.append(_place_problem(f"{key}.name", message, places, path))
        else:
            seen[name] = index
            try:
                assert check is not None
                check(None, fields_dict(Config)["experiment_name"], name)
            except ValueError:
                message = f"it is part of a directory's name, so it must not be empty and must not contain / or \\: {name!r}."
                problems.append(_place_problem(f"{key}.name", message, places, path))
        for forbidden in OF_THE_FILE:
            if forbidden in stage:
                message = f"a stage cannot have a key '{forbidden}': it belongs to the whole file."
                problems.append(_place_problem(f"{key}.{forbidden}", message, places, path))
    if problems:
        raise ConfigError(problems)
    return stages


def _place_problem(key: str, message: str, places: Mapping[str, Place], path: Path) -> Problem:
    nearest = key
    while nearest and nearest not in places:
        nearest = nearest[: max(nearest.rfind("."), nearest.rfind("["), 0)]
    file, line = places.get(nearest, (path, 0))
    return Problem(message=message, key=key, file=file, line=line or None)


def _move_places(places: Mapping[str, Place], index: int) -> dict[str, Place]:
    """Return the places of a stage's keys, by the keys that they become."""
    start = f"{STAGES}[{index}]."
    return {f"{ROOT}.{key.removeprefix(start)}": place for key, place in places.items() if key.startswith(start)}


def _name_run(tree: Tree, command: Tree, path: Path, names: Sequence[str], index: int) -> str:
    """Let name and directory of the run end with the stage's; return the name of the whole."""
    suffix = format_suffix(names, index)
    written = command if "experiment_name" in command else tree
    name = written.get("experiment_name")
    whole = path.stem if name in (None, "read_yaml_name") else str(name)
    written["experiment_name"] = whole + suffix
    written = command if "experiment_dir" in command else tree
    if isinstance(place := written.get("experiment_dir"), str) and place != "auto" and suffix not in place:
        written["experiment_dir"] = place.rstrip("/") + suffix
    return whole


def _find_end_of(tree: Tree, command: Tree, names: Sequence[str], index: int) -> str:
    """Return where the stage before leaves the model that it ended with, as `model.path`."""
    own, before = format_suffix(names, index), format_suffix(names, index - 1)
    place = command.get("experiment_dir", tree.get("experiment_dir"))
    if place is None or place == "auto":
        place = f"launcher_record/{command.get('experiment_name', tree.get('experiment_name'))}"
    run = Path.cwd() / Path(str(place).removesuffix(own) + before).expanduser()
    return str(run / MODEL)
