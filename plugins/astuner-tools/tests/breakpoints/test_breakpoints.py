"""`astuner.breakpoint("TAG")` and `--db TAG`, as one meets them at a terminal."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import environment
from pseudo_terminal import PseudoTerminal

from astuner.runs.store.episode_store import read_episodes
from astuner_devkit.project import write_project

PROMPT = "(astuner) "

AGENT = """
import asyncio
import astuner

class Agent(astuner.Workflow):
    async def execute(self, workflow_task, tuner):
        client = tuner.as_raw_openai_sdk_client()
        question = [{"role": "user", "content": workflow_task.task.main_query}]
        # Imports what it needs for that, which is not to count.
        ask = client.chat.completions.create
        try:
            async with asyncio.timeout(4):
                astuner.breakpoint("before")
                answer = await ask(model="m", messages=question)
        except Exception as error:
            return astuner.WorkflowOutput(metadata={"final_answer": f"the agent caught {error!r}"})
        astuner.breakpoint("after")
        return astuner.WorkflowOutput(metadata={"final_answer": answer.choices[0].message.content})
"""

SYNC_AGENT = """
import astuner
import openai

class Agent(astuner.Workflow):
    def execute(self, workflow_task, tuner):
        api = tuner.as_oai_baseurl_apikey()
        astuner.breakpoint("before")
        with openai.OpenAI(base_url=api.base_url, api_key=api.api_key) as client:
            question = [{"role": "user", "content": workflow_task.task.main_query}]
            answer = client.chat.completions.create(model=api.model, messages=question)
        return astuner.WorkflowOutput(metadata={"final_answer": answer.choices[0].message.content})
"""

JUDGE = """
import astuner

class Mine:
    def compute_reward(self, workflow_task, workflow_output):
        astuner.breakpoint("judge")
        return float(workflow_output.metadata["final_answer"] == "4")
"""

READER = """
import astuner

class Mine:
    def read(self, split):
        if split == "train":
            astuner.breakpoint("reader")
            yield astuner.Task(main_query="What is 2 + 2?", task_id="sum")
