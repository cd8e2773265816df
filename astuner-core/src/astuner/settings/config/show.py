"""A configuration as text for people and for the run directory, without its secrets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from astuner.settings.config.places import ROOT, KeyPath, format_path
from astuner.settings.config.redaction import is_secret, redact_tree, restore_variables
from astuner.settings.config.trees import change_leaves

if TYPE_CHECKING:
    from astuner.settings.config.loading import LoadedConfig

_UNICODE_BREAKS = frozenset("\x85\u2028\u2029")


def to_yaml(config: LoadedConfig, redact: bool = True) -> str:
    """Write the whole resolved configuration as a YAML that loads to the same one (secrets aside)."""
    tree: Mapping[str, Any] = {ROOT: change_leaves(config.resolved, _escape), **config.native}
    if redact:
        tree = redact_tree(restore_variables(tree, config.from_environment))
    return dump_yaml(tree)


def dump_yaml(tree: Mapping[str, Any]) -> str:
    """Write a tree as YAML that every reader takes for the same values."""
    import yaml

    text: str = yaml.dump(tree, Dumper=_make_dumper(yaml), sort_keys=False, allow_unicode=True, width=120)
    return text


def sign_variables(config: LoadedConfig) -> dict[str, str]:
    """Return a signature of each shown value that came from the environment, by key, so that a resume sees it change.

    It is too short to find a value from it: 16 bits. Secrets, which may change, have none.
    """
    signatures: dict[str, str] = {}

    def sign(value: Any, path: KeyPath) -> None:
        key = format_path(path)
        if key in config.from_environment and not any(is_secret(str(part)) for part in path):
            signatures[key] = hashlib.sha256(f"{key}={value}".encode()).hexdigest()[:4]

    is_taken = config.from_environment.__contains__
    change_leaves({ROOT: config.resolved, **config.native}, sign, is_leaf=lambda path: is_taken(format_path(path)))
    return signatures


def _escape(value: Any, _: object) -> Any:
    # A `${` left after loading means plain characters, and must still do so when it is read again.
    return value.replace("${", "\\${") if isinstance(value, str) else value


def _make_dumper(yaml: Any) -> Any:
    """Return a dumper that writes no anchors, and quotes every text that any YAML reader would take for a number."""
    from astuner.settings.config.yaml_lines import FLOAT, INT

    dumper: Any = type("Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    dumper.add_representer(str, _represent_text)
    dumper.add_implicit_resolver("tag:yaml.org,2002:int", INT, list("-+0123456789"))
    dumper.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))
    return dumper


def _represent_text(dumper: Any, text: str) -> Any:
    # PyYAML leaves the line breaks of Unicode as they are, where a reader takes them for those of the file.
    style = '"' if _UNICODE_BREAKS.intersection(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
