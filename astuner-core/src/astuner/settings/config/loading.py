"""From a YAML file and the command line to a checked `Config`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from astuner.contract.errors import ConfigError, Problem, UsageError
from astuner.contract.plain_values import mend_text
from astuner.settings.config.aliases import Renaming
from astuner.settings.config.checks import Checks
from astuner.settings.config.config_file import list_native_roots, read_config_file
from astuner.settings.config.importers import translate_overrides
from astuner.settings.config.interpolation import Interpolation
from astuner.settings.config.model import Config
from astuner.settings.config.overrides import Overrides, read_overrides
from astuner.settings.config.paths import find_model_directory
from astuner.settings.config.places import ROOT, Locate, Place, Places, format_path, make_problem, sort_problems
from astuner.settings.config.pretrained import KEY as MODEL_KEY
from astuner.settings.config.schema_keys import walk_schema
from astuner.settings.config.secrets import Secrets
from astuner.settings.config.sections import DatasetFileSection, list_installed_names
from astuner.settings.config.sound_parts import SpoiltKeys, structure_sound_parts
from astuner.settings.config.structure_errors import Fault, FaultsError
from astuner.settings.config.structuring import get_converter, locate_faults
from astuner.settings.config.trees import Tree, flatten, merge


@frozen(kw_only=True)
class LoadedConfig:
    """A configuration, and where each of its values came from."""

    config: Config
    path: Path
    """The YAML, absolute."""
    text: str
    """The YAML as it was written, secrets included."""
    resolved: Mapping[str, Any]
    """The content of the root `astuner` as plain values: defaults filled in, aliases and interpolations resolved."""
    user_keys: frozenset[str]
    """Dotted paths, without the root, that the YAML or the command line set."""
    overrides: tuple[str, ...] = ()
    """The arguments of `--set`, as given."""
    overridden_keys: frozenset[str] = frozenset()
    """Dotted paths that `--set` set: without the root, but with that of native keys, as in `local.`."""
    from_environment: Mapping[str, str] = field(factory=dict)
    """What is shown in place of each text that came from an environment variable, by dotted path with the root."""
    native: Mapping[str, Mapping[str, Any]] = field(factory=dict)
    """The root sections of raw native keys that are there, by the names of backbones."""
    notices: tuple[str, ...] = ()
    """Messages to show the user once."""
    locate: Locate
    """From a dotted key to its file and line; `(Path("--set a.b"), 0)` for one set on the command line."""
    problems: tuple[Problem, ...] = ()
    """What is wrong, in the order of the file; defaults stand in for it. Only `examine_config` returns one with problems."""
    spoilt: SpoiltKeys = field(factory=SpoiltKeys)
    """The keys whose values are not known."""
    stage: Mapping[str, Any] | None = None
    """Which of the file's `stages` it is, for `run.json`; None for a file without."""

    @property
    def secrets(self) -> Secrets:
        """The values that must not be shown."""
        return Secrets.of({ROOT: self.resolved, **self.native}, from_environment=self.from_environment)

    @property
    def lacks_model(self) -> bool:
        """Whether `model.path` names a directory that does not exist."""
        return any(problem.key == MODEL_KEY and problem.kind == "missing_path" for problem in self.problems)

    @property
    def directory(self) -> Path:
        """The directory of the YAML, from which its relative paths start."""
        return self.path.parent


def load_config(
    path: Path,
    overrides: Sequence[str] = (),
    backbone: str | None = None,
    *,
    names_of: Callable[[str], Collection[str]] = list_installed_names,
    unused: Collection[str] = (),
) -> LoadedConfig:
    """Load a YAML; raise `ConfigError` with all its problems.

    `names_of(group)` returns the names of the installed components. Their options are left to them, and to the plan of a run.
    `unused` are keys below `astuner` that the caller does not need: they may be missing, or name what does not exist.
    """
    loaded = examine_config(path, overrides, backbone, names_of=names_of, unused=unused)
    if loaded.problems:
        raise ConfigError(loaded.problems)
    return loaded


