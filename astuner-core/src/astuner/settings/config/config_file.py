"""The YAML file of a run: its text, its root sections, and the lines of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.aliases import ROOT_ALIASES
from astuner.settings.config.importers import ChosenImporter, find_importer, format_notices, move_places
from astuner.settings.config.model import Config
from astuner.settings.config.paths import find_similar_path
from astuner.settings.config.places import ROOT, Place
from astuner.settings.config.structure_errors import find_closest
from astuner.settings.config.trees import Tree
from astuner.settings.config.yaml_lines import read_yaml
from astuner.shared.known_packages import read_known_packages


@frozen(kw_only=True)
class ConfigFile:
    """The values of a file, before defaults and the command line."""

    text: str
    roots: Tree
    """By root: `{"astuner": {...}, "acme": {...}}`."""
    written_root: str
    """The file's name for the root `astuner`."""
    places: dict[str, Place]
    problems: tuple[Problem, ...] = ()
    """Of the root sections."""
    importer: ChosenImporter | None = None
    """The importer of the other trainer that it is written for."""
    notices: tuple[str, ...] = ()
    """What became of the keys of that trainer."""


def list_native_roots() -> tuple[str, ...]:
    """Return the names of the backbones that are published or installed, whose root sections hold raw native keys.

    A name that is also one of our keys (`debug`) is left out: such a section belongs below `astuner`. Nothing is imported.
    """
    ours = attrs.fields_dict(Config)
    installed = sorted(entry.name for entry in entry_points(group="astuner.backbones"))
    return tuple(dict.fromkeys(name for name in (*read_known_packages().names("backbone"), *installed) if name not in ours))


def read_config_file(path: Path, native_roots: Sequence[str] = (), *, isolated: bool = False) -> ConfigFile:
    """Read a file and, unless `isolated`, the `.env` next to it; raise `ConfigError` if it is not YAML with our root section."""
    text = _read_text(path)
    if not isolated:
        _read_dotenv(path.parent)
    document = read_yaml(text, path)
    places = {key: (path, line) for key, line in document.lines.items()}
    values, notices = document.values, []
    # An importer may look for files.
    if (importer := None if isolated else find_importer(values, path)) is not None:
        translation = importer.translate(values, path, is_file=True)
        values, places = translation.roots, move_places(places, translation.answers)
        notices = format_notices(importer.name, translation.answers)
    written_root, problems = _check_roots(values, places, path, native_roots)
    known = {key: value or {} for key, value in values.items() if key in (written_root, *native_roots)}
    roots = {ROOT if key == written_root else key: value if isinstance(value, dict) else {} for key, value in known.items()}
    return ConfigFile(
        text=text,
        roots=roots,
        written_root=written_root,
        places={_rename_root(key, written_root): place for key, place in places.items()},
        problems=tuple(problems),
        importer=importer,
        notices=tuple(notices),
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        similar = find_similar_path(path.name, path.parent)
        raise ConfigError([Problem(message="there is no such file.", file=path, suggestion=similar)]) from error
    except OSError as error:
        raise ConfigError([Problem(message=f"the file cannot be read: {error.strerror}.", file=path)]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            [Problem(message=f"the file is not UTF-8 text: {error.reason} at byte {error.start}.", file=path)]
        ) from error


def _read_dotenv(directory: Path) -> None:
    file = directory / ".env"
    if file.is_file():
        from dotenv import load_dotenv

        load_dotenv(file, override=False)


def _check_roots(values: Any, places: dict[str, Place], path: Path, native_roots: Sequence[str]) -> tuple[str, list[Problem]]:
    """Return what the file calls the root `astuner`, and what is wrong with the others."""
    if not isinstance(values, dict):
        message = "the file must be a mapping with the root section `astuner:`."
        raise ConfigError([Problem(message=message, file=path, line=None if values is None else 1)])
    problems = []
    sections = set(attrs.fields_dict(Config))
    for key, value in values.items():
        line = places[key][1] if key in places else None
        if key not in (ROOT, *ROOT_ALIASES, *native_roots):
            right = f"{ROOT}.{key}" if key in sections else find_closest(key, (ROOT, *ROOT_ALIASES, *native_roots))
            message = f"there is no such root section; there are {ROOT}, {', '.join(native_roots)}."
            problems.append(Problem(message=message, key=key, file=path, line=line, suggestion=right))
        elif value is not None and not isinstance(value, dict):
            problems.append(Problem(message="expected a section.", key=key, file=path, line=line))
    roots = [key for key in (ROOT, *ROOT_ALIASES) if key in values]
    if len(roots) > 1:
        message = f"this is another name of {roots[0]}, which is given too. Put all keys into one of them."
        problems.append(Problem(message=message, key=roots[1], file=path, line=places[roots[1]][1]))
    elif not roots and not problems:
        problems.append(Problem(message=f"the root section `{ROOT}:` is missing.", file=path))
    # What is below a misspelt root is checked as if it were spelt right.
    roots += [problem.key for problem in problems if problem.suggestion == ROOT and problem.key and not roots]
    if not roots:
        raise ConfigError(problems)
    return roots[0], problems


def _rename_root(key: str, root: str) -> str:
    return ROOT + key[len(root) :] if key == root or key.startswith(f"{root}.") else key
