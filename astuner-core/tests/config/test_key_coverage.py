from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
from attrs import evolve

from astuner.contract.errors import Problem
from astuner.contract.protocols import EngineTraits
from astuner.episodes.builtin.debug.debug_backbone import DebugBackbone
from astuner.settings.config.alignment import Alignment, Row
from astuner.settings.config.loading import LoadedConfig
from astuner.settings.config.schema_keys import read_core_keys
from astuner.settings.planning.key_coverage import HonourTable, check_honoured, find_unaccounted_keys, matches, walk_schema

CORE = read_core_keys()
PATTERNS = (*CORE.honoured, *CORE.inapplicable, *CORE.refused)


def judge(
    loaded: LoadedConfig, honours: tuple[str, ...] = (), inapplicable: Mapping[str, str] | None = None
) -> tuple[list[Problem], list[str]]:
    return check_honoured(loaded, HonourTable(backbone="acme", honours=honours, inapplicable=inapplicable or {}))


def test_key_that_nobody_acts_on_is_named_with_the_backbone(load: Callable[..., LoadedConfig]) -> None:
    [problem], notices = judge(load("    gamma: 0.5\n"))
    assert (problem.key, problem.line) == ("astuner.rollout.gamma", 6)
    assert "'acme'" in problem.message
    assert notices == []


def test_default_is_never_refused(load: Callable[..., LoadedConfig]) -> None:
    assert judge(load("    gamma: 1.0\n    n_vllm_engine: 2\n")) == ([], [])


@pytest.mark.parametrize("pattern", ["rollout.gamma", "rollout.*", "rollout", "*.gam?a"])
def test_backbone_honours_by_pattern_or_section(load: Callable[..., LoadedConfig], pattern: str) -> None:
    assert judge(load("    gamma: 0.5\n"), honours=(pattern,)) == ([], [])


def test_what_core_does_is_honoured_for_every_backbone(load: Callable[..., LoadedConfig]) -> None:
    text = "    temperature: 0.1\n  task_judge: {judge_protocol: math, math: {x: 1}}\n  seed: 1\n"
    assert judge(load(text)) == ([], [])


def test_keys_without_effect_for_one_reason_are_said_in_one_notice(load: Callable[..., LoadedConfig]) -> None:
    loaded = load("    gamma: 0.5\n    n_vllm_engine: 3\n")
    _, notices = judge(loaded, inapplicable={"rollout.*": "it rolls nothing"})
    assert notices == ["rollout.gamma, rollout.n_vllm_engine have no effect with the backbone 'acme': it rolls nothing."]


def test_what_nothing_acts_on_is_refused(load: Callable[..., LoadedConfig]) -> None:
    problems, _ = judge(load("    n_vllm_engine: 3\n"))
    assert ["does not act on this key" in problem.message for problem in problems] == [True]


def test_options_of_an_engine_are_honoured(load: Callable[..., LoadedConfig]) -> None:
    assert judge(load("    name: vllm\n    vllm: {port: 1}\n"), honours=("rollout.name",)) == ([], [])


def test_inapplicable_key_is_a_notice_with_the_reason(load: Callable[..., LoadedConfig]) -> None:
    loaded = load("    n_vllm_engine: 3\n")
    problems, notices = judge(loaded, inapplicable={"rollout.n_vllm_engine": "it uses one engine"})
    assert problems == []
    assert notices == ["rollout.n_vllm_engine has no effect with the backbone 'acme': it uses one engine."]


def test_backbone_may_name_a_key_of_core_inapplicable_but_not_by_a_pattern(load: Callable[..., LoadedConfig]) -> None:
    loaded = load("    max_env_worker: 3\n  trainer_common: {total_epochs: 3}\n")
    problems, notices = judge(loaded, inapplicable={"rollout.max_env_worker": "one at a time", "trainer_common.*": "no training"})
    assert problems == []
    assert notices == ["rollout.max_env_worker has no effect with the backbone 'acme': one at a time."]


def test_settings_of_the_debug_backbone_are_remarked_on_elsewhere(load: Callable[..., LoadedConfig]) -> None:
    problems, notices = judge(load("  debug: {debug_max_parallel: 1}\n"))
    assert problems == []
    assert notices == ["debug.debug_max_parallel has no effect with the backbone 'acme': only the backbone 'debug' reads it."]


