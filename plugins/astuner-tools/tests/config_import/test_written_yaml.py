"""The YAML of a translated configuration: whatever its values, it is read back as the same ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from astuner.settings.config.importers import Answer
from astuner.settings.config.loading import examine_config
from astuner.settings.config.trees import flatten
from astuner.settings.config.yaml_lines import read_yaml
from astuner_tools.config_import.importing import write_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["a\nb", "a\r\nb: c", "\x85x", "\u2028- y", "\x00", "\ud800", "# z", "'", "1e-6", "on", "null", "---", "\t", "${a"]
)
LEAVES = TEXTS | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.none()
KEYS = st.text("abcdefgh_", min_size=1, max_size=6)
TREES: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
ANSWERS = st.builds(
    Answer, key=TEXTS, kind=st.sampled_from(["translated", "ignored", "dropped"]), keys=st.just(("a",)), reason=TEXTS
)


@given(st.dictionaries(KEYS, TREES, max_size=3), st.dictionaries(KEYS, TREES, max_size=3), st.lists(ANSWERS, max_size=3), TEXTS)
def test_any_values_and_reasons_are_read_back(ours: Any, native: Any, answers: list[Answer], source: str) -> None:
    roots = {"astuner": ours, "acme": native}
    text = write_yaml(roots, answers, source, "acme")
    assert read_yaml(text, Path("tune.yaml")).values == roots


@settings(max_examples=20)
@given(st.text("abc 123-_\n", max_size=20), st.lists(ANSWERS, max_size=3))
def test_a_written_configuration_is_loaded_as_the_same_values(tmp_path_factory: Any, name: str, answers: list[Answer]) -> None:
    roots = {"astuner": {"model": {"path": "org/name"}, "project_name": f"p{name.strip()}", "data": {"train_batch_size": 4}}}
    target = tmp_path_factory.mktemp("written") / "tune.yaml"
    target.write_text(write_yaml(roots, answers, "theirs.yaml", "acme"), encoding="utf-8")
    found = flatten(examine_config(target).resolved)
    assert {key: found[key] for key in flatten(roots["astuner"])} == flatten(roots["astuner"])


def test_a_reason_of_several_lines_is_a_comment_of_one() -> None:
    answer = Answer(key="a", kind="dropped", reason="no\n- such: value\u2028x\x00")
    text = write_yaml({"astuner": {"seed": 1}}, [answer], "theirs.yaml", "acme")
    assert [line for line in text.splitlines() if not line.startswith("#")] == ["astuner:", "  seed: 1"]
    assert "#   a: no - such: value x" in text


def test_what_is_not_the_same_is_written_with_what_is_left_out() -> None:
    answers = [
        Answer(key="a", kind="dropped", reason="why not"),
        Answer(key="b", kind="translated", keys=("astuner.seed",), reason="the first of 2"),
        Answer(key="c", kind="translated", keys=("astuner.seed",)),
    ]
    lines = write_yaml({"astuner": {"seed": 1}}, answers, "x", "acme").splitlines()
    assert lines[1:5] == ["# Left out:", "#   a: why not", "# Not the same:", "#   b: the first of 2"]