def examine_config(
    path: Path,
    overrides: Sequence[str] = (),
    backbone: str | None = None,
    *,
    names_of: Callable[[str], Collection[str]] = list_installed_names,
    unused: Collection[str] = (),
    isolated: bool = False,
) -> LoadedConfig:
    """Load what is sound of a YAML, with its problems; raise `ConfigError` only if it is not YAML with our root section.

    `isolated` reads nothing else: no environment variable, whose places keep their interpolations, and no path is looked at.
    """
    path = path.absolute()
    native_roots = list_native_roots()
    file = read_config_file(path, native_roots, isolated=isolated)
    command = read_overrides(overrides, backbone, native_roots)
    translated = list(file.notices)
    if file.importer is not None and command.tree:
        translated += translate_overrides(file.importer, command.tree, command.places, path)
    stage = None
    if "stages" in file.roots[ROOT] or "stage" in command.tree.get(ROOT, ()):
        file, stage = _find_stage_choice()(file, command, path)
    renaming = Renaming()
    renaming.apply(file.roots[ROOT], file.places)
    renaming.apply(command.tree.setdefault(ROOT, {}), command.places)
    if file.written_root != ROOT:
        renaming.used[file.written_root] = ROOT
    locate = _combine_places(file.places, command, native_roots)

    converter = get_converter()
    defaults: Tree = {ROOT: converter.unstructure(Config())}
    chosen = merge(file.roots, command.tree)
    whole = merge(defaults, chosen)
    _fill_experiment_name(whole[ROOT], path)
    interpolation = Interpolation(whole, isolated=isolated)
    whole = interpolation.resolve()
    renaming.apply_to_values(whole[ROOT])
    from_environment = interpolation.from_environment
    secrets = Secrets.of(whole, chosen, from_environment=from_environment)
    unresolved = locate_faults(FaultsError(interpolation.faults), key="", locate=locate)
    problems = [*file.problems, *command.problems, *renaming.problems, *_check_files_of_tasks(whole[ROOT], locate)]
    config, faults = structure_sound_parts(whole[ROOT], converter)
    given, emptied = flatten(chosen[ROOT]), {key for key, value in flatten(command.tree[ROOT]).items() if value is None}
    # `--set key=null` takes a key back, unless null is a value of it.
    unset = emptied & {format_path(fault.path) for fault in faults}
    given = {key: value for key, value in given.items() if key not in unset}
    explained = [_explain_fault(fault, interpolation.replaced) for fault in faults if format_path(fault.path) not in unset]
    problems += locate_faults(FaultsError(explained), key=ROOT, locate=locate)
    unread = SpoiltKeys(frozenset(interpolation.unread))
    problems = [problem for problem in problems if problem.key is None or not unread.hold(problem.key)]
    spoilt = SpoiltKeys.of([*problems, *unresolved], given)
    user_keys = _find_user_keys(given, converter.unstructure(config), interpolation.replaced)
    user_keys = frozenset(key for key in user_keys if not spoilt.hold(f"{ROOT}.{key}"))
    # Everyone reads the names of directories, processes and trackers.
    labels: dict[str, Any] = {name: secrets.make_label(getattr(config, name)) for name in ("project_name", "experiment_name")}
    changed = [name for name, label in labels.items() if label != getattr(config, name)]
    translated += [f"{name} holds the value of an environment variable, and is '{labels[name]}' instead." for name in changed]
    config = _let_environment_lead(_choose_validation_samples(evolve(config, **labels), user_keys))
    config = config if isolated else _make_paths_absolute(config, path.parent)
    if mend_text(place := f"{path}:{config.experiment_dir}") != place:
        message = f"a directory of {str(path)!a} or of the run is not named in UTF-8, which libraries of models need. Rename it."
        problems.append(Problem(message=message, file=Path(path.name)))
    checks = Checks(
        config=config, config_dir=path.parent, file=os.path.relpath(path), user_keys=user_keys, locate=locate, names_of=names_of
    )
    checks.run(isolated=isolated)
    left_out, spoilt = {f"{ROOT}.{key}" for key in unused}, evolve(spoilt, keys=spoilt.keys | unread.keys)
    problems += [problem for problem in checks.problems if problem.key not in left_out and not spoilt.explain(problem)]
    name, place, written = config.experiment_name, config.experiment_dir, from_environment.get(f"{ROOT}.experiment_name")
    if written is not None and whole[ROOT]["experiment_dir"] == "auto" and place.endswith(str(whole[ROOT]["experiment_name"])):
        from_environment[f"{ROOT}.experiment_dir"] = place.removesuffix(name) + written
    elif f"{ROOT}.experiment_dir" in from_environment and Secrets.of({}).make_label(place) != place:
        message = "it holds the value of a variable that is a secret, and everyone reads the names of directories. Write it out."
        problems.append(make_problem(f"{ROOT}.experiment_dir", message, locate))
    overridden = flatten({**command.tree.pop(ROOT), **command.tree})
    old_spellings = renaming.format_notice()
    return LoadedConfig(
        config=config,
        path=path,
        text=file.text,
        resolved=converter.unstructure(config),
        user_keys=user_keys,
        from_environment=from_environment,
        overrides=tuple(overrides),
        overridden_keys=frozenset(overridden),
        native={root: whole[root] for root in native_roots if root in whole},
        notices=(*translated, *([old_spellings] if old_spellings else []), *renaming.overruled, *checks.notices),
        locate=locate,
        problems=tuple(map(secrets.hide_in_problem, _merge_problems(problems, unresolved))),
        spoilt=evolve(spoilt, keys=spoilt.keys | SpoiltKeys.of([*problems, *unresolved], given).keys),
        stage=stage,
    )


