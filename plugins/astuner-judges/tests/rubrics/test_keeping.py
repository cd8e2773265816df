"""Rubrics are learnt once, by one process, and are the same every time; what is in the file counts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import evolve

from astuner.errors import DataError, PluginError
from astuner_judges.rubrics.judge import RubricsAutoGrader
from astuner_judges.rubrics.keeping import Kept, kept_or_learnt
from astuner_judges.rubrics.options import RubricsOptions

SMALL = {"evidence_samples": 3, "min_agreement": 0.6}


def quiet(text: str) -> None:
    pass


def keep(options: RubricsOptions, info: Any, **more: Any) -> Kept:
    return kept_or_learnt(options, info, say=quiet, **more)


@pytest.fixture
def options(workplace: Any, world: Any) -> RubricsOptions:
    return workplace.options(world.rows(6, 1), **SMALL)


def test_the_same_seed_gives_the_same_bytes(workplace: Any, options: RubricsOptions, tmp_path: Path) -> None:
    directories = [tmp_path / name for name in ("one", "two")]
    files = [keep(options, workplace.run_info(directory=directory)).path for directory in directories]
    assert files[0] != files[1]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(workplace.api.bodies) % 2 == 0  # the second asked all of it again


def test_a_second_process_reads_what_the_first_has_learnt(workplace: Any, options: RubricsOptions) -> None:
    first = keep(options, workplace.run_info())
    asked = len(workplace.api.bodies)
    second = keep(options, workplace.run_info())
    assert (first.learnt_now, second.learnt_now) == (True, False)
    assert second.held == first.held
    assert len(workplace.api.bodies) == asked


def conf_of(workplace: Any, world: Any, **more: Any) -> Path:
    workplace.write("labelled.jsonl", world.rows(6, 1))
    section = {**SMALL, "dataset_file": {"training": {"file_path": "labelled.jsonl"}}, "rubrics_file": "rubrics.yaml", **more}
    rest = {"experiment_name": "learning", "model": {"path": "some/model"}, "rollout": {"user_workflow": "./agent.py:Agent"}}
    conf = workplace.home / "judge.yaml"
    judge = {"judge_type": "rubrics_auto_grader", "rubrics_auto_grader": section}
    conf.write_text(yaml.safe_dump({"astuner": {**rest, "task_judge": judge}}), encoding="utf-8")
    return conf


def learner(conf: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "astuner", "judge", "learn", "--conf", str(conf), "--json"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=conf.parent, env=dict(os.environ), text=True, **streams)  # type: ignore[call-overload]


def test_of_processes_at_once_one_learns_and_the_others_wait(workplace: Any, world: Any) -> None:
    conf = conf_of(workplace, world)
    workplace.api.pause_s = 0.01
    answers = [json.loads(process.communicate()[0]) for process in [learner(conf) for _ in range(3)]]
    assert sorted(answer["judges"][0]["learnt_now"] for answer in answers) == [False, False, True]
    texts = [json.dumps(body) for body in workplace.api.bodies]
    assert len(set(texts)) == len(texts)


def test_one_that_is_killed_leaves_no_lock_and_nothing_that_was_answered_is_asked_again(workplace: Any, world: Any) -> None:
    conf = conf_of(workplace, world, llm={"concurrency": 1})
    workplace.api.pause_s = 0.02
    process = learner(conf)
    while len(workplace.api.bodies) < 15 and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (workplace.home / "rubrics.yaml").exists()
    before = len(workplace.api.bodies)
    answer, said = learner(conf).communicate()
    assert json.loads(answer)["judges"][0]["learnt_now"], said
    texts = [json.dumps(body) for body in workplace.api.bodies]
    assert len(texts) > before
    assert len(texts) - len(set(texts)) <= 1  # the one that was under way when the process was killed


def test_a_loop_that_runs_already_does_not_hinder(workplace: Any, options: RubricsOptions) -> None:
    async def made_in_a_loop() -> Any:
        return RubricsAutoGrader.from_run(options, workplace.run_info())

    assert asyncio.run(made_in_a_loop()).learnt_from


def test_an_error_in_such_a_loop_is_the_same_error(workplace: Any, options: RubricsOptions) -> None:
    async def made_in_a_loop() -> Any:
        return RubricsAutoGrader.from_run(evolve(options, min_agreement=1.0, max_total_rubrics=1), workplace.run_info())

    workplace.api.script = lambda body, number: "I will not."
    with pytest.raises(PluginError, match="no rubric was learnt"):
        asyncio.run(made_in_a_loop())


def test_other_examples_or_options_are_learnt_from_anew(workplace: Any, options: RubricsOptions, world: Any) -> None:
    first = keep(options, workplace.run_info())
    more = evolve(options, min_agreement=0.55)
    assert keep(more, workplace.run_info()).learnt_now
    workplace.write("labelled.jsonl", world.rows(8, 1))
    again = keep(more, workplace.run_info())
    assert again.learnt_now
    assert first.path == again.path


def test_concurrency_and_names_of_columns_are_no_other_learning(workplace: Any, options: RubricsOptions) -> None:
    keep(options, workplace.run_info())
    assert not keep(evolve(options, max_retries=9, llm=evolve(options.llm, concurrency=2)), workplace.run_info()).learnt_now


def edit(path: Path, text: str) -> None:
    held = yaml.safe_load(path.read_text(encoding="utf-8"))
    held["themes"] = [{"name": "mine", "theme": text}]
    path.write_text(yaml.safe_dump(held, allow_unicode=True), encoding="utf-8")


def test_what_is_edited_by_hand_is_graded_by(workplace: Any, options: RubricsOptions) -> None:
    edit(keep(options, workplace.run_info()).path, "Be kind.")
    said: list[str] = []
    kept = kept_or_learnt(options, workplace.run_info(), say=said.append)
    assert [theme.theme for theme in kept.held.rubrics] == ["Be kind."]
    assert "edited by hand since they were learnt" in said[0]


def test_an_edit_is_not_overwritten_by_learning_anew(workplace: Any, options: RubricsOptions) -> None:
    path = keep(options, workplace.run_info()).path
    edit(path, "Be kind.")
    with pytest.raises(DataError, match="were edited by hand"):
        keep(evolve(options, generate_number=2), workplace.run_info())
    assert "Be kind." in path.read_text(encoding="utf-8")


def write(home: Path, text: str) -> RubricsOptions:
    (home / "own.yaml").write_text(text, encoding="utf-8")
    return RubricsOptions(rubrics_file="own.yaml")


def test_rubrics_may_be_written_by_hand_altogether(workplace: Any) -> None:
    options = write(
        workplace.home, "themes:\n- Be kind.\n- theme: Be right.\n  tips: [Give the unit., '']\n  name: Right & good\n"
    )
    held = keep(options, workplace.run_info()).held
    assert [(theme.name, theme.theme, theme.tips) for theme in held.rubrics] == [
        ("rubric_1", "Be kind.", ()),
        ("right_good", "Be right.", ("Give the unit.",)),
    ]
    assert workplace.api.bodies == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("themes: [", "cannot be read as YAML"),
        ("- a list", "expected a mapping with `themes`"),
        ("themes: []", "it holds no rubrics"),
        ("themes: ['  ']", "it holds no rubrics"),
        ("rubrics: [Be kind.]", "themes: this key is required"),
        ("themes: [{theme: Be kind., tip: x}]", r"themes\[0\]"),
        ("themes: [Be kind.]\nversion: 2", "version"),
        ("themes: [Be kind.]\ngrader_mode: listwise", "its rubrics are for grader_mode: listwise, and the YAML says pointwise"),
    ],
)
def test_a_file_that_holds_something_else_says_what(workplace: Any, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        keep(write(workplace.home, text), workplace.run_info())


def test_without_rubrics_and_examples_there_is_nothing_to_grade_by(workplace: Any) -> None:
    with pytest.raises(DataError, match="no rubrics yet, and no labelled samples to learn them from"):
        keep(RubricsOptions(), workplace.run_info())


def test_where_rubrics_cannot_be_written_is_said_before_anything_is_asked(workplace: Any, options: RubricsOptions) -> None:
    (workplace.home / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="rubrics cannot be kept there"):
        keep(evolve(options, rubrics_file="file/rubrics.yaml"), workplace.run_info())
    assert workplace.api.bodies == []
