"""Rubrics are learnt once, by one process, and are the same every time; what is in the file counts."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import evolve

from astuner.contract.errors import DataError, PluginError
from astuner.settings.config.components import TaskJudge
from astuner.settings.config.model import Config
from astuner.settings.config.rewards import JudgeChoice
from astuner_judges.rubrics.judge import RubricsAutoGrader
from astuner_judges.rubrics.options import RubricsOptions
from astuner_judges.rubrics.shared_learning import SavedRubrics, load_or_learn

SMALL = {"evidence_samples": 3, "min_agreement": 0.6}


def quiet(text: str) -> None:
    pass


def keep(options: RubricsOptions, info: Any, **more: Any) -> SavedRubrics:
    return load_or_learn(options, info, say=quiet, **more)


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
    answers, killed = workplace.api.script, threading.Event()

    def until_killed(body: Any, number: int) -> Any:
        if number >= 14:
            killed.wait(60)
        return answers(body, number)

    workplace.api.script = until_killed
    process = learner(conf)
    while len(workplace.api.bodies) < 15 and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    killed.set()
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


def interrupted(workplace: Any, conf: Path, until: Callable[[str], bool]) -> tuple[int, str]:
    """Let a process make the judge within its running loop, press Ctrl-C once it is that far, and return how it ended."""
    code = (
        "import asyncio, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell has those in the background ignore it
        "from astuner_judges.evaluation.configured_judges import load_judges\n"
        "from astuner_judges.rubrics.judge import RubricsAutoGrader\n"
        "chosen = load_judges(__import__('pathlib').Path(sys.argv[1]), ())\n"
        "async def made():\n"
        "    return RubricsAutoGrader.from_run(chosen.judges[0].options, chosen.run_info)\n"
        "asyncio.run(made())\n"
    )
    said = workplace.home / "said.txt"
    with said.open("w", encoding="utf-8") as stderr:
        process = subprocess.Popen([sys.executable, "-c", code, str(conf)], cwd=conf.parent, env=dict(os.environ), stderr=stderr)
        while process.poll() is None and not until(said.read_text(encoding="utf-8")):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        try:
            return process.wait(timeout=30), said.read_text(encoding="utf-8")
        finally:
            process.kill()


def test_learning_in_a_loop_that_runs_is_interrupted_by_the_first_ctrl_c(workplace: Any, world: Any) -> None:
    conf = conf_of(workplace, world, llm={"concurrency": 1})
    workplace.api.pause_s = 0.2
    code, said = interrupted(workplace, conf, lambda said: len(workplace.api.bodies) > 3)
    assert code != 0
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert "closed" not in said
    assert "astuner-blocking" not in said
    assert not (workplace.home / "rubrics.yaml").exists()


def test_waiting_for_another_process_is_interrupted_too(workplace: Any, world: Any) -> None:
    conf = conf_of(workplace, world)
    with (workplace.home / ".rubrics.yaml.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, said = interrupted(workplace, conf, lambda said: "waits for another process that learns" in said)
    assert code != 0
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert workplace.api.bodies == []


def test_what_learning_took_is_kept_also_where_it_fails(workplace: Any, options: RubricsOptions) -> None:
    judge = RubricsAutoGrader.from_run(options, workplace.run_info())
    asyncio.run(judge.close())
    workplace.api.script = lambda body, number: "I will not."
    with pytest.raises(PluginError, match="no rubric was learnt"):
        RubricsAutoGrader.from_run(evolve(options, language="zh"), workplace.run_info(attempt=2))
    lines = (workplace.home / "run" / "logs" / "llm_judge.jsonl").read_text(encoding="utf-8").splitlines()
    first, second = (json.loads(line) for line in lines)
    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert first["requests"] + second["requests"] == len(workplace.api.bodies)


def of_several(*options: Mapping[str, Any], spec: str = "rubrics_auto_grader", **sections: Any) -> Config:
    choices = tuple(JudgeChoice(judge=spec, name=f"judge_{n}", options=given) for n, given in enumerate(options))
    return Config(task_judge=TaskJudge(judges=choices, sections=sections))


@pytest.mark.parametrize(
    "spec",
    ["rubrics_auto_grader", "astuner-judges/rubrics_auto_grader", "astuner_judges.rubrics.judge->RubricsAutoGrader"],
)
def test_graders_that_would_replace_each_other_s_rubrics_are_refused(workplace: Any, options: RubricsOptions, spec: str) -> None:
    config = of_several({"generate_number": 1}, {"generate_number": 2, "grader_name": "auto_grader"}, spec=spec)
    with pytest.raises(DataError, match="2 of them are rubrics_auto_grader with grader_name: auto_grader and different options"):
        keep(options, workplace.run_info(config=config))
    assert workplace.api.bodies == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"generate_number": 1}, {"generate_number": 2, "grader_name": "other"}),
        ({"generate_number": 1}, {"generate_number": 2, "rubrics_file": "other.yaml"}),
        ({"generate_number": 1}, {"generate_number": 1}),
        ({}, {}),
    ],
)
def test_graders_that_keep_their_rubrics_apart_or_have_the_same_are_not(
    workplace: Any, options: RubricsOptions, one: Mapping[str, Any], other: Mapping[str, Any]
) -> None:
    assert keep(options, workplace.run_info(config=of_several(one, other))).learnt_now


def test_a_judge_that_is_tried_is_graded_by_the_rubrics_of_the_run(workplace: Any, options: RubricsOptions) -> None:
    learnt = keep(options, workplace.run_info())
    tried = keep(options, workplace.run_info(attempt=0))
    assert (tried.held, tried.learnt_now) == (learnt.held, False)


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
    kept = load_or_learn(options, workplace.run_info(), say=said.append)
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
