"""Which inference engine a run takes: the one that is named, or the first of the backbone's preferences that can be used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import frozen

from astuner.contract.errors import ConfigError, PluginError, Problem
from astuner.contract.protocols import BackboneTraits, EngineTraits
from astuner.contract.protocols.traits import read_traits
from astuner.settings.config.rollout import SCRIPTED
from astuner.settings.plugins.component import Component
from astuner.settings.plugins.drivers import load
from astuner.shared.known_packages import read_known_packages

if TYPE_CHECKING:
    from astuner.settings.config.loading import LoadedConfig
    from astuner.settings.planning.chooser import Chooser
    from astuner.settings.plugins.catalog import Catalog

KEY = "astuner.rollout.name"


@frozen
class ChosenEngine:
    """The engine that `rollout.name` chooses."""

    component: Component | None
    """None if the backbone brings its own."""
    notice: str | None = None
    """What `auto` chose, and why."""


def choose_engine(chooser: Chooser, loaded: LoadedConfig, catalog: Catalog, backbone: Component | None) -> ChosenEngine:
    """Return the engine that the user names, or the one that the backbone takes for `auto`; notes its problems."""
    name = loaded.config.rollout.name
    traits = BackboneTraits() if backbone is None else read_traits(load(backbone.candidate), BackboneTraits)
    if name in traits.brings_engines:
        return ChosenEngine(None)
    if name != "auto":
        chooser.attempt(lambda: _check_somebody_has_it(name, loaded.config.backbone, catalog))
        return ChosenEngine(None if name in _list_backbone_engines(catalog) else _choose_named(chooser, loaded, name))
    match traits.default_engines:
        case ():
            return ChosenEngine(None)
        case (only,):
            why = f"the backbone '{loaded.config.backbone}' takes the engine '{only}' where none is named, and: "
            return ChosenEngine(_choose_named(chooser, loaded, only, why))
        case several:
            return _first_usable(chooser, loaded, catalog, several)


def _first_usable(chooser: Chooser, loaded: LoadedConfig, catalog: Catalog, preferred: tuple[str, ...]) -> ChosenEngine:
    if (why := _find_script(loaded)) is not None:
        return ChosenEngine(_choose_named(chooser, loaded, SCRIPTED), f"engine {SCRIPTED}: {why}")
    passed: list[str] = []
    for name in preferred:
        lack = _lack(loaded, catalog, name)
        if lack is None:
            others = f"; {'; '.join(passed)}" if passed else ""
            order = ", ".join(preferred)
            return ChosenEngine(
                _choose_named(chooser, loaded, name), f"engine {name}: the first of {order} that can be used{others}"
            )
        passed.append(f"{name}: {lack}")
    backbone = loaded.config.backbone
    message = f"the backbone '{backbone}' takes the first engine of {', '.join(preferred)} that can be used, and none can: "
    chooser.attempt(lambda: _refuse(message + "; ".join(passed)))
    return ChosenEngine(None)


def _find_script(loaded: LoadedConfig) -> str | None:
    """Return why a script answers: the configuration has one, and no model."""
    path = loaded.config.model.path
    if not loaded.config.rollout.get_options(SCRIPTED) or (path and not loaded.lacks_model):
        return None
    return f"it answers as rollout.{SCRIPTED} says, since {f'there is no model at {path}' if path else 'model.path is not set'}"


def _lack(loaded: LoadedConfig, catalog: Catalog, name: str) -> str | None:
    """Return what an engine needs that is not here, or None."""
    try:
        candidate = catalog.find("engine", name, config_dir=loaded.path.parent, key=KEY)
    except ConfigError as error:
        return error.problems[0].message
    if candidate.lack is not None:
        return candidate.lack
    try:
        target = load(candidate)
    except PluginError as error:
        return str(error)
    if not read_traits(target, EngineTraits).reports_lacks:
        return None
    lack: str | None = target.lacks(loaded.config.rollout.get_options(name))
    return lack


def _choose_named(chooser: Chooser, loaded: LoadedConfig, name: str, why: str = "") -> Component | None:
    options = loaded.config.rollout.get_options(name)
    return chooser.choose("engine", name, KEY, options, f"rollout.{name}", words=("auto",), why=why)


def _check_somebody_has_it(name: str, backbone: str, catalog: Catalog) -> None:
    if (having := _list_backbone_engines(catalog).get(name)) is not None:
        served = " and ".join(map(repr, having))
        _refuse(
            f"the backbone '{backbone}' has no engine '{name}': a trainer that places its own engines serves it: the backbone "
            f"{served}. Choose that, or `auto`"
        )


def _list_backbone_engines(catalog: Catalog) -> dict[str, Sequence[str]]:
    """Return the engines that no package offers and published backbones serve themselves."""
    offered = {candidate.name for candidate in catalog.candidates("engine")}
    return {name: backbones for name, backbones in read_known_packages().engines.items() if name not in offered}


def _refuse(message: str) -> None:
    raise ConfigError([Problem(key=KEY, message=message)])
