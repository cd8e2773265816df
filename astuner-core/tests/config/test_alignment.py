from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from astuner.settings.config.alignment import LEAVE, Alignment, Constant, Row
from astuner.settings.config.loading import LoadedConfig
from astuner.settings.config.native import Native, NativeValue, align
from astuner.settings.config.structure_errors import Fault

Load = Callable[..., LoadedConfig]


def per_step(batch: int, steps: int) -> int:
    if batch % steps:
        raise ValueError(f"{batch} tasks cannot be divided by {steps}.")
    return batch // steps


DEFAULTS = {"actor": {"lr": 1.0, "mini": 256, "clip": {"low": 0.1, "high": 0.3}, "extra": {}}, "mode": "sync"}
TABLE = Alignment(
    root="verl",
    rows=(
        Row("trainer_common.optim.lr", "actor.lr", only_if_set=True),
        Row(("data.train_batch_size", "trainer_common.mini_batch_num"), "actor.mini", value=per_step),
        Row("rollout.temperature", ("sampler.temperature", "loss.temperature")),
        Row("rollout.gamma", "actor.clip", value=lambda gamma: {"high": gamma} if gamma < 1 else LEAVE),
    ),
    constants=(Constant("estimator", "given", "advantages come from core"),),
    defaults=lambda: DEFAULTS,
    frozen={"loss.*": "rollout.temperature decides it"},
)


def native(load: Load, text: str = "", overrides: tuple[str, ...] = (), table: Alignment = TABLE) -> Native:
    return align(table, load(text, list(overrides)))


def source(found: Native, key: str) -> tuple[Any, str, str]:
    value = next(value for value in found.values if value.key == key)
    return value.value, value.source, value.because


def test_a_key_goes_to_every_native_key_of_its_row(load: Load) -> None:
    tree = native(load, "    temperature: 0.7\n").tree
    assert (tree["sampler"]["temperature"], tree["loss"]["temperature"]) == (0.7, 0.7)


def test_arithmetic_is_a_function_of_several_keys(load: Load) -> None:
    assert native(load, "  data: {train_batch_size: 24}\n  trainer_common: {mini_batch_num: 3}\n").tree["actor"]["mini"] == 8


def test_values_that_cannot_be_had_are_named_at_the_key_that_the_user_set(load: Load) -> None:
    [problem] = native(load, "  trainer_common: {mini_batch_num: 3}\n").problems
    assert (problem.key, problem.line) == ("astuner.trainer_common.mini_batch_num", 6)
    assert problem.message == "32 tasks cannot be divided by 3."


def test_mappings_are_merged_deep_and_leave_keeps_the_default(load: Load) -> None:
    assert native(load, "    gamma: 0.5\n").tree["actor"]["clip"] == {"low": 0.1, "high": 0.5}
    assert native(load).tree["actor"]["clip"] == {"low": 0.1, "high": 0.3}


def test_a_row_for_keys_that_are_set_leaves_the_native_default(load: Load) -> None:
    assert native(load).tree["actor"]["lr"] == 1.0
    assert native(load, "  trainer_common: {optim: {lr: 0.5}}\n").tree["actor"]["lr"] == 0.5


def test_every_value_has_its_source(load: Load) -> None:
    text = "    temperature: 0.7\nverl:\n  actor: {clip: {low: 0.2}}\n"
    found = native(load, text, ("verl.actor.extra.own=1",))
    assert source(found, "mode") == ("sync", "default", "")
    assert source(found, "estimator") == ("given", "constant", "advantages come from core")
    assert source(found, "sampler.temperature") == (0.7, "alignment", "rollout.temperature (run.yaml:6)")
    assert source(found, "actor.mini")[2] == "data.train_batch_size, trainer_common.mini_batch_num"
    assert source(found, "actor.clip.low") == (0.2, "override", "run.yaml:8")
    assert source(found, "actor.extra.own") == (1, "set", "--set verl.actor.extra.own")
    assert {value.key for value in found.values} == {
        *("mode", "estimator", "sampler.temperature", "loss.temperature", "actor.lr", "actor.mini"),
        *("actor.clip.low", "actor.clip.high", "actor.extra.own"),
    }


