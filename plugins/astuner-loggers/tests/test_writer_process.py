"""What a library may do in its process, and what becomes of the run and of the process then."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from astuner.contract.errors import PluginError
from astuner.contract.protocols import RunInfo
from astuner.contract.schema import Group
from astuner.shared.install_hints import install_command
from astuner_devkit.contracts.leftovers import find_left_running, list_running
from astuner_devkit.run_infos import run_info
from astuner_devkit.waiting import until
from astuner_loggers import process_logger
from astuner_loggers.process_logger import ProcessLogger, Service
from astuner_loggers.swanlab import SwanlabLogger

WRITERS = """
import json, os, pathlib, signal, subprocess, sys, threading, time

class Writes:
    def open(self, run):
        self.place = pathlib.Path(run.directory)
        self.say("open", run.run_id, run.rows)
        return "an id"
    def say(self, *what):
        with (self.place / "said").open("a") as said:
            said.write(json.dumps(what) + "\\n")
    def forget_after(self, step):
        return False
    def log(self, step, metrics):
        self.say("log", step, metrics)
    def log_episodes(self, step, prefix, rewards, shown):
        self.say("episodes", prefix, step, rewards)
    def close(self, status):
        self.say("close", status)

class TellsOfItself(Writes):
    def log(self, step, metrics):
        self.say(os.path.expanduser("~"), os.getcwd(), sorted(name for name in os.environ if name.startswith("MADE_UP_")))

class Reads(Writes):
    def log_episodes(self, step, prefix, rewards, shown):
        self.say([one.text.encode().decode() for one in shown])

class Refuses(Writes):
    def log(self, step, metrics):
        raise ConnectionError("the server is on fire")

class CannotOpen(Writes):
    def open(self, run):
        sys.exit("please log in")

class Hangs(Writes):
    def log(self, step, metrics):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(1000)

class HangsAtTheEnd(Writes):
    def close(self, status):
        time.sleep(1000)

class StartsAProgram(Hangs):
    def open(self, run):
        subprocess.Popen(["sleep", "1000"])
        return super().open(run)

class Ends(Writes):
    def log(self, step, metrics):
        os._exit(3)

class Chatters(Writes):
    def log(self, step, metrics):
        signal.signal(signal.SIGINT, lambda *_: None)
        print("look at me")
        print("and at me", file=sys.stderr)
        os.system("echo and at mine")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the logger writes; what `WRITERS` says is importable in its process."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "made_up_writers.py").write_text(WRITERS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    return tmp_path / "run" / "made_up"


@pytest.fixture
def logger(place: Path, info_here: RunInfo) -> Callable[..., ProcessLogger]:
    def make(writer: str, timeout_s: float = 60.0, info: RunInfo = info_here) -> ProcessLogger:
        service = Service(
            name="made_up",
            packages=("json",),
            requirement="made-up",
            writer=f"made_up_writers:{writer}",
            directory=place,
            dropped=("MADE_UP_KEY",),
            environment={"MADE_UP_DIRECTORY": "here"},
            project="project",
            experiment="experiment",
            where="here",
            episodes=3,
            timeout_s=timeout_s,
        )
        return ProcessLogger(service, info)

    return make


@pytest.fixture
def info_here(tmp_path: Path) -> RunInfo:
    return run_info(tmp_path)


def read_calls(place: Path) -> list[list[Any]]:
    return [json.loads(line) for line in (place / "said").read_text().splitlines()]


def test_a_run_is_begun_written_and_ended_in_order(logger: Callable[..., ProcessLogger], place: Path) -> None:
    made = logger("Writes")
    made.astuner_run_started()
    made.log(1, {"reward/mean": 0.5})
    made.astuner_run_finished(exit_code=1)
    made.close()
    assert read_calls(place) == [["open", None, 0], ["log", 1, {"reward/mean": 0.5}], ["close", "failed"]]


def test_a_run_that_came_to_nothing_is_not_tracked(logger: Callable[..., ProcessLogger], place: Path) -> None:
    logger("Writes").close()
    assert not (place / "said").exists()


