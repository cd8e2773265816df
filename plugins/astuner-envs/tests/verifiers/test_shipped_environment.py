"""An environment that ships with `verifiers`, TextArena's Hangman, is tuned from the YAML that the documents show."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import yaml

from astuner.contract.schema import Episode, Message, Task
from astuner_devkit import write_project
from astuner_devkit.run_in_process import PlayedRun, add_recorder, play
from astuner_tools.demonstrations.request import WarmStartRequest
from astuner_tools.demonstrations.warm_start import warm_start

pytestmark = pytest.mark.skipif(shutil.which("uv") is None, reason="verifiers prepares its own programs with uv")
pytest.importorskip("verifiers.v1", reason="comes with the extra verifiers")
pytest.importorskip("textarena", reason="comes with verifiers[ta]")
pytest.importorskip("astuner_local", reason="comes with astuner-local")

DOCUMENT = Path(__file__).parents[4] / "docs" / "environments.md"
BLOCK = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)

WORDS = ("bee", "fee", "see", "tee")
"""What may be guessed: `e` alone reveals two thirds of each."""
DEMONSTRATED = [*[("?", "?")] * 5, ("[e]", "?"), ("?", "[e]"), ("[x]", "?")]
"""Replies of two turns each: a second `?` in a row ends the game, `[e]` is in every word and `[x]` in none."""
STEPS = 3


@pytest.fixture(scope="module", autouse=True)
def _word_list(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let NLTK find a short list of words, and no network."""
    import nltk

    home = tmp_path_factory.mktemp("nltk")
    (home / "corpora" / "words").mkdir(parents=True)
    for name in ("en", "en-basic"):
        (home / "corpora" / "words" / name).write_text("\n".join(WORDS) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nltk.data, "path", [str(home)])
        patch.setattr(nltk, "download", lambda *_, **__: False)
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a tiny model that answers as the demonstrations do: mostly wrong."""
    from astuner.settings.plugins.options import build_options
    from astuner_envs.verifiers.reader import VerifiersReader

    home = tmp_path_factory.mktemp("model")
    settings = show_settings()
    reader = VerifiersReader(build_options(VerifiersReader, settings["task_reader"]["verifiers"], key="verifiers"))
    task = next(iter(reader.read("train")))
    rows = [{"messages": demonstrate(task, replies)} for replies in DEMONSTRATED]
    (home / "demos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    conf = write_project(home, workflow=settings["rollout"]["user_workflow"], backbone="local", settings=limit_tokens(settings))
    request = WarmStartRequest(conf=conf, demos=home / "demos.jsonl", out=home / "tiny", tiny=True, holdout=0.0, epochs=16)
    warm_start(request, print)
    return home / "tiny"


def show_settings() -> dict[str, Any]:
    """Return the settings of the document."""
    (block,) = [text for text in BLOCK.findall(DOCUMENT.read_text(encoding="utf-8")) if "Hangman" in text]
    settings: dict[str, Any] = yaml.safe_load(block)["astuner"]
    return settings


def limit_tokens(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with limits for a tiny model."""
    rollout = {"max_model_len": 768, "max_response_length_in_one_turn": 4, **settings["rollout"]}
    return {**settings, "data": {"max_prompt_length": 320, "max_response_length": 448, "train_batch_size": 1}, "rollout": rollout}


def tune(directory: Path, model: Path, settings: Mapping[str, Any], *, steps: int, siblings: int) -> PlayedRun:
    """Train with one task a step, and write a checkpoint after the last."""
    limited = limit_tokens(settings)
    run = {
        **limited,
        "model": {"path": str(model)},
        "rollout": {**limited["rollout"], "num_repeat": siblings},
        "trainer_common": {
            "total_training_steps": steps,
            "optim": {"lr": 2.0e-3},
            "val_before_train": False,
            "test_freq": -1,
            "save_freq": steps,
        },
    }
    workflow = settings["rollout"]["user_workflow"]
    return play(write_project(directory, workflow=workflow, backbone="local", settings=add_recorder(run)))


def start_game(task: Task) -> Any:
    """Return the game of a task, without verifiers."""
    import textarena

    info = task.metadata["verifiers"]["data"]["info"]
    random.seed(info["seed"])
    game = textarena.make(env_id=info["game"])
    game.reset(num_players=1)
    return game


def demonstrate(task: Task, replies: Sequence[str]) -> list[Message]:
    """Return a conversation with some replies, which ends with the last of them."""
    game = start_game(task)
    messages = list(task.init_messages)
    for reply in replies:
        messages.append({"role": "assistant", "content": reply})
        game.step(reply)
        messages.append({"role": "user", "content": str(game.get_observation()[1]).split("[GAME]")[-1].strip()})
    return messages[:-1]


def play_directly(episode: Episode) -> float:
    """Return what the game itself gives for the replies of an episode."""
    game = start_game(episode.task)
    for call in episode.calls:
        game.step(call.reply["content"])
    return float(game.state.rewards[0]) if game.state.done else 0.0


def check_every_sampled_token_is_trained(episodes: Sequence[Episode]) -> None:
    for episode in episodes:
        assert (episode.failures, episode.untrained) == ((), {})
        assert sum(sample.trained for sample in episode.samples) == sum(len(call.output_ids) for call in episode.calls)


def list_changed_weights(before: Path, after: Path) -> list[str]:
    from safetensors.torch import load_file

    old, new = (load_file(directory / "model.safetensors") for directory in (before, after))
    return [name for name, tensor in old.items() if not tensor.equal(new[name])]


def test_the_documented_configuration_is_tuned_as_it_is(model, tmp_path):
    played = tune(tmp_path, model, show_settings(), steps=1, siblings=2)
    assert len(played.episodes) == 2
    check_every_sampled_token_is_trained(played.episodes)
    assert played.rewards == [play_directly(episode) for episode in played.episodes]
    # Siblings with the same reward teach nothing.
    assert list_changed_weights(model, played.directory / "checkpoints" / "step_1") or len(set(played.rewards)) == 1


def test_the_reward_of_the_game_rises(model, tmp_path):
    """Everything is as documented but the harness, which asks the model in this process: a program per turn takes long."""
    settings = show_settings()
    settings["task_reader"]["verifiers"]["env"]["player"]["harness"] = {"id": "vowels"}
    played = tune(tmp_path, model, settings, steps=STEPS, siblings=12)
    check_every_sampled_token_is_trained(played.episodes)
    assert played.rewards == [play_directly(episode) for episode in played.episodes]
    assert list_changed_weights(model, played.directory / "checkpoints" / f"step_{STEPS}")
    first, last = (mean(episode.reward for episode in played.episodes if episode.step == step) for step in (1, STEPS))
    assert last > first + 0.2
