from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import termios
import threading

import pytest

from astuner.episodes.builtin.loggers.console_logger import ConsoleLogger

STEP = {
    "reward/mean": 0.53125,
    "reward/std": 0.4,
    "success/rate": 0.5,
    "kl/mean": 0.0012,
    "loss/policy": -0.0123,
    "tokens/per_s": 1234.4,
    "time/step_s": 3.21,
    "signal/calls": 64,
    "signal/episodes": 32,
    "signal/samples": 30,
    "signal/tokens_trainable": 8192,
    "signal/tokens_nonzero_advantage": 6144,
    "signal/lost/timeout": 2,
}


def test_without_a_terminal_a_step_is_one_plain_line() -> None:
    stream = io.StringIO()
    ConsoleLogger("title", stream).log(12, STEP)
    assert stream.getvalue() == (
        "step 12: reward 0.531 ±0.400  success 50.0%  kl 0.0012  loss -0.0123  tokens/s 1,234  time 3.2 s  "
        "32 episodes → 8,192 trainable → 6,144 with signal (lost: timeout 2)\n"
    )


def test_without_a_terminal_nothing_is_a_link() -> None:
    stream = io.StringIO()
    logger = ConsoleLogger("title", stream)
    logger.link_steps("http://127.0.0.1:8000/#/s/{step}")
    logger.log(12, {"reward/mean": 0.5})
    assert stream.getvalue() == "step 12: reward 0.500\n"


def test_a_validation_is_a_line_of_its_own_numbers() -> None:
    stream = io.StringIO()
    ConsoleLogger("title", stream).log(20, {"val/reward/mean": 0.6, "val/success/rate": 0.6, "val/pass@4": 0.75})
    assert stream.getvalue() == "step 20: val reward 0.600  val success 60.0%  val pass@4 75.0%\n"


def test_figures_of_later_lines_are_below_those_of_earlier_ones() -> None:
    stream = io.StringIO()
    logger = ConsoleLogger("title", stream)
    for success in (1.0, 0.05):
        logger.log(20, {"val/reward/mean": 0.6, "val/success/rate": success, "val/reward/std": 0.1})
    first, second = stream.getvalue().splitlines()
    assert (first.index("100.0%"), len(first)) == (second.index("  5.0%"), len(second))


def test_a_single_pass_is_shown_once() -> None:
    stream = io.StringIO()
    ConsoleLogger("title", stream).log(
        20, {"val/reward/mean": 0.6, "val/success/rate": 0.6, "val/pass@1": 0.6, "val/pass@4": 0.75}
    )
    assert stream.getvalue() == "step 20: val reward 0.600  val success 60.0%  val pass@4 75.0%\n"


def test_a_notice_is_a_plain_line_too() -> None:
    stream = io.StringIO()
    ConsoleLogger("title", stream).notice("look [here]", "warning")
    assert stream.getvalue() == "warning: look [here]\n"


def test_the_default_stream_is_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    ConsoleLogger("title").log(1, {"reward/mean": 1.0})
    assert capsys.readouterr() == ("", "step 1: reward 1.000\n")


SESSION = """
import json, sys
from astuner.episodes.builtin.loggers.console_logger import ConsoleLogger
step = json.loads(sys.argv[1])
logger = ConsoleLogger("my/run on local")
logger.link_steps("http://127.0.0.1:8000/#/r/my run/s/{step}/worst")
logger.log(1, step)
logger.progress("episodes", 3, 8)
logger.notice("all rewards [bold] are equal", "warning")
logger.log(2, step)
print("for a pipe")
logger.close()
"""


def test_a_terminal_gets_a_table_that_is_drawn_in_place_and_stdout_is_left_alone() -> None:
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (40, 100))
    received: list[bytes] = []
    reading = threading.Thread(target=read_all, args=(master, received))
    reading.start()
    # A test runner may set another width than the terminal has.
    environment = {**os.environ, "TERM": "xterm", "PYTHONUTF8": "1"}
    environment.pop("COLUMNS", None)
    command = [sys.executable, "-c", SESSION, json.dumps(STEP)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave, env=environment, check=True)
    os.close(slave)
    reading.join()
    shown = b"".join(received).decode()
    assert done.stdout == b"for a pipe\n"
    assert "my/run on local" in shown
    assert "8,192 trainable → 6,144 with signal (lost: timeout 2)" in shown
    assert "3 of 8" in shown
    assert "warning: all rewards [bold] are equal" in shown
    assert "\x1b[1A" in shown
    # A link of a terminal: its URL, then its text.
    assert re.search(r"\x1b\]8;[^;]*;http://127\.0\.0\.1:8000/#/r/my run/s/2/worst\x1b\\2\x1b\]8;;", shown)


def read_all(master: int, received: list[bytes]) -> None:
    # A terminal holds a few kilobytes, so it must be emptied while it is written to; its end is an error on Linux.
    with os.fdopen(master, "rb", buffering=0) as screen:
        try:
            while data := screen.read(4096):
                received.append(data)
        except OSError:
            return


def test_rich_is_not_imported_until_there_is_a_terminal() -> None:
    modules = "astuner.episodes.builtin.loggers.console_logger, astuner.episodes.builtin.loggers.jsonl_logger"
    code = f"import sys, {modules}; print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_output_that_is_not_overwritten_has_a_line_of_progress_a_minute() -> None:
    stream, now = io.StringIO(), [0.0]
    logger = ConsoleLogger("mine", stream, lambda: now[0])
    for now[0], done in ((30, 10), (61, 20), (90, 30), (120, 40)):
        logger.progress("validation", done, 552)
    logger.log(0, {})
    for now[0], done in ((150, 50), (181, 60)):
        logger.progress("validation", done, 552)
    assert [line for line in stream.getvalue().splitlines() if " of " in line] == [
        "validation: 20 of 552",
        "validation: 60 of 552",
    ]
