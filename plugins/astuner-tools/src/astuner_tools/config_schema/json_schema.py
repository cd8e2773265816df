"""The JSON Schema of the whole YAML, with which an editor completes, explains and checks it.

It accepts what `loading` accepts, with two differences that a schema cannot avoid: it checks the section of an installed
component even if another one is chosen, and it takes `1.0` for a whole number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from astuner.settings.config.aliases import KEY_ALIASES, ROOT_ALIASES
from astuner.settings.config.config_file import list_native_roots
from astuner.settings.config.model import Config
from astuner.settings.config.places import ROOT
from astuner.settings.config.sections import COMPONENT_KEYS, COMPONENT_SECTIONS
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.kinds import add_article
from astuner.shared.install_hints import install_from_index
from astuner.shared.known_packages import read_known_packages
from astuner_tools.config_schema.component_schemas import InstalledComponents
from astuner_tools.config_schema.json_types import Schema, build_class_schema, build_free_section, suggest_names
from astuner_tools.stages.choosing import OF_THE_FILE
from astuner_tools.stages.demonstrations import Demonstrations

_WORDS: Mapping[str, tuple[str, ...]] = {
    "task_judge.judge_type": ("customized_protocol",),
    "environment.environment_type": ("auto", "no_env"),
    "rollout.name": ("auto",),
}
"""What a key that names a component may hold in place of a name."""


def build_schema_text(on_broken: Callable[[str], None]) -> str:
    """Return the schema for what is installed in this environment, as JSON text."""
    schema = build_schema(Catalog.discover(), native_roots=list_native_roots(), on_broken=on_broken)
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def build_schema(catalog: Catalog, *, native_roots: Iterable[str], on_broken: Callable[[str], None]) -> Schema:
    """Return the JSON Schema of a YAML for what is installed.

    `native_roots` are the root sections with a trainer's own keys; `on_broken` is called for components with unknown options.
    """
    installed = InstalledComponents(catalog, on_broken)
    config = build_class_schema(Config)
    for section, kinds in COMPONENT_SECTIONS.items():
        for kind in kinds:
            _get_subschema(config, section)["properties"] |= {**_not_installed(kind, installed), **installed.build_sections(kind)}
    for key, kind in COMPONENT_KEYS.items():
        section, _, name = key.rpartition(".")
        properties = _get_subschema(config, section)["properties"]
        properties[name] = suggest_names(properties[name], [*_WORDS.get(key, ()), *installed.list_names(kind)])
    _get_subschema(config, "plugins")["properties"]["options"] |= {
        "properties": dict(installed.build_sections("hook")),
        "additionalProperties": build_free_section(),
    }
    _add_detectors(config, installed)
    _add_loggers(config, installed)
    _add_judges(config, installed)
    _add_old_spellings(config)
    _add_stages(config)
    return _build_document(config, native_roots)


def _build_document(config: Schema, native_roots: Iterable[str]) -> Schema:
    # The roots are read before interpolations are resolved.
    config = {**config, "type": ["object", "null"]}
    roots: Schema = {ROOT: {"allOf": [{"$ref": f"#/definitions/{ROOT}"}], "description": "The configuration of the run."}}
    for alias in ROOT_ALIASES:
        roots[alias] = {"allOf": [{"$ref": f"#/definitions/{ROOT}"}], **_mark_deprecated(ROOT)}
    for root in native_roots:
        description = f"Native keys of the backbone '{root}', which win over those that follow from `{ROOT}`."
        roots[root] = {"type": ["object", "null"], "description": description}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A configuration of astuner",
        "description": "Written by `astuner config schema` for the plugins that were installed then.",
        "type": "object",
        "properties": roots,
        "additionalProperties": False,
        "oneOf": [{"required": [name]} for name in (ROOT, *ROOT_ALIASES)],
        "definitions": {ROOT: config},
    }


def _get_subschema(schema: Schema, path: str) -> Any:
    for name in path.split(".") if path else ():
        schema = schema["properties"][name]
    return schema


def _not_installed(kind: str, installed: InstalledComponents) -> Schema:
    """Return free sections for components of known packages that are not installed, each with what installs it."""
    known = read_known_packages().components
    missing = [name for name in read_known_packages().names(kind) if name not in installed.list_names(kind)]
    told = f"Options of {add_article(kind)} that is not installed: "
    return {name: {"description": f"{told}{install_from_index(known[kind, name])}", **build_free_section()} for name in missing}


def _add_detectors(config: Schema, installed: InstalledComponents) -> None:
    rollout = _get_subschema(config, "rollout")["properties"]
    rollout["detectors"] |= {
        "properties": dict(installed.build_sections("detector")),
        "additionalProperties": build_free_section(),
    }
    checklist = rollout["compute_madness_checklist"]
    checklist["items"] = suggest_names(checklist["items"], installed.list_names("detector"))


def _add_loggers(config: Schema, installed: InstalledComponents) -> None:
    sections = installed.build_sections("logger")
    named = {
        "type": "object",
        "properties": dict(sections),
        "additionalProperties": build_free_section(),
        "minProperties": 1,
        "maxProperties": 1,
    }
    names: list[Schema] = [{"enum": list(sections)}] if sections else []
    one: list[Schema] = [*names, {"type": "string", "minLength": 1}, named]
    logger = _get_subschema(config, "trainer_common.logger")
    several = logger["anyOf"][-1]
    logger["anyOf"] = [*one, {**several, "items": {"anyOf": one}}]


def _add_judges(config: Schema, installed: InstalledComponents) -> None:
    """Let the options of one of several judges be those of the judge that it names."""
    item = _get_subschema(config, "task_judge.judges")["items"]
    item["properties"]["judge"] = suggest_names(item["properties"]["judge"], installed.list_names("judge"))
    options = [
        {
            "if": {"properties": {"judge": {"const": name}}, "required": ["judge"]},
            # If empty, the options come from the judge's own section, so none is required here.
            "then": {"properties": {"options": {key: value for key, value in section.items() if key != "required"}}},
        }
        for name, section in installed.build_sections("judge").items()
    ]
    if options:
        item["allOf"] = options


def _add_old_spellings(config: Schema) -> None:
    for old, new in KEY_ALIASES.items():
        section, _, name = old.rpartition(".")
        try:
            present = _get_subschema(config, new)
        except KeyError:
            present = build_free_section()
        _get_subschema(config, section)["properties"][name] = {**present, **_mark_deprecated(new)}


def _add_stages(config: Schema) -> None:
    """Add the list of stages, each of which may hold what the whole may."""
    demonstrations = build_class_schema(Demonstrations)
    own: Schema = {
        "name": {"type": "string", "minLength": 1, "description": "Names its run, `EXPERIMENT.NUMBER-NAME`."},
        "demonstrations": {
            **demonstrations,
            "description": "Conversations to train on instead of episodes: a file, or a section with the options of warm-start.",
        },
    }
    own["demonstrations"].pop("pattern", None)
    own["demonstrations"].pop("patternErrorMessage", None)
    place = f"#/definitions/{ROOT}/properties"
    others = {name: {"$ref": f"{place}/{name}"} for name in config["properties"] if name not in OF_THE_FILE}
    stage = {"type": "object", "properties": {**own, **others}, "required": ["name"], "additionalProperties": False}
    config["properties"]["stages"] = {
        "type": "array",
        "minItems": 1,
        "items": stage,
        "description": "Trainings one after the other, each merged over the rest of the file; it begins with the weights of the "
        "one before.",
    }


def _mark_deprecated(present: str) -> Schema:
    # `deprecationMessage` would be shown as an error, and old spellings are not errors.
    return {"description": f"Older spelling of `{present}`.", "deprecated": True, "doNotSuggest": True}
