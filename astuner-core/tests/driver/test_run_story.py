from __future__ import annotations

import json
import shlex
from pathlib import Path

from astuner.episodes.transcript.terminal_text import format_seconds
from astuner.runs.driver.launch import format_resume_command
from astuner.runs.driver.run_request import RunRequest
from astuner.runs.driver.run_story import tell_story
from astuner.runs.store.checkpoints import record_validation
from astuner.runs.store.directory import RunDirectory


def write(tmp_path, *rows, saved=(20,)):
    directory = RunDirectory(tmp_path / "run")
    directory.path.mkdir()
    directory.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 3, "ki')
    for step in saved:
        (directory.checkpoints / f"step_{step}").mkdir(parents=True)
    return directory


def validation(step, reward):
    return {"step": step, "kind": "validation", "val/reward/mean": reward, "val/success/rate": reward, "val/episodes": 64}


def train(step, reward, **more):
    numbers = {"reward/mean": reward, "time/step_s": 60.0, "signal/episodes": 32, "tokens/generated": 1000, "tokens/trained": 500}
    return {"step": step, "kind": "train", **numbers, **more}


def test_a_run_tells_what_it_reached_what_it_took_and_what_it_lost(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lost = {"signal/lost/timeout": 2, "signal/lost/workflow_error": 1, "signal/lost/tokens_failed": 40}
    rows = [validation(0, 0.0), train(1, 0.1, **lost), train(2, 0.6), validation(2, 1.0), train(3, 0.5), validation(3, 0.9)]
    assert tell_story(write(tmp_path, *rows)) == [
        "validation reward 0.000 → 0.900, success 0% → 90% (steps 0 → 3; best 1.000 after step 2, which was not kept)",
        "training reward 0.100 → 0.500 (steps 1 → 3; best 0.600 in step 2)",
        "3 steps in 3 min 0 s, 288 episodes, 3,000 tokens sampled, 1,500 trained",
        "lost: 3 of 96 episodes (timeout 2, workflow_error 1)",
        "not trained: 40 sampled tokens (failed 40)",
        "look:     astuner episodes run",
        "compare:  astuner compare run OTHER_RUN",
        "export:   astuner export run --out MODEL_DIR   (a Hugging Face model, which inference servers load)",
    ]


def test_a_run_whose_best_checkpoint_is_not_its_last_offers_that_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    directory = write(tmp_path, validation(0, 0.2), validation(2, 1.0), validation(3, 0.1), saved=(2, 3))
    for step, reward in ((2, 1.0), (3, 0.1)):
        record_validation(directory, step, "val/reward/mean", reward)
    told = "\n".join(tell_story(directory))
    assert "best 1.000 after step 2)" in told
    assert "export:   astuner export run --checkpoint best --out MODEL_DIR   (a Hugging Face model of step 2, which" in told


def test_a_last_checkpoint_that_is_as_good_as_the_best_is_the_one_to_export(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    directory = write(tmp_path, saved=(2, 3))
    for step in (2, 3):
        record_validation(directory, step, "val/reward/mean", 1.0)
    assert "--checkpoint best" not in "\n".join(tell_story(directory))


def test_a_run_tells_what_holds_it_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    describe = lambda path, name: f"the reward is flat: `astuner why {name}`"  # noqa: E731 - as a package offers it
    monkeypatch.setattr("astuner.runs.driver.run_story.find_function", lambda name: describe)
    assert "why:      the reward is flat: `astuner why run`" in tell_story(write(tmp_path, train(1, 0.1), train(2, 0.1)))


def test_a_run_without_numbers_tells_only_how_to_look_at_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tell_story(write(tmp_path, saved=())) == ["look:     astuner episodes run"]


def test_what_a_run_has_just_shown_is_not_offered_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tell_story(write(tmp_path, saved=()), run_viewers=["astuner pages"], shown=True) == ["look:     astuner pages run"]


def test_a_directory_is_quoted_for_the_shell(tmp_path, monkeypatch):
    home = tmp_path / "a 'b' $HOME"
    home.mkdir()
    directory = write(home)
    for where, words in (
        (tmp_path, ["astuner", "compare", "a 'b' $HOME/run", "OTHER_RUN"]),
        (home, [*["astuner", "compare", "run", "OTHER_RUN"]]),
    ):
        monkeypatch.chdir(where)
        (compare,) = (line for line in tell_story(directory) if line.startswith("compare:"))
        assert shlex.split(compare)[1:] == words


def test_what_the_loggers_wrote_is_opened_with_the_command_that_they_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tell_story(write(tmp_path, saved=()), ["charts --of run"]) == [
        "look:     astuner episodes run",
        "curves:   charts --of run",
    ]


def test_a_command_of_a_plugin_that_shows_runs_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tell_story(write(tmp_path, saved=()), run_viewers=["astuner pages"]) == [
        "look:     astuner pages run",
        "look:     astuner episodes run",
    ]


def test_durations_have_two_parts():
    assert [format_seconds(seconds) for seconds in (0.4, 59, 125, 7620)] == ["0 s", "59 s", "2 min 5 s", "2 h 7 min"]


def test_the_command_that_continues_a_run_is_whole_and_has_no_secret():
    request = RunRequest(
        conf=Path("my tune.yaml"),
        backbone="local",
        overrides=["a.b=1", "x.api_key=sk-1234567890"],
        services=["environments"],
        stop_at=["before,after"],
    )
    found = format_resume_command(request)
    assert found.startswith("astuner run --conf 'my tune.yaml' --backbone local --set a.b=1 --set ")
    assert found.endswith("--with environments --db before,after --resume")
    assert "sk-1234567890" not in found
