"""`astuner warm-start` with a backbone that learns nothing: what it is given, what is checked first, and what is left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit.project import write_project

BACKBONE = """
import json
import os
import shutil
from pathlib import Path

from attrs import evolve

from astuner.episodes.builtin.debug.debug_backbone import DebugBackbone
from astuner.contract.errors import UsageError
from astuner.contract.protocols import BackboneTraits, Fit, Tracked, WarmStartResult


class Learns(DebugBackbone):
    traits = BackboneTraits(
        honours=("*",), default_engines=DebugBackbone.traits.default_engines, throwaway=True, trains=False, warm_starts=True
    )

    def warm_start(self, run, job, say):
        say(f"{len(job.train)}+{len(job.held_out)} rows, {job.epochs} epochs of {job.batch_size}, {job.lr:g}, seed {job.seed}")
        shutil.copytree(job.model, job.out, dirs_exist_ok=True)
        fit = Fit(loss=1.0, accuracy=0.5, tokens=3)
        return WarmStartResult(before={"trained": fit}, after={"trained": fit}, steps=1)


class Silent:
    def samples(self, calls, episode):
        return Tracked(samples=(), untrained={"silent": sum(len(call.output_ids) for call in calls)})


class Breaks(Learns):
    def warm_start(self, run, job, say):
        (Path(job.out) / "model.safetensors").write_text("half")
        raise KeyboardInterrupt


class Killed(Learns):
    def warm_start(self, run, job, say):
        (Path(job.out) / "model.safetensors").write_text("half")
        os.kill(os.getpid(), 9)


class Picky(Learns):
    traits = evolve(Learns.traits, checks_warm_starts=True)

    def check_warm_start(self, run, job):
        raise UsageError(f"no {len(job.train)} rows of {Path(job.model).name}")


