"""The file of rubrics: YAML to read, compare, edit and reuse."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from attrs import evolve, field, frozen
from attrs.validators import ge, le

from astuner.contract.errors import DataError
from astuner.runs.store.atomic import write_text
from astuner.settings.config.places import format_path
from astuner.settings.config.structure_errors import FaultsError
from astuner.settings.config.structuring import make_converter
from astuner.settings.config.yaml_bounds import load_plain_yaml
from astuner_judges.rubrics.rubric import Theme, make_names_distinct, to_one_line

VERSION = 1

_HEAD = """\
# Rubrics of the judge rubrics_auto_grader, to be edited by hand as you like: each theme is one score of an answer, its tips say
# more exactly what is meant. `learnt` records where they come from; it has no effect on grading.
"""


@frozen(kw_only=True)
class LearntRubric:
    """The origin of a rubric, and its results on other examples."""

    rubric: str
    examples: tuple[str, ...]
    """Ids of the tasks that it was made from."""
    agreement: float
    """With the labels of other examples; good and bad ones weigh the same."""
    verdicts: int
    """On how many."""
    failed: int = 0
    """On how many there was no verdict."""


@frozen(kw_only=True)
class HeldOut:
    """How the rubrics together did on examples that they were not learnt from."""

    examples: int
    agreement: float
    failed: int = 0


@frozen(kw_only=True)
class Provenance:
    """The provenance of rubrics. Without times and costs, so that the same learning gives the same file."""

    by: str
    """Distribution and version."""
    model: str
    seed: int
    fingerprint: str
    """Digest of everything that the rubrics depend on: examples, options, prompts."""
    content: str
    """Digest of the themes as learnt, which reveals changes by hand."""
    counts: Mapping[str, int] = field(factory=dict)
    rubrics: tuple[LearntRubric, ...] = ()
    held_out: HeldOut | None = None
    examples: tuple[str, ...] = ()
    """Digests of question and answer of each example learnt from."""


@frozen(kw_only=True)
class SavedTheme:
    """A theme as a user may write it."""

    theme: str
    name: str = ""
    tips: tuple[str, ...] = ()


@frozen(kw_only=True)
class RubricFile:
    """What the file holds."""

    themes: tuple[SavedTheme | str, ...]
    version: int = field(default=VERSION, validator=[ge(VERSION), le(VERSION)])
    grader_name: str = ""
    grader_mode: Literal["pointwise", "listwise"] | None = None
    """The mode that they were learnt for; None serves both."""
    language: Literal["en", "zh"] | None = None
    learnt: Provenance | None = None

    @property
    def rubrics(self) -> tuple[Theme, ...]:
        """The themes, with distinct names."""
        made = [SavedTheme(theme=one) if isinstance(one, str) else one for one in self.themes]
        return make_names_distinct(
            Theme(
                name=one.name or f"rubric_{number}",
                theme=to_one_line(one.theme),
                tips=tuple(tip for text in one.tips if (tip := to_one_line(text))),
            )
            for number, one in enumerate(made, start=1)
        )

    @property
    def is_edited(self) -> bool:
        """Whether the themes differ from those that were learnt."""
        return self.learnt is not None and self.learnt.content != digest_content(self.rubrics)


def digest_content(themes: tuple[Theme, ...]) -> str:
    """Return a digest of the themes, 16 hex digits."""
    return _digest([[theme.theme, *theme.tips] for theme in themes])


def digest_values(*parts: Any) -> str:
    """Return a digest of JSON values, 16 hex digits."""
    return _digest(parts)


def write_rubrics(path: Path, held: RubricFile) -> None:
    """Write the file, replacing what is there in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, to_yaml(held), private=False)


def to_yaml(held: RubricFile) -> str:
    """Return the text of the file: the same rubrics give the same bytes."""
    import yaml

    themes = [_drop_empty({"name": one.name, "theme": one.theme, "tips": list(one.tips)}) for one in held.rubrics]
    plain = make_converter().unstructure(evolve(held, themes=()))
    document = {key: plain[key] for key in ("version", "grader_name", "grader_mode", "language")}
    learnt = None if held.learnt is None else _drop_empty(plain["learnt"])
    text: str = yaml.safe_dump(
        {**document, "themes": themes, "learnt": learnt}, sort_keys=False, allow_unicode=True, width=120, default_flow_style=False
    )
    return _HEAD + text


def read_rubrics(path: Path, key: str) -> RubricFile:
    """Read the file; raises `DataError` with all its mistakes. `key` is the option that names it."""
    import yaml

    try:
        data = load_plain_yaml(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"{key}: {path}: cannot be read as YAML: {error}") from error
    if not isinstance(data, Mapping):
        raise DataError(f"{key}: {path}: expected a mapping with `themes`, a list of rubrics")
    try:
        held: RubricFile = make_converter().structure(dict(data), RubricFile)
    except FaultsError as error:
        faults = "; ".join(f"{format_path(fault.path, '')}: {fault.message}".removeprefix(".") for fault in error.faults)
        raise DataError(f"{key}: {path}: {faults}") from error
    if not held.themes or not all(theme.theme for theme in held.rubrics):
        raise DataError(f"{key}: {path}: it holds no rubrics: give `themes` one or more, each with a text")
    return held


def _drop_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, [], {}, "")}


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
