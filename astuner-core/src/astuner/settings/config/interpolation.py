"""OmegaConf's interpolation: `${astuner.data.train_batch_size}`, `${oc.env:VAR,default}`, relative `${.name}`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from attrs import define, field

from astuner.settings.config.aliases import ROOT_ALIASES, add_old_keys
from astuner.settings.config.places import ROOT, KeyPath, format_path
from astuner.settings.config.schema_keys import walk_schema
from astuner.settings.config.structure_errors import Fault, find_closest
from astuner.settings.config.trees import Tree, change_leaves, flatten

if TYPE_CHECKING:
    from astuner.settings.config.interpolation_bounds import Expansions

_MISSING_KEY = re.compile(r"Interpolation key '([^']+)' not found")
_MISSING_VARIABLE = re.compile(r"Environment variable '([^']+)' not found")


_VARIABLE = re.compile(r"""\$\{\s*oc\.env\s*:\s*["']?([^\s"'{}$,]+)""")
_CALL = re.compile(r"\$\{.*:", re.DOTALL)
"""What may call a resolver, `oc.env` or one whose name is an interpolation itself."""
_COVER = "\uf8ff"
"""What an isolated configuration has in place of such a text."""
_NESTED = re.compile(r"\$\{[^:]*\$\{.*:|\$\{\s*oc\.env\s*:[^,}]*\$\{", re.DOTALL)
_LONG_ENOUGH = 4
_LONG_NUMBER = 6


def list_variables(texts: Iterable[object]) -> frozenset[str]:
    """Return the environment variables that texts take values from."""
    return frozenset(name for text in texts for name in _VARIABLE.findall(str(text)))


@define(eq=False, slots=False)
class Interpolation:
    """Replaces interpolations in a whole configuration, its native sections included."""

    tree: Tree
    isolated: bool = False
    """Leave what may take a value from the environment, and what refers to it, as it is written."""
    unread: set[str] = field(factory=set)
    """Dotted paths of what was left."""
    faults: list[Fault] = field(factory=list)
    """Those that cannot be resolved."""
    replaced: set[str] = field(factory=set)
    """Dotted paths of the values that were interpolations."""
    from_environment: dict[str, str] = field(factory=dict)
    """What is written in place of each text that came from an environment variable, by dotted path: `${oc.env:NAME}`."""
    _source: Any = None

    def resolve(self) -> Tree:
        """Return the tree without interpolations."""
        if not _has_marks(self.tree):
            return self.tree
        from omegaconf import OmegaConf

        from astuner.settings.config.interpolation_bounds import Expansions

        sound = change_leaves(self.tree, self._remove_bad_grammar)
        sound = change_leaves(sound, partial(self._remove_large, Expansions(self._add_aliases(sound))))
        source = deepcopy(sound)
        add_old_keys(source.get(ROOT) or {})
        if self.isolated:
            source = change_leaves(source, lambda value, _: _COVER if _has_marks(value) and _CALL.search(value) else value)
        self._source = OmegaConf.create(self._add_aliases(source))
        result: Tree = change_leaves(sound, self._resolve)
        return result

    def _add_aliases(self, tree: Tree) -> Tree:
        return {**{alias: tree.get(ROOT) for alias in ROOT_ALIASES}, **tree}

    def _remove_large(self, expansions: Expansions, value: Any, path: KeyPath) -> Any:
        """Take out what would become too large to be resolved."""
        if not _has_marks(value) or not expansions.measure(path).is_too_large:
            return value
        from astuner.settings.config.interpolation_bounds import MOST_CHARACTERS, MOST_REFERENCES

        message = (
            f"{value!r:.80} refers to values that refer to others, more than {MOST_REFERENCES} times or to more than "
            f"{MOST_CHARACTERS >> 20} MiB in all; write the value itself."
        )
        self.faults.append(Fault(message=message, path=path))
        return None

    def _remove_bad_grammar(self, value: Any, path: KeyPath) -> Any:
        """Take out what OmegaConf would refuse the whole tree for."""
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        if _has_marks(value):
            try:
                OmegaConf.create({"value": value})
            except OmegaConfBaseException:
                message = f"{value!r} is not an interpolation that can be read; write \\${{ for the plain characters."
                self.faults.append(Fault(message=message, path=path))
                return None
        return value

    def _resolve(self, value: Any, path: KeyPath) -> Any:
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        if not _has_marks(value):
            return value
        node = self._source
        try:
            for step in path:
                node = node[step]
            node = OmegaConf.to_container(node, resolve=True) if OmegaConf.is_config(node) else node
        except OmegaConfBaseException as error:
            # The engine that owns a native section resolves what only it knows.
            if path[0] == ROOT:
                self.faults.append(self._describe_failure(value, path, error))
            return value
        if self.isolated and any(_COVER in str(leaf) for leaf in flatten({"node": node}).values()):
            self.unread.add(format_path(path))
            self.from_environment[format_path(path)] = value
            return value
        self.replaced.add(format_path(path))
        # A short number or a switch is found by chance, and is read by who counts the steps of a stored run.
        long = isinstance(node, str | dict | list) or len(str(node)) >= _LONG_NUMBER
        if long and any(os.environ.get(name) for name in _VARIABLE.findall(value)):
            self.from_environment[format_path(path)] = value
        else:
            change_leaves(node, self._note_variables, path)
        return node

    def _note_variables(self, found: Any, path: KeyPath) -> None:
        """Note a text that holds the value of a variable of the configuration through a reference to another key."""
        text = self._hide_variables(found) if isinstance(found, str) else found
        if text != found:
            self.from_environment[format_path(path)] = text

    def _hide_variables(self, text: str) -> str:
        for name, value in self._variables.items():
            text = text.replace(value, f"${{oc.env:{name}}}")
        return text

    @cached_property
    def _variables(self) -> dict[str, str]:
        """The variables that the configuration takes values from, the longest value first; short ones are found by chance."""
        texts = [text for text in flatten(self.tree).values() if _has_marks(text) and not self.isolated]
        # The name of a variable, or that of the resolver, may be an interpolation itself.
        names = os.environ if any(_NESTED.search(str(text)) for text in texts) else list_variables(texts)
        values = {name: os.environ.get(name, "") for name in sorted(names)}
        long = {name: value for name, value in values.items() if len(value) >= _LONG_ENOUGH}
        return dict(sorted(long.items(), key=lambda item: -len(item[1])))

    def _describe_failure(self, value: str, path: KeyPath, error: Exception) -> Fault:
        text = self._hide_variables(str(error))
        if missing := _MISSING_VARIABLE.search(text):
            name = missing[1]
            message = f"the environment variable {name} is not set. Set it, add it to .env, or write ${{oc.env:{name},DEFAULT}}."
            return Fault(message=message, path=path)
        if missing := _MISSING_KEY.search(text):
            suggestion = find_closest(missing[1], (f"{ROOT}.{key}" for key in walk_schema()))
            return Fault(message=f"{value!r}: there is no key '{missing[1]}'.", path=path, suggestion=suggestion)
        return Fault(message=f"{value!r} cannot be resolved: {text.splitlines()[0]}.", path=path)


def _has_marks(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_marks, value.values()))
    if isinstance(value, list):
        return any(map(_has_marks, value))
    return isinstance(value, str) and "${" in value