class Adapts(Learns):
    def warm_start(self, run, job, say):
        (Path(job.out) / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": job.model, "r": 4}))
        (Path(job.out) / "adapter_model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
        fit = Fit(loss=1.0, accuracy=0.5, tokens=3)
        return WarmStartResult(before={"trained": fit}, after={"trained": fit}, steps=1, merge_first=True)

    def evaluate(self, run, tasks, recipe, checkpoint, control):
        model = Path(run.config.model.path)
        with open("played.txt", "a") as file:
            print(model.name, (model / "adapter_config.json").exists(), checkpoint and checkpoint.name, file=file)
        return super().evaluate(run, tasks, recipe, None, control)


class Tiny(Learns):
    traits = evolve(Learns.traits, makes_tiny_models=True)

    def make_tiny_tokenizer(self, job):
        from astuner_devkit.tokenizer import tiny_tokenizer

        tokenizer = tiny_tokenizer()
        tokenizer.save_pretrained(job.out)
        (job.out / "texts.txt").write_text("\\n".join(job.texts))
        return tokenizer

    def make_tiny_model(self, job):
        (job.out / "config.json").write_text('{"max_position_embeddings": %d}' % job.context)
"""
ROW = {"messages": [{"role": "user", "content": "What is 3 + 3?"}, {"role": "assistant", "content": "6"}]}


@pytest.fixture
def project(tmp_path: Path, own_state: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "part.py").write_text(BACKBONE)
    settings = {
        "rollout": {"name": "scripted", "scripted": {"replies": ["4"]}, "max_model_len": 300},
        "data": {"max_prompt_length": 100, "max_response_length": 100},
        "task_reader": {"dataset_file": {"validation": {"file_path": "project.jsonl"}}},
        "trainer_common": {"val_pass_n": 1},
    }
    write_project(tmp_path, backbone="./part.py:Learns", settings=settings)
    write_demos(tmp_path, *[ROW] * 10)
    return tmp_path


def write_demos(directory: Path, *rows: Any) -> None:
    (directory / "demos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def start(cli: Any, project: Path) -> Callable[..., Any]:
    def run(*more: str) -> Any:
        return cli("warm-start", "--conf", "project.yaml", "--demos", "demos.jsonl", "--out", "out", *more)

    return run


def list_files(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} - {"launcher_record", "__pycache__", "state"}


KNOWN = {"part.py", "project.jsonl", "project.yaml", "model", "demos.jsonl"}


def test_the_backbone_trains_and_the_command_says_what_changed_and_how_to_go_on(start: Any, project: Path) -> None:
    ended = start()
    assert ended.code == 0, ended.err
    assert "9+1 rows, 3 epochs of 16, 1e-05, seed 42" in ended.err
    assert "reward, validation tasks             1.000     1.000" in ended.out
    assert ended.out.endswith(
        "out is ready. Next:\n"
        "  astuner run --conf project.yaml --set model.path=./out\n"
        "  astuner eval --conf project.yaml --set model.path=./out\n"
    )
    assert list_files(project) == KNOWN | {"out"}
    assert (project / "out" / "tokenizer.json").is_file()


def test_the_options_reach_the_backbone(start: Any) -> None:
    ended = start("--holdout", "0", "--epochs", "7", "--lr", "0.01", "--batch-size", "4", "--set", "seed=5")
    assert "10+0 rows, 7 epochs of 4, 0.01, seed 5" in ended.err
    assert "astuner run --conf project.yaml --set seed=5 --set model.path=./out" in ended.out


def test_the_next_commands_do_not_repeat_what_the_yaml_says(start: Any, project: Path) -> None:
    conf = project / "project.yaml"
    conf.write_text(conf.read_text().replace("path: ./model", "path: ./out"))
    ended = start("--set", "model.path=./model", "--set", "seed=5")
    assert ended.code == 0, ended.err
    assert ended.out.endswith(
        "out is ready. Next:\n  astuner run --conf project.yaml --set seed=5\n  astuner eval --conf project.yaml --set seed=5\n"
    )


def test_the_best_episodes_of_a_run_are_demonstrations(cli: Any, project: Path) -> None:
    shown = ("--conf", "project.yaml", "--backbone", "debug")
    play = cli("run", *shown, "--set", "rollout.num_repeat=2")
    assert play.code == 0, play.err
    options = ("--conf", "project.yaml", "--out", "out", "--holdout", "0")
    ended = cli("warm-start", *options, "--from-run", "project.debug", "--min-reward", "1")
    assert ended.code == 0, ended.err
    assert "project.debug: 1 demonstrations of 1 tasks from" in ended.err
    assert "1+0 rows" in ended.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "name the demonstrations: --demos FILE, or --from-run RUN --min-reward R"),
        (
            ["--demos", "demos.jsonl", "--from-run", "a"],
            "name the demonstrations: --demos FILE, or --from-run RUN --min-reward R",
        ),
        (["--from-run", "a"], "--from-run and --min-reward belong together"),
        (["--demos", "demos.jsonl", "--min-reward", "1"], "--from-run and --min-reward belong together"),
        (["--from-run", "nowhere", "--min-reward", "1"], "nowhere: there is no such run"),
    ],
)
def test_demonstrations_come_from_one_place(cli: Any, project: Path, options: list[str], said: str) -> None:
    ended = cli("warm-start", "--conf", "project.yaml", "--out", "out", *options)
    assert ended.code == 2
    assert said in ended.err
    assert list_files(project) == KNOWN


def test_everything_wrong_with_the_demonstrations_is_said_at_once_and_nothing_is_left(start: Any, project: Path) -> None:
    bot = {"messages": [{"role": "bot", "content": "x"}]}
    long = {"messages": [{"role": "user", "content": "long " * 300}, {"role": "assistant", "content": "6"}]}
    write_demos(project, long, ROW, bot)
    ended = start()
    assert ended.code == 2
    assert "error: 2 problems\n  demos.jsonl:1: up to messages[1] it has " in ended.err
    assert "tokens, and the context has 300. Shorten it" in ended.err
    assert "\n  demos.jsonl:3: messages[0].role is 'bot'; known roles:" in ended.err
    assert list_files(project) == KNOWN


def test_an_interrupt_leaves_no_half_model(start: Any, project: Path) -> None:
    ended = start("--backbone", "./part.py:Breaks")
    assert ended.code == 130
    assert list_files(project) == KNOWN


def test_a_kill_leaves_no_half_model_and_the_next_call_works(astuner: Any, start: Any, project: Path) -> None:
    command = ("warm-start", "--conf", "project.yaml", "--demos", "demos.jsonl", "--out", "out", "--backbone", "./part.py:Killed")
    assert astuner(*command).returncode == -9
    assert not (project / "out").exists()
    assert start().code == 0
    assert list_files(project) == KNOWN | {"out"}


def test_a_directory_that_holds_something_is_left_alone(start: Any, project: Path) -> None:
    (project / "out").mkdir()
    (project / "out" / "notes.txt").write_text("mine")
    ended = start()
    assert (ended.code, ended.err) == (2, "error: --out out: exists and is not an empty directory; name another one\n")
    assert list_files(project / "out") == {"notes.txt"}


def test_a_backbone_that_cannot_learn_from_demonstrations_is_named(start: Any, project: Path) -> None:
    ended = start("--backbone", "debug")
    assert ended.code == 2
    assert "the backbone 'debug' does not train on demonstrations; name one that does with --backbone" in ended.err


def test_what_the_backbone_cannot_do_is_said_before_anything_is_played(start: Any, project: Path) -> None:
    ended = start("--backbone", "./part.py:Picky")
    assert (ended.code, ended.err) == (2, "error: no 9 rows of model\n")
    assert list_files(project) == KNOWN
    assert not (project / "launcher_record").exists()


def test_adapters_are_played_as_a_checkpoint_and_merged_first_where_a_run_needs_that(start: Any, project: Path) -> None:
    ended = start("--backbone", "./part.py:Adapts")
    assert ended.code == 0, ended.err
    assert (project / "played.txt").read_text() == "model False None\nmodel False model\n"
    assert (project / "out" / "adapter_config.json").is_file()
    assert ended.out.endswith(
        "out is ready. Next:\n"
        "  astuner export out --merge-lora --out out-merged\n"
        "  astuner run --conf project.yaml --backbone ./part.py:Adapts --set model.path=./out-merged\n"
        "  astuner eval --conf project.yaml --backbone ./part.py:Adapts --set model.path=./out-merged\n"
    )


def test_demonstrations_that_the_tracker_leaves_out_are_refused(start: Any, project: Path) -> None:
    ended = start("--set", "context_tracker.context_tracker_type=./part.py:Silent")
    assert ended.code == 2, ended.err
    assert "tokens of the assistant are not trained (silent)" in ended.err
    assert "error: demos.jsonl: nothing in it would be trained" in ended.err
    assert list_files(project) == KNOWN


def test_where_no_backbone_makes_tiny_models_the_command_says_what_to_install(start: Any) -> None:
    disabled = ("--set", "plugins.disabled=[astuner-local]") if find_spec("astuner_local") else ()
    ended = start("--tiny", *disabled)
    assert ended.code == 2
    assert (
        "--tiny: neither the backbone './part.py:Learns' nor another installed one makes tiny models: pip install " in ended.err
    )
    assert "astuner-local" in ended.err


def test_a_tiny_model_for_a_backbone_that_makes_none_is_made_by_another_one(
    start: Any, project: Path, fake_distribution: Callable[..., Path]
) -> None:
    targets = {"acme_broken": "acme_small:Nothing", "acme_small": "acme_small:Tiny"}
    fake_distribution("acme", files={"acme_small.py": BACKBONE}, entry_points={"astuner.backbones": targets})
    ended = start("--tiny")
    assert ended.code == 0, ended.err
    assert "300 epochs of 16, 0.004" in ended.err
    assert (project / "out" / "texts.txt").is_file()


def test_a_tiny_model_is_made_of_the_texts_of_demonstrations_and_tasks(start: Any, project: Path) -> None:
    ended = start("--tiny", "--backbone", "./part.py:Tiny")
    assert ended.code == 0, ended.err
    assert "300 epochs of 16, 0.004" in ended.err
    texts = (project / "out" / "texts.txt").read_text().splitlines()
    assert {"What is 3 + 3?", "6", "What is 2 + 2?"} <= set(texts)
    assert json.loads((project / "out" / "config.json").read_text()) == {"max_position_embeddings": 300}
    assert "reward, validation tasks                 -     1.000" in ended.out
    assert "playing the validation tasks, before" not in ended.err


def test_random_weights_play_validation_tasks_only_when_asked(start: Any) -> None:
    ended = start("--tiny", "--backbone", "./part.py:Tiny", "--validate-before")
    assert ended.code == 0, ended.err
    assert "reward, validation tasks             1.000     1.000" in ended.out


def test_a_task_without_validation_tasks_is_trained_without_rewards(start: Any) -> None:
    ended = start("--set", "task_reader.dataset_file.validation=null")
    assert ended.code == 0, ended.err
    assert "reward, validation tasks                 -         -" in ended.out