def test_the_raw_section_wins_over_what_is_aligned_and_that_is_said(load: Load) -> None:
    found = native(load, "  trainer_common: {optim: {lr: 0.5}}\nverl: {actor: {lr: 0.25}}\n")
    assert found.tree["actor"]["lr"] == 0.25
    assert found.notices == ("verl.actor.lr wins over trainer_common.optim.lr (run.yaml:6).",)


def test_a_raw_key_beside_a_set_of_ours_for_the_same_native_key_is_an_error(load: Load) -> None:
    [problem] = native(load, "    top_k: 5\nverl: {actor: {lr: 0.25}}\n", ("trainer_common.optim.lr=0.5",)).problems
    assert (problem.key, problem.line) == ("verl.actor.lr", 7)
    assert "--set trainer_common.optim.lr decides the same native key" in problem.message


def test_an_unknown_native_key_is_named_with_a_suggestion(load: Load) -> None:
    [problem] = native(load, "    top_k: 5\nverl: {actor: {minni: 4}}\n").problems
    assert (problem.key, problem.line, problem.suggestion) == ("verl.actor.minni", 7, "actor.mini")


def test_without_known_defaults_any_native_key_is_taken(load: Load) -> None:
    table = Alignment(root="verl", rows=(Row("rollout.gamma", "gamma"),))
    tree = native(load, "    top_k: 5\nverl: {anything: {at: all}}\n", table=table).tree
    assert tree == {"gamma": 1.0, "anything": {"at": "all"}}


def test_a_frozen_native_key_cannot_be_set(load: Load) -> None:
    [problem] = native(load, "    top_k: 5\nverl: {loss: {temperature: 2}}\n").problems
    assert problem.message == "cannot be set here: rollout.temperature decides it."


def test_a_fault_of_the_native_configuration_is_told_at_the_key_that_caused_it(load: Load) -> None:
    table = Alignment(
        root="verl",
        rows=(Row("rollout.top_p", "sampler.top_p"),),
        check=lambda tree: (Fault(message="too low.", path=("sampler", "top_p")), Fault(message="odd.", path=("own",))),
    )
    problems = native(load, "    top_p: 0.1\nverl: {own: 3}\n", table=table).problems
    assert [(problem.key, problem.line) for problem in problems] == [("astuner.rollout.top_p", 6), ("verl.own", 7)]


def test_the_defaults_of_the_trainer_are_not_changed(load: Load) -> None:
    native(load, "    gamma: 0.5\nverl: {actor: {extra: {a: 1}}}\n")
    assert DEFAULTS["actor"] == {"lr": 1.0, "mini": 256, "clip": {"low": 0.1, "high": 0.3}, "extra": {}}


def test_without_asking_the_trainer_rows_are_checked_all_the_same(load: Load) -> None:
    def fail() -> dict[str, Any]:
        raise AssertionError("the trainer was asked")

    table = Alignment(root="verl", rows=(Row("data.train_batch_size", "n", value=lambda n: per_step(n, 5)),), defaults=fail)
    [problem] = align(table, load(), ask_trainer=False).problems
    assert problem.key == "astuner.data.train_batch_size"


def test_open_sections_are_values_too(load: Load) -> None:
    table = Alignment(root="verl", rows=(Row("rollout.*", "engine_kwargs"),))
    assert native(load, "    vllm: {port: 1}\n", table=table).tree == {"engine_kwargs": {"vllm": {"port": 1}}}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Row("rollout.temprature", "t"), "no key 'rollout.temprature'; did you mean 'rollout.temperature'"),
        (lambda: Row(("rollout.top_p", "rollout.top_k"), "t"), "several keys need a function"),
        (lambda: Alignment(root="a", rows=(Row("rollout.top_p", "t"), Row("rollout.top_k", "t"))), "more than one row decides t"),
        (
            lambda: Alignment(root="a", rows=(Row("rollout.top_p", "t"),), constants=(Constant("t", 1, "so"),)),
            "more than one row decides t",
        ),
    ],
)
def test_a_wrong_table_fails_where_it_is_written(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_values_are_ordered_by_key_and_data(load: Load) -> None:
    found = native(load).values
    assert [value.key for value in found] == sorted(value.key for value in found)
    assert all(isinstance(value, NativeValue) for value in found)
