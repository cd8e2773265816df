from __future__ import annotations

from typing import Any, get_args

import attrs
import hypothesis.strategies as st
from hypothesis import given, settings

from astuner.settings.config.components import OPEN
from astuner.settings.config.model import Config
from astuner.settings.config.sections import DatasetFileSection, FileSplit
from astuner.settings.config.structuring import make_converter
from astuner.settings.config.trainer import LoggerChoice

names = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
sections = st.dictionaries(names.map("x_{}".format), st.dictionaries(names, plain, max_size=3), max_size=3)

loggers = st.builds(LoggerChoice, name=names, options=st.dictionaries(names, plain, max_size=2))

SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    "top_k": st.just(-1) | st.integers(1, 100),
    "experiment_name": names,
    "clip_ratio_c": st.floats(1.01, 10),
    "betas": st.tuples(*[st.floats(0, 0.99)] * 2),
    "logger": st.lists(st.builds(LoggerChoice, name=names, options=st.dictionaries(names, plain, max_size=2)), max_size=3).map(
        tuple
    ),
    "port": st.integers(1, 65535),
    "debug_vllm_port": st.integers(1, 65535),
}


def of_kind(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type that every validator of the model accepts: numbers from 0 to 1, whole ones from 1."""
    if attrs.has(kind):
        return of_class(kind)
    if kind is int:
        return st.integers(1, 1000)
    if kind is float:
        return st.floats(0.01, 0.99)
    if get_args(kind) and getattr(kind, "__origin__", None) is tuple:
        return st.lists(of_kind(get_args(kind)[0]), max_size=3).map(tuple)
    if not get_args(kind):
        return st.from_type(kind)
    members = [member for member in get_args(kind) if isinstance(member, type) or get_args(member)]
    if "Literal" in str(kind) and not members:
        return st.sampled_from(get_args(kind))
    if "Mapping" in str(getattr(kind, "__origin__", "")):
        value = get_args(kind)[1]
        return st.dictionaries(names, plain if value is Any else of_kind(value), max_size=3)
    return st.one_of(st.none() if member is type(None) else of_kind(member) for member in members)


def of_class(cls: type[Any]) -> st.SearchStrategy[Any]:
    fields = {
        item.name: sections if item.metadata.get(OPEN) else SPECIAL[item.name] if item.name in SPECIAL else of_kind(item.type)
        for item in attrs.fields(attrs.resolve_types(cls))
    }
    return st.builds(cls, **fields)


@settings(max_examples=60)
@given(config=of_class(Config))
def test_structuring_undoes_unstructuring(config: Config) -> None:
    converter = make_converter()
    assert converter.structure(converter.unstructure(config), Config) == config


def test_defaults_survive_the_round_trip() -> None:
    converter = make_converter()
    assert converter.structure(converter.unstructure(Config()), Config) == Config()
    assert converter.structure({}, Config) == Config()


def test_the_section_of_files_survives_the_round_trip() -> None:
    converter = make_converter()
    made = converter.structure({"training": {"file_path": "a.jsonl"}}, DatasetFileSection)
    assert converter.structure(converter.unstructure(made), DatasetFileSection) == made


def test_split_of_a_file_maps_columns() -> None:
    made = make_converter().structure({"file_path": "a.jsonl", "columns": {"main_query": "question"}, "limit": 3}, FileSplit)
    assert made == FileSplit(file_path="a.jsonl", columns={"main_query": "question"}, limit=3)