def test_reserved_keys_are_remarked_on(load: Callable[..., LoadedConfig]) -> None:
    problems, notices = judge(load("  execute_test: true\n"))
    assert problems == []
    assert notices == ["execute_test has no effect with the backbone 'acme': reserved for automated tests."]


def test_schema_lists_every_leaf(load: Callable[..., LoadedConfig]) -> None:
    def leaves(value: Any) -> int:
        if not attrs.has(type(value)):
            return 1
        return sum(leaves(getattr(value, item.name)) for item in attrs.fields(type(value)))

    keys = walk_schema()
    assert len(keys) == len(set(keys)) == leaves(load().config)
    assert {"rollout.multi_turn.max_steps", "trainer_common.optim.betas", "services.*", "task_reader.*", "rollout.*"} <= set(keys)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_of_core_means_a_key_that_exists(pattern: str) -> None:
    assert any(matches(key, pattern) for key in walk_schema())


def test_no_pattern_of_core_is_wider_than_a_section_of_free_names() -> None:
    free = [pattern for pattern in PATTERNS if "*" in pattern]
    assert [pattern for pattern in free if pattern.replace("[*]", "*") not in walk_schema()] == []


def test_a_refused_key_is_an_error_with_the_reason(load: Callable[..., LoadedConfig]) -> None:
    table = HonourTable(backbone="acme", refuses={"rollout.n_vllm_engine": "it starts no servers"})
    [problem], _ = check_honoured(load("    n_vllm_engine: 3\n"), table)
    assert "does not act on this key: it starts no servers" in problem.message


def test_a_backbone_may_refuse_a_key_of_core_by_name(load: Callable[..., LoadedConfig]) -> None:
    table = HonourTable(backbone="acme", refuses={"rollout.top_k": "it samples from the whole vocabulary"})
    assert [problem.key for problem in check_honoured(load("    top_k: 3\n"), table)[0]] == ["astuner.rollout.top_k"]


def test_a_key_of_the_alignment_is_honoured_and_names_its_target() -> None:
    table = HonourTable(backbone="acme", alignment=Alignment(root="acme", rows=(Row("rollout.gamma", "algorithm.gamma"),)))
    honour = table.find_honour("rollout.gamma")
    assert (honour.status, honour.native) == ("aligned", ("algorithm.gamma",))


def test_every_key_is_accounted_for_by_the_debug_backbone() -> None:
    assert find_unaccounted_keys(DebugBackbone) == []


def test_a_key_that_a_backbone_says_nothing_about_is_unaccounted() -> None:
    class Forgetful(DebugBackbone):
        traits = evolve(DebugBackbone.traits, inapplicable={})

    assert "trainer_common.grad_clip" in find_unaccounted_keys(Forgetful)
    assert "trainer_common.logger" not in find_unaccounted_keys(Forgetful)


class ServerEngine:
    traits = EngineTraits(honours={"*": ("rollout.n_vllm_engine",), "acme": ("rollout.max_num_seqs",)})


def test_a_key_that_the_chosen_engine_acts_on_is_honoured_whatever_the_backbone_says(load: Callable[..., LoadedConfig]) -> None:
    table = HonourTable(
        backbone="acme", refuses={"rollout.n_vllm_engine": "it starts no servers"}, engine_honours=("rollout.n_vllm_engine",)
    )
    assert check_honoured(load("    n_vllm_engine: 3\n"), table) == ([], [])
    assert table.find_honour("rollout.n_vllm_engine").status == "engine"


@pytest.mark.parametrize(("backbone", "expected"), [("acme", ("rollout.max_num_seqs",)), ("other", ("rollout.n_vllm_engine",))])
def test_an_engine_may_act_on_other_keys_under_another_backbone(backbone: str, expected: tuple[str, ...]) -> None:
    assert HonourTable.of(DebugBackbone, backbone, ServerEngine).engine_honours == expected


def test_an_engine_that_says_nothing_acts_on_no_key_of_ours() -> None:
    assert HonourTable.of(DebugBackbone, "debug", object).engine_honours == ()
