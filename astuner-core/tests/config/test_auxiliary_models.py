from __future__ import annotations

from collections.abc import Callable

import pytest

from astuner.contract.errors import Problem
from astuner.settings.config.loading import LoadedConfig

Load = Callable[..., LoadedConfig]
OneProblem = Callable[..., Problem]

URL = "http://127.0.0.1:8000/v1"


def write(entry: str, name: str = "judge") -> str:
    models = f"{{{name}: {{{entry}}}}}"
    return f"astuner:\n  model: {{path: org/name}}\n  rollout:\n    user_workflow: a->B\n    auxiliary_models: {models}\n"


def test_an_entry_is_an_api_or_the_model_in_training(load: Load):
    found = load(write(f"base_url: {URL}, model: large, temperature: 0.1")).config.rollout.auxiliary_models["judge"]
    assert (found.is_frozen_target, found.model, found.temperature) == (False, "large", 0.1)
    assert load(write("")).config.rollout.auxiliary_models["judge"].is_frozen_target


@pytest.mark.parametrize(
    ("entry", "name", "key", "message"),
    [
        ("model: large", "judge", "judge.model", "has no API. Set base_url"),
        (f"base_url: {URL}", "judge", "judge.model", f"the name of the model at {URL}"),
        ("base_url: localhost, model: large", "judge", "judge.base_url", "'localhost' is not an address such as https"),
        ("", "agent", "agent", "the trained agent is called 'agent'"),
        (f"base_url: {URL}, model: large, api_key_env: NO_SUCH_KEY", "judge", "judge.api_key_env", "NO_SUCH_KEY is not set"),
    ],
)
def test_what_cannot_be_used_is_named_with_the_remedy(problem: OneProblem, entry: str, name: str, key: str, message: str):
    found = problem(write(entry, name))
    assert found.key == f"astuner.rollout.auxiliary_models.{key}"
    assert message in found.message


def test_a_key_in_the_environment_is_found(load: Load, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("A_KEY_OF_THE_JUDGE", "sk-1")
    load(write(f"base_url: {URL}, model: large, api_key_env: A_KEY_OF_THE_JUDGE"))