def test_a_library_finds_a_home_and_variables_of_its_own(
    logger: Callable[..., ProcessLogger], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MADE_UP_KEY", "a key")
    monkeypatch.setenv("MADE_UP_PROXY", "somewhere")
    made = logger("TellsOfItself")
    made.log(1, {"reward/mean": 0.5})
    made.close()
    assert read_calls(place)[1] == [str(place / "home"), str(place), ["MADE_UP_DIRECTORY", "MADE_UP_PROXY"]]


def test_what_was_refused_is_told_with_the_place_of_the_rest(logger: Callable[..., ProcessLogger], info_here: RunInfo) -> None:
    before = list_running()
    with pytest.raises(PluginError) as failed:
        logger("Refuses").log(1, {"reward/mean": 0.5})
    log = info_here.directory / "logs" / "logger-made_up.log"
    assert str(failed.value) == f"ConnectionError: the server is on fire; what it printed is in {log}"
    assert "Traceback" in log.read_text()
    assert find_left_running(before) == []


def test_a_run_that_cannot_be_begun_is_told_with_its_first_report(logger: Callable[..., ProcessLogger]) -> None:
    made = logger("CannotOpen")
    made.astuner_run_started()
    with pytest.raises(PluginError, match="SystemExit: please log in"):
        made.log(1, {"reward/mean": 0.5})


@pytest.mark.parametrize("writer", ["Hangs", "StartsAProgram"])
def test_a_service_that_hangs_is_given_up_and_nothing_of_it_is_left(writer: str, logger: Callable[..., ProcessLogger]) -> None:
    before = list_running()
    made = logger(writer, timeout_s=2.0)
    programs = set(psutil.pids())
    with pytest.raises(PluginError, match=r"made_up did not answer within 2 s \(option 'timeout_s'\)"):
        made.log(1, {"reward/mean": 0.5})
    made.close()
    assert find_left_running(before) == []

    def left() -> list[int]:
        now = psutil.process_iter(["cmdline"])
        return [one.pid for one in now if one.pid not in programs and one.info["cmdline"] == ["sleep", "1000"]]

    until(lambda: not left())


def test_who_pressed_ctrl_c_waits_no_longer_than_a_moment(
    logger: Callable[..., ProcessLogger], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_logger, "INTERRUPTED_WAIT_S", 0.5)
    made = logger("HangsAtTheEnd", timeout_s=1000.0)
    made.log(1, {"reward/mean": 0.5})
    made.astuner_run_finished(exit_code=130)
    with pytest.raises(PluginError, match=r"within 0\.5 s"):
        made.close()


def test_a_process_that_ended_by_itself_is_told(logger: Callable[..., ProcessLogger]) -> None:
    made = logger("Ends")
    with pytest.raises(PluginError, match="the process of made_up ended unexpectedly"):
        made.log(1, {"reward/mean": 0.5})


def test_a_transcript_with_half_a_character_is_written_as_one_that_every_service_takes(
    logger: Callable[..., ProcessLogger], place: Path, group: Callable[..., Group]
) -> None:
    made = logger("Reads")
    made.log_episodes(1, [group([1.0], said="half \ud800 of one")])
    made.close()
    ((text,),) = read_calls(place)[1]
    assert "half \ufffd of one" in text


def test_what_cannot_be_sent_leaves_no_process_behind(logger: Callable[..., ProcessLogger]) -> None:
    before = list_running()
    made = logger("Writes")
    with pytest.raises(TypeError):
        made._ask("log", step=1, metrics={"reward/mean": object()})
    assert find_left_running(before) == []


def test_a_run_goes_on_with_its_own_in_a_directory_that_it_shares(
    logger: Callable[..., ProcessLogger], place: Path, tmp_path: Path
) -> None:
    for home in ("one", "other"):
        made = logger("Writes", info=run_info(tmp_path / home, directory=tmp_path / home))
        made.log(5, {"reward/mean": 0.5})
        made.close()
    first = logger("Writes", info=run_info(tmp_path / "one", directory=tmp_path / "one"))
    first.truncate_after(5)
    first.log(6, {"reward/mean": 0.5})
    first.close()
    new = logger("Writes", info=run_info(tmp_path / "new", directory=tmp_path / "new"))
    new.truncate_after(5)
    new.log(6, {"reward/mean": 0.5})
    new.close()
    assert [run_id for do, run_id, *_ in read_calls(place) if do == "open"] == [None, None, "an id", None]
    assert (tmp_path / "one" / "made_up" / "astuner.json").is_file()
    assert not (place / "astuner.json").exists()


def test_what_a_library_does_to_its_process_is_not_seen_in_ours(
    logger: Callable[..., ProcessLogger], info_here: RunInfo, capfd: pytest.CaptureFixture[str]
) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    made = logger("Chatters")
    made.log(1, {"reward/mean": 0.5})
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert made._process is not None
    # Ctrl-C in a terminal goes to the processes of one group.
    assert os.getpgid(made._process._process.pid) != os.getpgrp()
    made.close()
    assert capfd.readouterr() == ("", "")
    printed = (info_here.directory / "logs" / "logger-made_up.log").read_text().splitlines()
    assert sorted(printed) == ["and at me", "and at mine", "look at me"]


def test_the_run_of_a_killed_process_is_ended(place: Path, tmp_path: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from astuner_devkit.run_infos import run_info
from astuner_loggers.process_logger import ProcessLogger, Service
service = Service(name="made_up", packages=(), requirement="-", writer="made_up_writers:Writes", directory=Path({str(place)!r}),
                  project="p", experiment="e", where="here", episodes=3, timeout_s=60)
logger = ProcessLogger(service, run_info(Path({str(tmp_path)!r})))
logger.log(1, {{"reward/mean": 0.5}})
print(logger._process._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    deadline = time.monotonic() + 30
    while psutil.pid_exists(int(ended.stdout)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert read_calls(place)[-1] == ["close", "interrupted"]


def test_a_process_whose_run_is_gone_does_not_wait_for_its_service(place: Path, tmp_path: Path) -> None:
    code = "import sys; from astuner_loggers.writers import __main__ as program; program.LAST_WORDS_S = 0.5; "
    code += "program.main(sys.argv[1], int(sys.argv[2]))"
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-c", code, "made_up_writers:HangsAtTheEnd", str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), start_new_session=True)
    names = {"directory": str(tmp_path), "ledger": str(tmp_path), "project": "p", "experiment": "e", "where": "here"}
    with ours:
        ours.sendall(json.dumps({"do": "open", **names, "settings": {}, "parameters": {}, "after": None}).encode() + b"\n")
    assert process.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("name", "package"),
    [("wandb", "wandb"), ("swanlab", "swanlab"), ("trackio", "trackio"), ("mlflow", "mlflow"), ("mlflow", "alembic")],
)
def test_a_missing_library_is_answered_with_the_command_that_brings_it(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in ("wandb", "swanlab", "trackio", "mlflow", "sqlalchemy", "alembic"):
        if find_spec(library) is None or library == package:
            monkeypatch.setitem(sys.modules, library, None)
    module = __import__(f"astuner_loggers.{name}", fromlist=["*"])
    logger = getattr(module, f"{name.capitalize()}Logger")
    with pytest.raises(PluginError, match=f"{package}.*: {re.escape(install_command(f'astuner-loggers[{name}]'))}"):
        logger.from_run(None, run_info(tmp_path))


def test_a_board_that_swanlab_lacks_is_told_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "swanboard", None)
    options = SwanlabLogger.Options(mode="local")
    with pytest.raises(PluginError, match=r"swanboard: pip install 'swanlab\[dashboard\]'"):
        SwanlabLogger.from_run(options, run_info(tmp_path))


@pytest.mark.parametrize("name", ["wandb", "swanlab", "trackio", "mlflow"])
def test_a_logger_never_imports_its_library_into_the_run(name: str) -> None:
    code = f"import sys, astuner_loggers.{name}; print({name!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
