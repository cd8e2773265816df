"""The names of a new package, derived from the one that its author chose, and refused where they cannot work."""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from functools import reduce

from attrs import fields, frozen, has
from packaging.utils import canonicalize_name

from astuner.contract.errors import Problem, UsageError
from astuner.settings.plugins.core_commands import CORE_COMMANDS
from astuner.shared.known_packages import CORE, read_known_packages
from astuner_devkit.scaffold.kinds import SCAFFOLDS

LONGEST = 40
"""Characters of a name, so that the generated lines stay short enough."""

_DIST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
"""The name of a distribution, per PEP 508."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")
"""The name of a component, which is written like a key of the YAML."""


@frozen(kw_only=True)
class Names:
    """All names of a package with one component."""

    kind: str
    dist: str
    """The distribution: what is installed, and the directory."""
    name: str
    """The entry point: what a user writes in the YAML."""
    module: str
    """What is imported."""
    component: str
    """The class."""


def choose_names(kind: str, dist: str, name: str | None) -> Names:
    """Return the names of a new package; raises `UsageError` with what is wrong and a remedy.

    Without `name`, the entry point is named after the distribution, without a leading `astuner-` and with `_` for `-` and `.`.
    """
    module = _choose_module(dist)
    given = name is not None
    name = name if name is not None else module.removeprefix("astuner_")
    _check_name(name, given=given, dist=dist)
    _check_free(kind, name, given=given)
    words = "".join(word.capitalize() for word in name.split("_"))
    return Names(
        kind=kind,
        dist=dist,
        name=name,
        module=module,
        # The suffix keeps the class distinct from what its module imports.
        component=words
        if words.endswith(_get_class_suffix(kind)) and words != _get_class_suffix(kind)
        else f"{words}{_get_class_suffix(kind)}",
    )


def _get_class_suffix(kind: str) -> str:
    return "Hooks" if kind == "hook" else "".join(word.capitalize() for word in kind.split("_"))


def _choose_module(dist: str) -> str:
    if not _DIST.fullmatch(dist):
        close = re.sub(r"[^A-Za-z0-9._-]+", "-", dist).strip("-._")
        allowed = "letters, digits, '-', '_' and '.', and begins and ends with one of the first two"
        message = f"DIST {dist!r}: a distribution is named with {allowed}."
        raise _make_error(message, close if _DIST.fullmatch(close) else None)
    if len(dist) > LONGEST:
        raise _make_error(f"DIST {dist!r}: has {len(dist)} characters; take at most {LONGEST}.")
    module = re.sub(r"[-_.]+", "_", dist).lower()
    if not module.isidentifier() or keyword.iskeyword(module):
        raise _make_error(f"DIST {dist!r}: its module would be called {module!r}, which cannot be imported.", f"acme-{dist}")
    if canonicalize_name(dist) in {CORE, "astuner", *read_known_packages().packages}:
        raise _make_error(f"DIST {dist!r}: is a distribution of astuner itself; take a name of your own.", f"acme-{dist}")
    if module in sys.stdlib_module_names:
        raise _make_error(f"DIST {dist!r}: its module would hide {module!r} of the standard library.", f"acme-{dist}")
    if _is_taken(module, dist):
        raise _make_error(f"DIST {dist!r}: its module {module!r} is installed already, by another package.", f"acme-{dist}")
    return module


def _is_taken(module: str, dist: str) -> bool:
    """Whether a module of this name is installed, other than by an earlier version of this package."""
    from astuner.settings.plugins.catalog import Catalog

    found = importlib.util.find_spec(module)
    # Without an origin it is only a directory on the path.
    if found is None or found.origin is None:
        return False
    return canonicalize_name(dist) not in {canonicalize_name(candidate.dist or "") for candidate in Catalog.discover().all()}


def _check_name(name: str, *, given: bool, dist: str) -> None:
    place = f"--name {name!r}" if given else f"the name {name!r}, derived from {dist!r}"
    if not _NAME.fullmatch(name):
        close = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_").lstrip("0123456789_")
        remedy = "" if given else " Choose one with --name."
        raise _make_error(
            f"{place}: is written with lower-case letters, digits and '_', and begins with a letter.{remedy}", close or None
        )
    if len(name) > LONGEST:
        raise _make_error(f"{place}: has {len(name)} characters; take at most {LONGEST}.")


def _check_free(kind: str, name: str, *, given: bool) -> None:
    """Refuse a name that already means something in the section where it would be written."""
    from astuner.settings.plugins.catalog import Catalog

    place, suggestion = f"the name {name!r}", f"acme_{name}"
    remedy = "Choose another one." if given else "Choose another one with --name."
    if kind == "command" and name in CORE_COMMANDS:
        raise _make_error(f"{place}: `astuner {name}` is a command of astuner-core. {remedy}", suggestion)
    if any(candidate.name == name and candidate.dist == CORE for candidate in Catalog.discover(kinds=(kind,)).all()):
        raise _make_error(f"{place}: {CORE} has a {kind} of that name, and two make it ambiguous. {remedy}", suggestion)
    if (owner := read_known_packages().package_of(kind, name)) is not None:
        raise _make_error(f"{place}: is the name of a {kind} of {owner}, and two make it ambiguous. {remedy}", suggestion)
    section = SCAFFOLDS[kind].section
    if section is not None and name in _list_keys(section):
        raise _make_error(
            f"{place}: `astuner.{section}.{name}` is a key already, so it could have no options. {remedy}", suggestion
        )


def _list_keys(section: str) -> set[str]:
    """Return the section's own keys, and the words in it that do not name a component."""
    from astuner.settings.config.model import Config

    sections = {"environment": {"auto", "no_env"}, "rollout": {"auto"}, "task_judge": {"customized_protocol"}}
    value = reduce(getattr, section.split("."), Config())
    # Some sections hold only those of components.
    own = {item.name for item in fields(type(value))} if has(type(value)) else set()
    return own | sections.get(section, set())


def _make_error(message: str, suggestion: str | None = None) -> UsageError:
    return UsageError(str(Problem(message=message, suggestion=suggestion)))
