"""What Trinity logs before it ends, or waits, as if all were well is read off its logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import RunFailed
from astuner_trinity.layout import Layout
from astuner_trinity.program import DIED, Program

EXPLORER = """INFO 11-22 10:54:55 [explorer.py:298] Explore step 2 started.
ERROR 11-22 10:54:55 [explorer.py:301] Error in Explorer: Traceback (most recent call last):
ERROR 11-22 10:54:55 [explorer.py:301]   File "explorer.py", line 290, in explore
ERROR 11-22 10:54:55 [explorer.py:301] TimeoutError: Timeout waiting for batch 2.
"""
COORDINATOR = """WARNING 11-22 10:54:55 [scheduler.py:183] Task execution attempt 1 failed:
WARNING 11-22 10:54:55 [scheduler.py:183] Traceback (most recent call last):
WARNING 11-22 10:54:55 [scheduler.py:183] ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
"""


IDLE = """ERROR 11-22 10:54:55 [scheduler.py:383] Task 0 failed: The actor died unexpectedly before finishing this task.
ERROR 11-22 10:54:55 [scheduler.py:383] \tclass_name: WorkflowRunner
WARNING 11-22 10:54:55 [scheduler.py:271] Runner 1 failed to run task at batch_id 2: {'task': 'x'}
"""


class Running:
    """A program of which only the state counts."""

    status: int | None = None

    def poll(self) -> int | None:
        return self.status

    def tail(self, lines: int) -> str:
        return "the last line"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    running: Any = Running()
    return Program(layout=Layout(tmp_path), launched=running, home=Layout(tmp_path).home, limit_s=0.01)


def log(program: Program, role: str, text: str, stage: str = "") -> None:
    path = program.layout.home / "project" / "name" / stage / "log" / f"{role}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(text)


def test_an_error_of_the_explorer_is_told_once(program: Program) -> None:
    log(program, "explorer", "INFO 11-22 10:54:55 [explorer.py:298] Explore step 1 started.\n")
    assert program.find_fault() is None
    log(program, "explorer", EXPLORER)
    assert program.find_fault() == "explorer: TimeoutError: Timeout waiting for batch 2."
    assert program.find_fault() is None


def test_a_traceback_that_is_still_on_its_way_is_waited_for(program: Program) -> None:
    log(program, "explorer", EXPLORER[: EXPLORER.index("TimeoutError")])
    assert program.find_fault() is None
    program.launched.status = 1  # type: ignore[attr-defined]
    assert program.find_fault() == "explorer: Error in Explorer"


def test_a_process_that_died_is_told_from_other_faults(program: Program) -> None:
    log(program, "explorer_rollout_coordinator", COORDINATOR, stage="learn")
    fault = program.find_fault()
    assert fault is not None
    assert DIED.search(fault)
    assert not DIED.search("explorer: TimeoutError: Timeout waiting for batch 2.")


def test_a_process_that_died_while_it_had_nothing_to_do_is_told(program: Program) -> None:
    """Trinity finds it out with the next task, of which it then forgets to try it again; no exception is named."""
    log(program, "explorer_rollout_coordinator", IDLE)
    fault = program.find_fault()
    assert fault == "explorer_rollout_coordinator: Task 0 failed: The actor died unexpectedly before finishing this task."
    assert DIED.search(fault)
    assert program.find_fault() is None


WAITS = [
    "INFO 11-22 10:54:55 [sql.py:254] Waiting for 12 more experiences...",
    "(RolloutCoordinator pid=9) INFO 11-22 10:54:55 [scheduler.py:866] runner_id | begin_time | model_version",
    "(RolloutCoordinator pid=9) INFO 11-22 10:54:55 [scheduler.py:867] ----------+------------+--------------",
    "(autoscaler +1m2s) Warning: The following resource request cannot be scheduled right now: {'GPU': 1.0}.",
]


@pytest.mark.parametrize("line", WAITS)
def test_those_who_wait_and_say_so_are_silent(program: Program, line: str) -> None:
    program.layout.log.parent.mkdir(parents=True)
    program.layout.log.write_text("a line\n")
    assert program.poll() is None
    program._since -= 1
    with program.layout.log.open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(RunFailed, match="said nothing"):
        program.poll()


@pytest.mark.parametrize("said", ["INFO 11-22 10:54:55 [explorer.py:298] Explore step 2 started.\n", "loading:  10%\r"])
def test_whoever_tells_of_anything_else_is_not(program: Program, said: str) -> None:
    program.layout.log.parent.mkdir(parents=True)
    program.layout.log.write_text("a line\n")
    assert program.poll() is None
    program._since -= 1
    with program.layout.log.open("a") as file:
        file.write(said)
    assert program.poll() is None


def test_silence_is_an_error(program: Program) -> None:
    program.layout.log.parent.mkdir(parents=True)
    program.layout.log.write_text("a line\n")
    assert program.poll() is None
    program._since -= 1
    with pytest.raises(RunFailed, match=r"Trinity said nothing for 0\.01 s.*\n.*the last line"):
        program.poll()