def _find_stage_choice() -> Callable[..., Any]:
    """Return what chooses one of the `stages` of a file; raises `UsageError` if no installed package does."""
    for entry in entry_points(group="astuner.functions", name="choose_stage"):
        found: Callable[..., Any] = entry.load()
        return found
    from astuner.shared.install_hints import command_for

    raise UsageError(f"stages: what plays them is not installed: {command_for('function', 'choose_stage')}")


def _merge_problems(problems: list[Problem], unresolved: list[Problem]) -> list[Problem]:
    """Order problems as in the file; one that could not be resolved is not reported again as a bad value."""
    keys = {problem.key for problem in unresolved}
    once = [*unresolved, *(problem for problem in problems if problem.key not in keys)]
    return sort_problems(once)


def _combine_places(places: Mapping[str, Place], overrides: Overrides, native_roots: Collection[str]) -> Places:
    set_keys = flatten(overrides.tree)
    leaves = {key: place for key, place in overrides.places.items() if key in set_keys}
    return Places({**overrides.places, **places, **leaves}, native_roots)


def _fill_experiment_name(tree: Tree, path: Path) -> None:
    if tree["experiment_name"] in ("read_yaml_name", None):
        tree["experiment_name"] = path.stem


def _find_user_keys(given: Collection[str], resolved: Tree, interpolated: set[str]) -> frozenset[str]:
    leaves = flatten(resolved)
    # A whole section that is an interpolation sets every key in it.
    copied = tuple(f"{key}." for key in given if format_path((key,), ROOT) in interpolated)
    return frozenset(key for key in leaves if key in given or key.startswith(copied))


def _choose_validation_samples(config: Config, user_keys: Collection[str]) -> Config:
    """Play each validation task once if validation is greedy and nothing else was asked for."""
    if "trainer_common.val_pass_n" in user_keys or not config.rollout.val_kwargs.greedy:
        return config
    return evolve(config, trainer_common=evolve(config.trainer_common, val_pass_n=1))


def _let_environment_lead(config: Config) -> Config:
    led = evolve(config.rollout, use_agentscope_protocol=config.rollout.use_agentscope_protocol and not config.environment.leads)
    return evolve(config, rollout=led)


def _make_paths_absolute(config: Config, directory: Path) -> Config:
    model = find_model_directory(config.model.path, directory) if config.model.path else None
    if (template := config.model.chat_template) is not None:
        from astuner.settings.config.chat_template import read_chat_template

        template = read_chat_template(template, directory)
    run = Path("launcher_record", config.experiment_name) if config.experiment_dir == "auto" else Path(config.experiment_dir)
    return evolve(
        config,
        experiment_dir=str(Path.cwd() / run.expanduser()),
        model=evolve(config.model, path=str(model) if model else config.model.path, chat_template=template),
    )


def _explain_fault(fault: Fault, interpolated: set[str]) -> Fault:
    """Add to a fault what only the whole configuration shows."""
    if format_path(fault.path, ROOT) in interpolated:
        message = fault.message.removesuffix(" Remove the quotes.")
        return evolve(
            fault, message=f"{message} It comes from an interpolation: ${{oc.decode:${{oc.env:…}}}} reads text as a value."
        )
    if fault.kind == "unknown_key" and fault.suggestion is None:
        elsewhere = [key for key in walk_schema() if key.rpartition(".")[2] == fault.path[-1]]
        if len(elsewhere) == 1:
            return evolve(fault, suggestion=f"{ROOT}.{elsewhere[0]}")
    return fault


def _check_files_of_tasks(tree: Mapping[str, Any], locate: Locate) -> list[Problem]:
    section = tree["task_reader"]
    if not isinstance(section, Mapping) or "dataset_file" not in section:
        return []
    try:
        get_converter().structure(section["dataset_file"], DatasetFileSection)
    except FaultsError as error:
        return locate_faults(error, key=f"{ROOT}.task_reader.dataset_file", locate=locate)
    return []
