"""Which inference engine a run takes: the one that is named, or the first of the backbone's preferences that can be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.errors import ConfigError, PluginError, Problem
from astuner.plugins.component import Component

if TYPE_CHECKING:
    from astuner.config.loading import LoadedConfig
    from astuner.planning.chooser import Chooser
    from astuner.plugins.catalog import Catalog

KEY = "astuner.rollout.name"

BROUGHT_ONLY = {"sglang": "a trainer that places its own engines serves it: the backbones 'verl' and 'trinity'"}
"""Values of `rollout.name` for which there is no engine of a plugin, with who has them."""


@frozen
class ChosenEngine:
    """What `rollout.name` comes to."""

    component: Component | None
    """None where the backbone brings its own."""
    notice: str | None = None
    """What `auto` meant, and why."""


def choose_engine(chooser: Chooser, loaded: LoadedConfig, catalog: Catalog, backbone: Component | None) -> ChosenEngine:
    """Return the engine that the user names, or the one that the backbone takes for `auto`; notes what is wrong with it."""
    from astuner.plugins.drivers import load

    name = loaded.config.rollout.name
    trainer = load(backbone.candidate) if backbone is not None else None
    if name in getattr(trainer, "brings_engines", ()):
        return ChosenEngine(None)
    if name != "auto":
        chooser.attempt(lambda: _check_somebody_has_it(name, loaded.config.backbone))
        return ChosenEngine(None if name in BROUGHT_ONLY else _named(chooser, loaded, name))
    preferred: str | tuple[str, ...] | None = getattr(trainer, "default_engine", None)
    if preferred is None:
        return ChosenEngine(None)
    if isinstance(preferred, str):
        why = f"the backbone '{loaded.config.backbone}' takes the engine '{preferred}' where none is named, and: "
        return ChosenEngine(_named(chooser, loaded, preferred, why))
    return _first_usable(chooser, loaded, catalog, preferred)


def _first_usable(chooser: Chooser, loaded: LoadedConfig, catalog: Catalog, preferred: tuple[str, ...]) -> ChosenEngine:
    passed: list[str] = []
    for name in preferred:
        lack = _lack(loaded, catalog, name)
        if lack is None:
            others = f"; {'; '.join(passed)}" if passed else ""
            order = ", ".join(preferred)
            return ChosenEngine(_named(chooser, loaded, name), f"engine {name}: the first of {order} that can be used{others}")
        passed.append(f"{name}: {lack}")
    backbone = loaded.config.backbone
    message = f"the backbone '{backbone}' takes the first engine of {', '.join(preferred)} that can be used, and none can: "
    chooser.attempt(lambda: _refuse(message + "; ".join(passed)))
    return ChosenEngine(None)


def _lack(loaded: LoadedConfig, catalog: Catalog, name: str) -> str | None:
    """Return what an engine needs that is not here, or None."""
    from astuner.plugins.drivers import load

    try:
        candidate = catalog.find("engine", name, config_dir=loaded.path.parent, key=KEY)
    except ConfigError as error:
        return error.problems[0].message
    if candidate.missing:
        return f"{candidate.blame} needs {', '.join(candidate.missing)}, which is not installed: {candidate.remedy}"
    try:
        engine: Any = load(candidate)
    except PluginError as error:
        return str(error)
    lacks = getattr(engine, "lacks", None)
    found: str | None = lacks(loaded.config.rollout.get_options(name)) if lacks is not None else None
    return found


def _named(chooser: Chooser, loaded: LoadedConfig, name: str, why: str = "") -> Component | None:
    options = loaded.config.rollout.get_options(name)
    return chooser.choose("engine", name, KEY, options, f"rollout.{name}", words=("auto",), why=why)


def _check_somebody_has_it(name: str, backbone: str) -> None:
    if name in BROUGHT_ONLY:
        _refuse(f"the backbone '{backbone}' has no engine '{name}': {BROUGHT_ONLY[name]}. Choose one of them, or `auto`")


def _refuse(message: str) -> None:
    raise ConfigError([Problem(key=KEY, message=message)])
