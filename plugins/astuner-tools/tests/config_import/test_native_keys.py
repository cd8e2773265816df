"""A trainer's configuration in our keys: the alignment read backwards, and what becomes of every key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from astuner.settings.config.alignment import Alignment, Constant, Import, Row
from astuner.settings.config.importers import Answer
from astuner.settings.config.trees import flatten
from astuner_tools.config_import.native_keys import translate_native


def halve(value: Any) -> Mapping[str, Any]:
    if value % 2:
        raise ValueError(f"{value} is odd: data.train_batch_size is half of it")
    return {"data.train_batch_size": value // 2}


def keep_unknown(name: Any) -> Mapping[str, Any] | None:
    return {} if name == "grpo" else None


def note_small(value: Any) -> str:
    return "the rest is not taken" if value < 4 else ""


ALIGNMENT = Alignment(
    root="acme",
    rows=(
        Row("rollout.temperature", "sampler.temperature"),
        Row(("data.train_batch_size", "rollout.num_repeat"), "loop.rows", value=lambda batch, repeats: batch * repeats),
    ),
    constants=(Constant("loop.kind", "steps", "core leads it"),),
    defaults=lambda: {
        "sampler": {"temperature": 1.0, "seed": 3},
        "loop": {"rows": 8, "kind": "steps", "name": "x"},
        "algorithm": "grpo",
        "free": {},
    },
    frozen={"loop.kind": "core leads it"},
    imports=(Import("loop.rows", halve, note=note_small), Import("algorithm", keep_unknown)),
)


def translate(values: Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Answer]]:
    translation = translate_native(ALIGNMENT, "acme", values)
    return flatten(translation.roots), {answer.key: answer for answer in translation.answers}


def test_a_row_of_one_key_is_read_backwards() -> None:
    found, answers = translate({"sampler": {"temperature": 0.5}})
    assert found["astuner.rollout.temperature"] == 0.5
    assert answers["sampler.temperature"].keys == ("astuner.rollout.temperature",)


def test_a_default_of_the_trainer_arrives_too_since_ours_may_be_another() -> None:
    found, _ = translate({"sampler": {"temperature": 1.0}})
    assert found["astuner.rollout.temperature"] == 1.0


def test_an_import_decides_before_the_rows() -> None:
    found, answers = translate({"loop": {"rows": 16}})
    assert found["astuner.data.train_batch_size"] == 8
    assert answers["loop.rows"].kind == "translated"


def test_what_an_import_refuses_is_left_out_with_its_sentence() -> None:
    found, answers = translate({"loop": {"rows": 7}})
    assert answers["loop.rows"] == Answer(key="loop.rows", kind="dropped", reason="7 is odd: data.train_batch_size is half of it")
    assert "astuner.data.train_batch_size" not in found


def test_a_value_that_no_import_knows_stays_below_the_root_of_the_backbone() -> None:
    found, answers = translate({"algorithm": "gspo"})
    assert found["acme.algorithm"] == "gspo"
    assert answers["algorithm"].keys == ("acme.algorithm",)
    assert translate({"algorithm": "grpo"})[1]["algorithm"].kind == "ignored"


def test_a_key_that_the_backbone_decides_is_left_out_with_the_reason() -> None:
    assert translate({"loop": {"kind": "other"}})[1]["loop.kind"].reason == "core leads it"


def test_the_other_keys_stay_unless_they_are_defaults_or_unknown() -> None:
    found, answers = translate({"sampler": {"seed": 4}, "loop": {"name": "x", "nme": "y"}, "free": {"any": 1}})
    assert found["acme.sampler.seed"] == 4
    assert found["acme.free.any"] == 1
    assert answers["loop.name"].kind == "ignored"
    assert answers["loop.nme"].kind == "dropped"
    assert "loop.name" in answers["loop.nme"].reason


def test_every_leaf_has_one_answer_in_the_order_of_the_file() -> None:
    values = {"free": {"b": 1, "a": [1, 2]}, "loop": {"rows": 2, "kind": "steps"}, "sampler": {"temperature": 1}}
    answers = translate_native(ALIGNMENT, "acme", values).answers
    assert [answer.key for answer in answers] == list(flatten(values))


def test_what_does_not_come_along_is_noted() -> None:
    assert translate({"loop": {"rows": 2}})[1]["loop.rows"].reason == "the rest is not taken"
    assert translate({"loop": {"rows": 16}})[1]["loop.rows"].reason == ""


def test_an_empty_section_is_not_needed() -> None:
    found, answers = translate({"loop": {}, "sampler": {"temperature": 0.5}})
    assert answers["loop"].kind == "ignored"
    assert "acme.loop" not in found


def test_a_key_of_another_section_with_a_like_name_is_not_suggested() -> None:
    assert "did it mean" not in translate({"other": {"temperature": 1.0}})[1]["other.temperature"].reason
