"""A child process that is asked in lines of JSON."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from astuner_devkit.waiting import until
from astuner_judges.json_child import JsonChild, JsonProgram

PROGRAM = """
import json, os, sys, time
print(sys.argv[1], flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if asked == {"do": "hang"}:
        time.sleep(1000)
    if asked == {"do": "write"}:
        print("{}", flush=True)
    if asked == {"do": "end"}:
        break
    seen = [name for name in ("KEY", "OWN", "PATH") if name in os.environ]
    print(json.dumps({"asked": asked, "pid": os.getpid(), "seen": seen}), flush=True)
"""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[JsonChild]:
    made = JsonChild(program(tmp_path, "{}"))
    yield made
    made.close()


def program(folder: Path, first_line: str) -> JsonProgram:
    path = folder / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return JsonProgram(path=path, name="echo", arguments=(first_line,), environment={"OWN": "1"})


def test_one_process_answers_all_questions(child: JsonChild) -> None:
    first, second = (child.ask({"n": "é\n"}, 60) for _ in range(2))
    assert first["asked"] == {"n": "é\n"}
    assert first == second


def test_an_answer_that_is_late_is_no_answer_and_not_that_of_the_next_question(child: JsonChild) -> None:
    before = child.ask({"n": 1}, 60)
    with pytest.raises(TimeoutError, match=r"echo gave no answer in 0\.2 s"):
        child.ask({"do": "hang"}, 0.2)
    after = child.ask({"n": 2}, 60)
    assert after["asked"] == {"n": 2}
    assert after["pid"] != before["pid"]


def test_a_line_too_many_is_not_the_answer_to_the_next_question(child: JsonChild) -> None:
    assert child.ask({"do": "write"}, 60) == {}
    until(child._process.has_more)
    assert child.ask({"n": 1}, 60)["asked"] == {"n": 1}


def test_a_process_is_replaced_on_request(child: JsonChild) -> None:
    first = child.ask({"n": 1}, 60)["pid"]
    child.restart()
    assert child.ask({"n": 1}, 60)["pid"] != first


def test_a_process_that_ends_is_said_and_replaced(child: JsonChild) -> None:
    with pytest.raises(RuntimeError, match="the process that runs echo has ended"):
        child.ask({"do": "end"}, 60)
    assert child.ask({"n": 1}, 60)["asked"] == {"n": 1}


def test_a_process_that_ended_between_two_questions_is_said_and_replaced(child: JsonChild) -> None:
    before = child.ask({"n": 1}, 60)
    os.kill(before["pid"], signal.SIGKILL)
    with pytest.raises(RuntimeError, match="the process that runs echo has ended"):
        child.ask({"n": "long enough to be more than a buffer holds" * 10_000}, 60)
    assert child.ask({"n": 2}, 60)["pid"] != before["pid"]


def test_a_process_does_not_hear_the_ctrl_c_of_the_terminal(child: JsonChild) -> None:
    assert os.getpgid(child.ask({}, 60)["pid"]) != os.getpgid(0)


def test_closing_waits_for_no_question_and_lets_none_begin(child: JsonChild) -> None:
    child.ask({}, 60)
    found: list[BaseException] = []

    def ask() -> None:
        try:
            child.ask({"do": "hang"}, 60)
        except RuntimeError as error:
            found.append(error)

    waiting = [threading.Thread(target=ask) for _ in range(3)]
    for thread in waiting:
        thread.start()
    child.close()
    for thread in waiting:
        thread.join(30)
    assert not any(thread.is_alive() for thread in waiting)
    assert len(found) == 3
    with pytest.raises(RuntimeError, match="echo is closed"):
        child.ask({}, 60)


def test_a_program_that_is_not_ready_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="echo cannot be used: no library"):
        JsonChild(program(tmp_path, '{"error": "no library"}')).ask({}, 60)


def test_keys_of_the_environment_are_not_passed_on(child: JsonChild, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "secret")
    assert child.ask({}, 60)["seen"] == ["OWN", "PATH"]
