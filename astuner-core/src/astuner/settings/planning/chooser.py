"""Choosing the components of a run one by one, and collecting their problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import evolve

from astuner.contract.errors import ConfigError, PluginError, Problem
from astuner.contract.protocols import BackboneTraits
from astuner.contract.protocols.traits import read_traits
from astuner.settings.config.places import sort_problems
from astuner.settings.config.pretrained import KEY as MODEL_KEY
from astuner.settings.config.structure_errors import find_closest
from astuner.settings.planning.key_coverage import HonourTable, check_honoured, find_idle_keys
from astuner.settings.planning.user_code import names_code
from astuner.settings.plugins.component import Component
from astuner.settings.plugins.drivers import load
from astuner.settings.plugins.options import build_options
from astuner.settings.plugins.raised_errors import blame_component
from astuner.shared.install_hints import install_command, is_installed

if TYPE_CHECKING:
    from astuner.contract.protocols import Candidate
    from astuner.settings.config.alignment import Alignment
    from astuner.settings.config.loading import LoadedConfig
    from astuner.settings.config.native import Native
    from astuner.settings.plugins.catalog import Catalog


T = TypeVar("T")


class Chooser:
    """Chooses components and collects every problem on the way."""

    def __init__(self, loaded: LoadedConfig, catalog: Catalog) -> None:
        self._loaded, self._catalog = loaded, catalog
        self._problems: list[Problem] = [*loaded.problems]
        self._trainer_is_here = True
        self._imports_users_code: bool | None = None

    def postpone_users_code(self) -> None:
        """Choose only installed components, until `reach_users_code`."""
        self._imports_users_code = False

    def forgive_missing_model(self) -> None:
        """Drop the problem that `model.path` names a directory that does not exist."""
        self._problems = [problem for problem in self._problems if (problem.key, problem.kind) != (MODEL_KEY, "missing_path")]

    def reach_users_code(self) -> bool:
        """Let the user's code be imported if there is no problem so far; then all of it is, so that each fault is found."""
        self._imports_users_code = not self._problems
        return self._imports_users_code

    def attempt(self, check: Callable[[], T]) -> T | None:
        """Run a check and keep its problems; return what it returns, or None."""
        try:
            return check()
        except ConfigError as error:
            self._problems.extend(self._locate(problem) for problem in error.problems)
        except PluginError as error:
            self._problems.append(Problem(message=str(error)))
        return None

    def choose(
        self,
        kind: str,
        spec: str,
        key: str,
        values: Mapping[str, Any],
        section: str | None = None,
        words: Sequence[str] = (),
        why: str = "",
    ) -> Component | None:
        """Return the component a key names, its options structured; None after noting its problems.

        `words` are allowed instead of a component's name; `why` begins messages about one that the user did not name. Code of the
        user is not imported after a problem.
        """
        if names_code(spec) and not self._may_import():
            return None
        try:
            candidate = self._find_candidate(kind, spec, key, why)
            if candidate.lack is not None:
                raise ConfigError([Problem(key=key, message=candidate.lack)])
            with blame_component(candidate):
                options = build_options(
                    load(candidate), values, key=f"astuner.{section}" if section else key, locate=self._loaded.locate
                )
        except ConfigError as error:
            problems = [evolve(problem, suggestion=problem.suggestion or find_closest(spec, words)) for problem in error.problems]
            self._problems.extend(map(self._locate, problems))
            return None
        except PluginError as error:
            self._problems.append(self._locate(Problem(key=key, message=str(error))))
            return None
        return Component(candidate=candidate, options=options)

    def _may_import(self) -> bool:
        return not self._problems if self._imports_users_code is None else self._imports_users_code

    def _find_candidate(self, kind: str, spec: str, key: str, why: str) -> Candidate:
        try:
            return self._find(kind, spec, key)
        except ConfigError as error:
            raise ConfigError([evolve(one, message=f"{why}{one.message}") for one in error.problems]) from error

    def check_honoured(self, backbone: Component, engine: Component | None) -> list[str]:
        """Note the keys that the user set and neither backbone nor engine honours; return notices on inapplicable ones."""
        problems, notices = check_honoured(self._loaded, _read_honours(backbone, engine))
        self._problems.extend(problems)
        return notices

    def list_idle_keys(self, backbone: Component, engine: Component | None) -> list[str]:
        """Return the keys of those notices."""
        return sorted(key for keys in find_idle_keys(self._loaded, _read_honours(backbone, engine)).values() for key in keys)

    def check_alignment(self, backbone: Component) -> None:
        """Note the problems of the backbone's own configuration that can be found without its trainer."""
        alignment = self._alignment(backbone)
        if alignment is not None:
            from astuner.settings.config.native import align

            self._problems.extend(align(alignment, self._loaded, ask_trainer=False).problems)
        elif backbone.candidate.name in self._loaded.native:
            name = backbone.candidate.name
            message = (
                f"the backbone '{name}' has no native configuration, so nothing here would have an effect. Remove the section."
            )
            self._problems.append(self._locate(Problem(key=name, message=message)))

    def check_venv(self, backbone: Component) -> None:
        """Note if the backbone has its own virtual environment, and that cannot be used."""
        own = read_traits(load(backbone.candidate), BackboneTraits).own_venv
        if own is None:
            return
        state = own.examine(backbone.candidate.name)
        self._trainer_is_here = state.status == "in place"
        if not state.is_usable:
            self._problems.append(self._locate(Problem(key="astuner.backbone", message=state.describe())))

    def align(self, backbone: Component) -> Native | None:
        """Return the backbone's own configuration, after noting its problems.

        The trainer, which may be heavy, checks it only if there are no other problems, and if it is in this environment.
        """
        alignment = self._alignment(backbone)
        if alignment is None or self._problems:
            return None
        from astuner.settings.config.native import align

        native = align(alignment, self._loaded, ask_trainer=self._trainer_is_here)
        self._problems.extend(native.problems)
        return native

    def _alignment(self, backbone: Component) -> Alignment | None:
        return read_traits(load(backbone.candidate), BackboneTraits).alignment

    def finish(self) -> None:
        """Raise the collected problems."""
        if self._problems:
            hide, spoilt = self._loaded.secrets.hide_in_problem, self._loaded.spoilt
            own = [problem for problem in self._problems if problem in self._loaded.problems or not spoilt.explain(problem)]
            raise ConfigError(sort_problems(dict.fromkeys(map(hide, own))))

    def _find(self, kind: str, spec: str, key: str) -> Candidate:
        try:
            return self._catalog.find(kind, spec, config_dir=self._loaded.path.parent, key=key)
        except ConfigError as error:
            config = self._loaded.config
            back = _find_reinstall_hint(Path(config.experiment_dir), config.backbone, kind, spec)
            if back is None:
                raise
            told = [evolve(problem, message=f"{problem.message.rstrip('.')}. {back}") for problem in error.problems]
            raise ConfigError(told) from error

    def _locate(self, problem: Problem) -> Problem:
        if problem.line is not None or problem.key is None:
            return problem
        place = self._loaded.locate(problem.key)
        return problem if place is None else evolve(problem, file=place[0], line=place[1] or None)


def _read_honours(backbone: Component, engine: Component | None) -> HonourTable:
    chosen = None if engine is None else load(engine.candidate)
    return HonourTable.of(load(backbone.candidate), backbone.candidate.name, chosen)


def _find_reinstall_hint(directory: Path, backbone: str, kind: str, spec: str) -> str | None:
    """Return how to reinstall a component that the run had when it was last started."""
    from astuner.runs.store.directory import RunDirectory, get_throwaway_directory

    places = (directory, get_throwaway_directory(directory, backbone))
    for row in (row for place in places for row in RunDirectory(place).run.get("plugins", ())):
        name, dist, was = row["name"], row["distribution"], row["version"]
        # A component given by its path has no version and no package.
        if row["kind"] == kind and spec in (name, f"{dist}/{name}") and was and not is_installed(dist):
            return f"This run had it from {dist} {was}: {install_command(f'{dist}=={was}')}"
    return None
