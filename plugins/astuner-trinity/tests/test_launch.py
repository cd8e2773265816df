"""How explorer and trainer begin together; calls to actors are answered in this process."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trinity")


class Explorer:
    """Looks for weights by itself: has version 0 when it has been asked so many times."""

    def __init__(self, asked: int) -> None:
        self._asked = asked

    @property
    def model_version(self) -> int:
        self._asked -= 1
        return -1 if self._asked > 0 else 0


class Called:
    """A call to an actor, answered at once."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def remote(self, *arguments: Any) -> Any:
        return self._answer(*arguments)


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> Any:
    from astuner_trinity import launch

    monkeypatch.setattr(launch, "ray", SimpleNamespace(get=lambda answer: answer))
    monkeypatch.setattr(launch, "LOOK_S", 0.001)
    return launch


def waited(launch: Any, explorer: Explorer, timeout: float) -> None:
    handle = SimpleNamespace(__ray_call__=Called(lambda function: function(explorer)))
    launch._await_weights(handle, SimpleNamespace(get_latest_model_version=Called(lambda: 0)), timeout)


def test_an_explorer_that_looks_for_weights_is_waited_for(launch: Any) -> None:
    explorer = Explorer(asked=3)
    waited(launch, explorer, timeout=60)
    assert explorer._asked == 0


def asked(mode: str) -> Any:
    return SimpleNamespace(name="p/run", mode=mode, synchronizer=SimpleNamespace(sync_style="fully_async"))


def test_a_mode_that_trinity_takes_in_the_place_of_the_one_asked_for_ends_the_run(launch: Any) -> None:
    def on_one_gpu(config: Any) -> Any:
        config.mode = "colocate"
        return config

    with pytest.raises(launch.StageFailed, match=r"p/run: the mode is bench, and Trinity takes colocate.*n_gpus_per_node"):
        launch.wrap_check(on_one_gpu)(asked("bench"))
    assert launch.wrap_check(on_one_gpu)(asked("colocate")).mode == "colocate"


@pytest.mark.parametrize(("mode", "style"), [("bench", "fixed"), ("both", "fully_async")])
def test_a_stage_that_measures_does_so_in_the_style_that_can(launch: Any, mode: str, style: str) -> None:
    checked = launch.wrap_check(lambda config: config)(asked(mode))
    assert str(getattr(checked.synchronizer.sync_style, "value", checked.synchronizer.sync_style)) == style


def test_one_that_finds_none_ends_the_stage(launch: Any) -> None:
    with pytest.raises(launch.StageFailed, match="sync_timeout"):
        waited(launch, Explorer(asked=10**9), timeout=0.01)


@pytest.mark.parametrize(("address", "more"), [("127.0.0.1:6379", {"RAY_ADDRESS": "127.0.0.1:6379"}), (None, {})])
def test_actors_know_the_address_of_their_cluster(
    launch: Any, monkeypatch: pytest.MonkeyPatch, address: str | None, more: dict[str, str]
) -> None:
    """vLLM's workers are not Ray's, and fetch weights from it."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address:
        monkeypatch.setenv("RAY_ADDRESS", address)
    config: Any = object()
    assert launch.wrap_variables(lambda config: {"LOG": "1"})(config) == {"LOG": "1", "VLLM_NO_USAGE_STATS": "1", **more}


def stage(mode: str, parts: Path | None) -> Any:
    algorithm = SimpleNamespace(
        policy_loss_fn_args={"token_parts": None if parts is None else str(parts)},
        sample_strategy_args={"plan": "/run/plan.json"},
    )
    return SimpleNamespace(name="run/grpo", mode=mode, algorithm=algorithm)


@pytest.mark.parametrize("mode", ["both", "colocate"])
def test_a_stage_that_plays_and_trains_records_its_tokens_in_a_directory_of_its_own(
    launch: Any, tmp_path: Path, mode: str
) -> None:
    config = stage(mode, tmp_path / "parts")
    launch._open_token_parts(config)
    expected = tmp_path / "parts" / "run_grpo"
    assert expected.is_dir()
    assert config.algorithm.policy_loss_fn_args["token_parts"] == str(expected)
    assert config.algorithm.sample_strategy_args["token_parts"] == str(expected)


@pytest.mark.parametrize(("mode", "recorded"), [("train", True), ("both", False)])
def test_rows_of_another_run_and_runs_without_a_record_have_none(launch: Any, tmp_path: Path, mode: str, recorded: bool) -> None:
    config = stage(mode, tmp_path / "parts" if recorded else None)
    launch._open_token_parts(config)
    assert config.algorithm.policy_loss_fn_args["token_parts"] is None
    assert config.algorithm.sample_strategy_args.get("token_parts") is None
    assert list(tmp_path.iterdir()) == []


def test_a_loss_of_trinitys_own_records_no_tokens(launch: Any) -> None:
    config = SimpleNamespace(
        name="run",
        mode="both",
        algorithm=SimpleNamespace(policy_loss_fn_args=None, sample_strategy_args={"plan": "/run/plan.json"}),
    )
    launch._open_token_parts(config)
    assert "token_parts" not in config.algorithm.sample_strategy_args
