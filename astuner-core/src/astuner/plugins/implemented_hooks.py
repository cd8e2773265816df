"""Which hooks a class or an object implements, found by its marked methods alone, without constructing or registering it."""

from __future__ import annotations

from typing import Any, Literal

import pluggy
from attrs import frozen

from astuner.hookspecs import PROJECT, SPECS
from astuner.plugins.extension import DECIDING


@frozen(kw_only=True)
class ImplementedHook:
    """One method marked `@astuner.hookimpl`."""

    name: str
    """The hook."""
    role: Literal["listens", "decides", "wraps", "unknown"]
    """`unknown`: there is no such hook."""


def find_implemented_hooks(target: Any) -> tuple[ImplementedHook, ...]:
    """Return the hooks of a component's marked methods, ordered by name."""
    manager = pluggy.PluginManager(PROJECT)
    known = {name for specs in SPECS for name in vars(specs)}
    found = []
    for name in dir(target):
        opts = manager.parse_hookimpl_opts(target, name)
        if opts is not None:
            hook = opts["specname"] or name
            found.append(ImplementedHook(name=hook, role=_classify_role(hook, known=hook in known, wraps=opts["wrapper"])))
    return tuple(found)


def _classify_role(hook: str, *, known: bool, wraps: bool) -> Literal["listens", "decides", "wraps", "unknown"]:
    if not known:
        return "unknown"
    if wraps:
        return "wraps"
    return "decides" if hook.startswith(DECIDING) else "listens"
