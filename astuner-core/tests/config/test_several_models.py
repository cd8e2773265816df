from __future__ import annotations

from collections.abc import Callable

import pytest

from astuner.contract.errors import Problem
from astuner.settings.config.loading import LoadedConfig

Load = Callable[..., LoadedConfig]
OneProblem = Callable[..., Problem]


def write(model: str, trainer: str = "save_freq: 20") -> str:
    rollout = "rollout: {user_workflow: a->B}"
    return f"astuner:\n  model: {{path: org/name, {model}}}\n  {rollout}\n  trainer_common: {{{trainer}}}\n"


def test_adapters_and_opponents_are_read(load: Load):
    found = load(write("lora_rank: 4, adapters: {a: {}, b: {lora_rank: 2}}, opponents: {c: {checkpoint: 40, adapter: a}}"))
    model = found.config.model
    assert [(name, adapter.lora_rank) for name, adapter in model.adapters.items()] == [("a", None), ("b", 2)]
    assert (model.opponents["c"].checkpoint, model.opponents["c"].adapter) == (40, "a")
    assert load(write("opponents: {c: {}}")).config.model.opponents["c"].checkpoint == "latest"
    load(write("opponents: {c: {checkpoint: 0}}", "save_freq: 0, max_checkpoints_to_keep: 1"))
    load(write("opponents: {c: {}}", "max_checkpoints_to_keep: 2"))


@pytest.mark.parametrize(
    ("model", "trainer", "key", "message"),
    [
        ("adapters: {a: {}}", "", "model.adapters.a", "need a rank: set lora_rank here"),
        ("lora_rank: 2, adapters: {a/b: {}}", "", "model.adapters", "'a/b' cannot name a folder"),
        ("lora_rank: 2, adapters: {'..': {}}", "", "model.adapters", "'..' cannot name a folder"),
        ("lora_rank: 2, adapters: {a: {}}, opponents: {a: {adapter: a}}", "", "model.opponents.a", "an opponent is not trained"),
        ("lora_rank: 2, adapters: {a: {}}, opponents: {b: {}}", "", "model.opponents.b.adapter", "None is none of"),
        ("lora_rank: 2, adapters: {a: {}}, opponents: {b: {adapter: c}}", "", "model.opponents.b.adapter", "Name one of a."),
        ("opponents: {b: {adapter: c}}", "", "model.opponents.b.adapter", "Remove it: the run has no model.adapters"),
        ("opponents: {b: {checkpoint: 30}}", "", "model.opponents.b.checkpoint", "a multiple of trainer_common.save_freq (20)"),
        ("opponents: {b: {checkpoint: 20}}", "save_freq: 0", "model.opponents.b.checkpoint", "no checkpoint is due at step 20"),
        ("opponents: {b: {checkpoint: -20}}", "", "model.opponents.b.checkpoint", "no checkpoint is due at step -20"),
        ("opponents: {b: {checkpoint: first}}", "", "model.opponents.b.checkpoint", "'first'"),
        (
            "opponents: {b: {checkpoint: 20}}",
            "max_checkpoints_to_keep: 3",
            "trainer_common.max_checkpoints_to_keep",
            "the opponent 'b' answers with an earlier one. Remove it",
        ),
        (
            "opponents: {b: {}}",
            "max_checkpoints_to_keep: 1",
            "trainer_common.max_checkpoints_to_keep",
            "or keep 2.",
        ),
    ],
)
def test_what_cannot_be_is_named_with_the_remedy(problem: OneProblem, model: str, trainer: str, key: str, message: str):
    found = problem(write(model, trainer or "save_freq: 20"))
    assert found.key == f"astuner.{key}"
    assert message in found.message
