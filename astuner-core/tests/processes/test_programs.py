"""Programs under their guard: started, ended, and ended with whoever started them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from attrs import evolve

from astuner.contract.errors import AstunerError
from astuner.shared.processes import Lease, ProgramHandle, ProgramSpec, attach, launch, list_programs
from astuner.shared.processes.program_record import RecordFiles, write_record
from astuner_devkit import until

Start = Callable[..., ProgramHandle]
pytestmark = pytest.mark.usefixtures("token")

STARTER = """
import os, signal, sys, time
from pathlib import Path
from astuner.shared.processes import ProgramSpec, Lease, launch

def start(shell, lease=None):
    return launch(ProgramSpec(command=["/bin/sh", "-c", shell], kind="service", name="one", log=Path(sys.argv[1]), lease=lease))

{body}
"""
FAMILY = """
(sleep 60 &)
sleep 60 &
{python} -c 'import os, time; os.setsid(); os.fork() and os._exit(0); time.sleep(60)' &
echo up
wait; sleep 60
"""
"""A daemon, a child, and one that leaves its session and its parent."""


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """What every process of the test carries in its environment; none may be left by the test."""
    value = str(tmp_path)
    monkeypatch.setenv("TEST_TOKEN", value)
    yield value
    for process in find_processes(value):
        # It may end by itself meanwhile.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def find_processes(token: str, *words: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.pid != os.getpid() and process.environ().get("TEST_TOKEN") == token
            if ours and process.status() != psutil.STATUS_ZOMBIE and set(words) <= set(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def starter(log: Path, body: str) -> subprocess.Popen[str]:
    """Start a process that starts programs; it says so on its first line."""
    command = [sys.executable, "-c", STARTER.format(body=body), str(log)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def test_a_program_has_its_words_directory_and_environment(start: Start, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    launched = start("echo $GIVEN in $(pwd)", cwd=tmp_path / "inside", env={"GIVEN": "this"})
    until(lambda: launched.poll() is not None)
    assert launched.tail().splitlines()[0] == f"this in {tmp_path}/inside"


def test_the_log_says_what_was_started_and_no_value_of_the_environment(start: Start, tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text("before\n")
    launched = start("true", env={"API_KEY": "sk-very-secret"})
    launched.end()
    before, header, *_ = (tmp_path / "one.log").read_text().splitlines()
    assert before == "before"
    assert "service 'one'" in header
    assert "/bin/sh -c true" in header
    assert "sk-very-secret" not in (tmp_path / "one.log").read_text()


def test_a_tail_holds_nothing_of_earlier_programs(start: Start, tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text("before\n")
    launched = start("echo mine")
    until(lambda: launched.poll() is not None)
    assert "before" not in launched.tail()


@pytest.mark.parametrize(("shell", "status"), [("exit 3", 3), ("kill -9 $$", -9), ("true", 0)])
def test_the_exit_status_is_the_programs(start: Start, shell: str, status: int) -> None:
    launched = start(shell)
    until(lambda: launched.poll() is not None)
    assert launched.poll() == status


def test_whoever_started_it_knows_how_it_ended_when_somebody_else_ends_it(start: Start) -> None:
    launched = start("sleep 60")
    attach(launched.record).end()
    until(lambda: launched.poll() is not None)
    assert launched.poll() == -15


def test_a_program_is_ours_after_the_clock_was_set(start: Start) -> None:
    launched = start("sleep 60")
    write_record(evolve(launched.record, born=launched.record.born - 3600))
    assert [record.id for record in list_programs()] == [launched.record.id]


def test_a_file_that_goes_away_meanwhile_hides_no_program(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    launched = start("sleep 60")
    home = RecordFiles.of(launched.record.id).record.parent
    listed = [home / "0.lease", *home.iterdir()]
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(listed))
    assert [record.id for record in list_programs()] == [launched.record.id]


def test_a_handle_of_another_process_knows_the_exit_status_too(start: Start, tmp_path: Path) -> None:
    launched = start(f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exit 3")
    again = attach(launched.record)
    assert again.poll() is None
    (tmp_path / "go").touch()
    until(lambda: again.poll() is not None)
    assert again.poll() == 3


def test_ending_takes_everything_below_along(start: Start, token: str) -> None:
    launched = start(FAMILY.format(python=sys.executable))
    until(lambda: "up" in launched.tail())
    until(lambda: len(launched.members()) == 4)
    launched.end()
    assert find_processes(token) == []
    assert list_programs() == []


def test_ending_twice_is_as_good_as_once(start: Start) -> None:
    launched = start()
    launched.end()
    launched.end()
    assert launched.poll() == -signal.SIGTERM


def test_one_that_ignores_the_request_is_killed_after_the_grace(start: Start, token: str) -> None:
    launched = start("trap '' TERM; echo deaf; while true; do sleep 0.1; done")
    until(lambda: "deaf" in launched.tail())
    launched.end(grace_s=0.3)
    assert launched.poll() == -signal.SIGKILL
    assert find_processes(token) == []


def test_a_stopped_one_hears_the_request(start: Start) -> None:
    launched = start("exec sleep 60")
    os.kill(launched.record.program or 0, signal.SIGSTOP)
    launched.end()
    assert launched.poll() == -signal.SIGTERM


def test_what_a_program_leaves_behind_ends_with_it(start: Start, token: str) -> None:
    launched = start("(sleep 60 &); exit 4")
    until(lambda: not find_processes(token))
    assert launched.poll() == 4


def test_a_program_whose_group_is_signalled_takes_no_guard_along(start: Start) -> None:
    launched = start("trap '' TERM; kill -TERM 0; sleep 0.5; exit 5")
    until(lambda: "exit status" in launched.tail())
    assert "it ended (exit status 5)" in launched.tail()


def test_nothing_outlives_a_starter_that_is_killed(tmp_path: Path, token: str) -> None:
    family = FAMILY.format(python=sys.executable)
    parent = starter(tmp_path / "log", f"start({family!r}); print('started', flush=True); time.sleep(60)")
    until(lambda: len(find_processes(token, "sleep")) >= 2)
    parent.kill()
    parent.wait()
    until(lambda: not find_processes(token))
    assert "who started it is gone" in (tmp_path / "log").read_text()


def test_a_fork_of_the_starter_does_not_keep_the_program(tmp_path: Path, token: str) -> None:
    body = "start('sleep 60')\nif os.fork() == 0: time.sleep(60)\nprint('started', flush=True); time.sleep(60)"
    parent = starter(tmp_path / "log", body)
    parent.kill()
    parent.wait()
    until(lambda: not find_processes(token, "sleep", "60"))


def test_a_starter_that_is_gone_before_its_guard_looks_does_not_keep_the_program(tmp_path: Path) -> None:
    body = (
        "from astuner.shared.processes import program_launch\n"
        "hand_over, starter = program_launch._hand_over, os.getpid()\n"
        "def from_a_fork(guard, order):\n"
        "    if os.fork(): os._exit(0)\n"
        "    while os.getppid() == starter: time.sleep(0.01)\n"
        "    return hand_over(guard, order)\n"
        "program_launch._hand_over = from_a_fork\n"
        "kept = start('sleep 60'); print('started', flush=True); time.sleep(60)"
    )
    starter(tmp_path / "log", body).wait()
    until(lambda: "who started it is gone" in (tmp_path / "log").read_text())


def test_nothing_outlives_a_guard_that_is_killed(start: Start, token: str) -> None:
    launched = start(FAMILY.format(python=sys.executable))
    until(lambda: "up" in launched.tail())
    os.kill(launched.record.pid, signal.SIGKILL)
    until(lambda: not find_processes(token))
    assert launched.poll() == -signal.SIGKILL


def test_a_guard_that_is_asked_to_end_ends_the_program(start: Start, token: str) -> None:
    launched = start()
    os.kill(launched.record.pid, signal.SIGTERM)
    until(lambda: not find_processes(token))
    assert launched.poll() == -signal.SIGTERM


def test_the_terminals_ctrl_c_reaches_the_starter_alone(tmp_path: Path, token: str) -> None:
    body = (
        # A shell that puts its jobs in the background lets them ignore it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "one = start('sleep 60')\n"
        "try:\n    print('started', flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt:\n    time.sleep(0.5); print(one.poll()); one.end()"
    )
    parent = starter(tmp_path / "log", body)
    os.killpg(parent.pid, signal.SIGINT)
    assert parent.communicate(timeout=30)[0] == "None\n"
    assert find_processes(token) == []


def test_a_leased_program_outlives_its_starter_and_ends_when_it_is_idle(tmp_path: Path, token: str) -> None:
    parent = starter(tmp_path / "log", "start('sleep 60', Lease(idle_s=6)); print('started', flush=True)")
    parent.wait()
    [record] = list_programs()
    assert attach(record).poll() is None
    until(lambda: not find_processes(token))
    assert list_programs() == []
    assert "it was not used for 6 s" in (tmp_path / "log").read_text()


def test_a_leased_program_stays_as_long_as_it_is_used(start: Start) -> None:
    launched = start(lease=Lease(idle_s=2))
    with launched.keep_leased():
        time.sleep(4)
        assert launched.poll() is None
    until(lambda: launched.poll() is not None)


def test_a_program_that_another_one_leased_is_left_alone(tmp_path: Path) -> None:
    inner = STARTER.format(body="start('sleep 60', Lease(idle_s=60)); time.sleep(60)")
    outer = launch(
        ProgramSpec(
            command=[sys.executable, "-c", inner, str(tmp_path / "inner.log")], kind="service", name="two", log=tmp_path / "log"
        )
    )
    until(lambda: [one.name for one in list_programs()] == ["two", "one"])
    outer.end()
    assert [one.name for one in list_programs()] == ["one"]


def test_a_command_that_does_not_exist_is_said_at_once(start: Start, tmp_path: Path) -> None:
    with pytest.raises(AstunerError, match=r"service 'one': cannot start 'nonesuch'.*No such file"):
        launch(ProgramSpec(command=["nonesuch"], kind="service", name="one", log=tmp_path / "log"))
    assert list_programs() == []


def test_the_scratch_directory_goes_with_the_program(start: Start, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    launched = start("touch scratch/file; sleep 60", cwd=tmp_path, scratch=scratch)
    until(lambda: (scratch / "file").exists())
    launched.end()
    assert not scratch.exists()


def test_a_program_that_does_not_start_leaves_no_scratch_directory(tmp_path: Path) -> None:
    with pytest.raises(AstunerError):
        launch(ProgramSpec(command=["nonesuch"], kind="service", name="one", log=tmp_path / "log", scratch=tmp_path / "scratch"))
    assert not (tmp_path / "scratch").exists()