"""

Start = Callable[..., PseudoTerminal]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name, text in (("agent", AGENT), ("judge", JUDGE), ("reader", READER)):
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def command(home: Path, *arguments: str, **rollout: Any) -> list[str]:
    settings = {"rollout": {"num_repeat": 2, **rollout}, "task_reader": {"type": "./reader.py:Mine"}}
    write_project(home, "./judge.py:Mine", workflow="./agent.py:Agent", settings=settings)
    return [sys.executable, "-m", "astuner", "run", "--conf", "project.yaml", *arguments]


@pytest.fixture
def start(home: Path) -> Start:
    def start(*arguments: str, **rollout: Any) -> PseudoTerminal:
        return PseudoTerminal(command(home, *arguments, **rollout), cwd=home, env=environment())

    return start


def state(home: Path) -> Any:
    return json.loads((home / "launcher_record/project.debug/state.json").read_text())["status"]


def answers(home: Path) -> list[str]:
    found = read_episodes(home / "launcher_record/project.debug/episodes", "train")
    return [episode.output.metadata["final_answer"] if episode.output else str(episode.failures) for episode in found]


def test_one_looks_around_at_a_tag_for_as_long_as_one_likes(start: Start, home: Path):
    with start("--db", "before|after", "--db", "nowhere", episode_timeout_s=4, llm_timeout_s=4) as terminal:
        first = terminal.until(PROMPT)
        assert "breakpoint before: episode train/1/sum/0; c continues, q ends the run" in first
        assert "-> answer = await" in first
        terminal.type("p 1 + 1\n")
        assert "\n2\n" in terminal.until(PROMPT)
        # Longer than every time limit, and than a workflow may block the loop without being named.
        terminal.type("import time; time.sleep(6)\n")
        terminal.until(PROMPT)
        terminal.type("n\n")
        # The other episode goes on meanwhile, up to the same tag, and the step ends when it is left.
        assert "episode train/1/sum/1" in terminal.until(PROMPT)
        terminal.type("c\n")
        # Whose answer comes first is open: of three more stops, one is where the step of the first episode ends.
        stops = []
        for _ in range(3):
            stops.append(terminal.until(PROMPT))
            if "episode train/1/sum/0" in stops[-1] and "breakpoint" not in stops[-1]:
                terminal.type("p answer.choices[0].message.content\n")
                assert "\n'4'\n" in terminal.until(PROMPT)
            terminal.type("c\n")
        stepped, *after = sorted(stops, key=lambda stop: "breakpoint after" in stop)
        assert "episode train/1/sum/0; c continues, q ends the run\n> " in stepped
        assert {number for stop in after for number in re.findall(r"breakpoint after: episode train/1/sum/(\d);", stop)} == {
            "0",
            "1",
        }
        assert terminal.end() == 0, terminal.shown
    assert "time limit are off" in terminal.shown
    assert "has held up" not in terminal.shown
    assert "--db nowhere: no breakpoint with this tag was reached" in terminal.shown
    assert "--db before" not in terminal.shown
    assert answers(home) == ["4", "4"]


def test_a_synchronous_agent_stops_at_its_breakpoints(start: Start, home: Path):
    (home / "agent.py").write_text(SYNC_AGENT)
    with start("--db", "before", num_repeat=1, episode_timeout_s=4) as terminal:
        assert "breakpoint before: episode train/1/sum/0; c continues, q ends the run" in terminal.until(PROMPT)
        terminal.type("import time; time.sleep(6)\n")
        terminal.until(PROMPT)
        terminal.type("p workflow_task.task.main_query\n")
        assert "\n'What is 2 + 2?'\n" in terminal.until(PROMPT)
        terminal.type("c\n")
        assert terminal.end() == 0, terminal.shown
    assert "is a plain `def`, so each episode runs in a thread of its own" in terminal.shown
    assert answers(home) == ["4"]


def test_the_live_table_waits_below_while_the_debugger_has_the_terminal(start: Start):
    with start("--db", "after") as terminal:
        terminal.until(PROMPT)
        before = terminal.raw
        terminal.type("p 1 + 1\n")
        terminal.until(PROMPT)
        assert "testing/project on debug" in before
        assert terminal.raw[len(before) :].replace("\r", "") == "p 1 + 1\n2\n(astuner) "
        terminal.type("c\n")
        terminal.until(PROMPT)
        terminal.type("c\n")
        assert "2 of 2" in terminal.until("done:")
        assert terminal.end() == 0


def test_q_ends_the_run_as_ctrl_c_would(start: Start, home: Path):
    with start("--db", "before") as terminal:
        terminal.until(PROMPT)
        terminal.type("q\n")
        assert terminal.end() == 130, terminal.shown
    assert "Traceback" not in terminal.shown
    assert state(home) == "interrupted"
    assert answers(home) == []


def test_in_threads_one_stops_after_the_other_and_ctrl_d_ends_the_run(start: Start, home: Path):
    with start("--db", "before,after", isolation="thread") as terminal:
        (first,) = {"0", "1"} & set(terminal.until(PROMPT).split("episode train/1/sum/")[1][:1])
        # Not the other episode, which arrived here too.
        terminal.type("n\n")
        assert "breakpoint" not in terminal.until(PROMPT)
        terminal.type("c\n")
        other = terminal.until(PROMPT)
        assert f"episode train/1/sum/{first}" not in other or "breakpoint after" in other
        terminal.type("\x04")
        assert terminal.end() == 130, terminal.shown
    assert state(home) == "interrupted"
    assert len(answers(home)) < 2


def test_a_reader_and_a_judge_stop_too_wherever_they_run(start: Start, home: Path):
    with start("--db", "all", "--set", "debug.debug_max_parallel=1", num_repeat=1) as terminal:
        # A reader is read twice: the tasks are counted first.
        for title in (
            "breakpoint reader: the reader;",
            "breakpoint reader;",
            "breakpoint before: episode train/1/sum/0;",
            "breakpoint after: episode train/1/sum/0;",
            "breakpoint judge: the judge, on train/1/sum;",
        ):
            assert title in terminal.until(PROMPT)
            terminal.type("c\n")
        assert terminal.end() == 0, terminal.shown


def test_q_in_a_reader_ends_before_anything_was_played(start: Start, home: Path):
    with start("--db", "reader") as terminal:
        terminal.until(PROMPT)
        terminal.type("c\n")
        terminal.until(PROMPT)
        terminal.type("q\n")
        assert terminal.end() == 130, terminal.shown
    assert "Traceback" not in terminal.shown
    assert state(home) == "interrupted"


def test_a_workflow_in_a_process_of_its_own_says_that_nobody_could_type_there(start: Start, home: Path):
    with start("--db", "before", isolation="process") as terminal:
        assert terminal.end() == 0, terminal.shown
    assert terminal.shown.count("Set rollout.isolation to async or thread, or attach debugpy") == 1
    assert "no breakpoint with this tag was reached" not in terminal.shown
    assert answers(home) == ["4", "4"]


def test_without_a_terminal_it_is_said_once_and_the_run_goes_on(home: Path):
    # A pipe that nobody writes to and nobody closes: a debugger would read from it for ever.
    with subprocess.Popen(
        command(home, "--db=all"), cwd=home, env=environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        said = process.stderr.read()
        assert process.wait(timeout=60) == 0, said
    assert said.count("there is no terminal to stop at") == 1
    assert answers(home) == ["4", "4"]
