"""The contract of `--json`: stdout is one document, whatever the command does and however it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Astuner = Callable[..., "subprocess.CompletedProcess[str]"]

REPORT = r"""
import os, pathlib
import click
from astuner.cli.output import as_json, print_json

@click.command()
@click.argument("end", default="")
@as_json
def report(end, in_json):
    '''Print a document, and more.'''
    from astuner.contract.errors import ConfigError, Interrupted, Problem
    print("of the user's code")
    os.system("echo of a child process")
    match end:
        case "crash":
            raise KeyError("answer")
        case "interrupt":
            raise Interrupted("stopped after step 3")
        case "ctrl-c":
            raise KeyboardInterrupt
        case "refuse":
            problem = Problem(message="there is no such key", key="astuner.x", file=pathlib.Path("--set x"))
            raise ConfigError([problem, problem])
    if in_json:
        print_json({"mean": float("nan"), "path": pathlib.Path("runs/a"), "text": "é \udc80", "rows": [float("inf"), 1.5]})
    return 1
"""


@pytest.fixture(autouse=True)
def offered(fake_distribution: Callable[..., Path]) -> None:
    entry_points = {"astuner.commands": {"report": "acme_report:report"}}
    fake_distribution("acme-tools", files={"acme_report.py": REPORT}, entry_points=entry_points)


def test_stdout_is_the_document_alone(astuner: Astuner) -> None:
    found = astuner("report", "--json")
    assert json.loads(found.stdout)["rows"] == [None, 1.5]
    assert (
        found.stderr == "of a child process\nof the user's code\n" or found.stderr == "of the user's code\nof a child process\n"
    )
    assert found.returncode == 1


def test_without_it_stdout_is_as_the_command_prints(astuner: Astuner) -> None:
    found = astuner("report")
    assert (sorted(found.stdout.splitlines()), found.stderr) == (["of a child process", "of the user's code"], "")


def test_a_document_is_strict_json_with_absolute_paths(astuner: Astuner, tmp_path: Path) -> None:
    text = astuner("report", "--json").stdout
    assert "NaN" not in text
    document = json.loads(text)
    assert (document["mean"], document["text"]) == (None, "é \udc80")
    assert document["path"].endswith("/runs/a")
    assert Path(document["path"]).is_absolute()


@pytest.mark.parametrize(
    ("end", "exit_code", "error"),
    [
        ("crash", 1, "KeyError: 'answer'"),
        ("interrupt", 130, "stopped after step 3"),
        ("ctrl-c", 130, "interrupted"),
    ],
)
def test_an_error_is_a_document_on_one_line(astuner: Astuner, end: str, exit_code: int, error: str) -> None:
    found = astuner("report", end, "--json")
    (line,) = found.stdout.splitlines()
    assert json.loads(line) == {"error": error, "exit_code": exit_code, "problems": []}
    assert found.returncode == exit_code
    assert error in found.stderr


def test_every_problem_of_a_configuration_is_an_object(astuner: Astuner) -> None:
    found = astuner("report", "refuse", "--json")
    document = json.loads(found.stdout)
    expected = {"message": "there is no such key", "key": "astuner.x", "file": "--set x", "line": None}
    assert [problem | expected for problem in document["problems"]] == document["problems"]
    assert (len(document["problems"]), document["exit_code"], found.returncode) == (2, 2, 2)


@pytest.mark.parametrize(
    "arguments", [["report", "--jso", "--json"], ["no-such-command", "--json"], ["config", "validate", "--json"]]
)
def test_what_cannot_be_parsed_is_a_document_too(astuner: Astuner, arguments: list[str]) -> None:
    found = astuner(*arguments)
    document = json.loads(found.stdout)
    assert (document["exit_code"], found.returncode) == (2, 2)
    assert document["error"].rstrip(".") in found.stderr


def test_a_reader_that_is_gone_is_no_traceback(astuner: Astuner) -> None:
    code = "from astuner.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "plugin", "list", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait() == 1
