"""Every command that prints something to read has `--json`; each is run, and stdout is one document."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from command_tree import COMMANDS
from harness import Cli

from astuner_devkit.project import write_tokenizer
from astuner_tools.new_projects.template import write_project

NOTHING_TO_READ = {
    "env serve": "a server",
    "trace collect": "a server",
    "logview show": "a server, which prints its address: plugins/astuner-logview/tests/server/test_command.py reads it",
    "quickstart": "a demonstration for people",
}
PLAYED = "project.debug"
CONF = ("--conf", "project/tune.yaml")
JUDGED = (
    {"main_query": "2+2?", "final_answer": "4", "answer": "4", "score": 1},
    {"main_query": "1+1?", "final_answer": "3", "answer": "2", "score": 0},
)
PATHS = ("path", "directory", "file", "files", "roots", "log")
"""The keys of paths; a problem may be in an argument instead."""
RUNS: Mapping[str, tuple[str, ...]] = {
    "plugin list": (),
    "plugin check": ("astuner-readers",),
    "plugin new": ("judge", "acme-strict"),
    "plugin show": ("judge", "math"),
    "config validate": CONF,
    "config explain": CONF,
    "config schema": (),
    "config show": CONF,
    "report": (PLAYED,),
    "compare": (PLAYED, f"launcher_record/{PLAYED}"),
    "data preview": CONF,
    "data stats": CONF,
    "doctor": CONF,
    "env list": (),
    "episodes": (PLAYED, "--lowest", "1"),
    "eval": (*CONF, "--set", "rollout.name=scripted"),
    "init": ("another",),
    "judge eval": (*CONF, "--set", "task_judge={judge_type: math}", "--examples", "judged.jsonl"),
    "logview export": (PLAYED, "--episode", "train/1/train-000/0", "--out", "episode.md"),
    "ps": (),
    "replay": (PLAYED, *CONF, "--out", "replayed"),
    "runs": (),
    "setup": (),
    "why": (PLAYED,),
}
"""What takes a second or two."""
REFUSED: Mapping[str, tuple[str, ...]] = {
    "config import": ("project/tune.yaml", "--from", "acme", "--out", "imported.yaml"),
    "config memory": (*CONF, "--gpus", "1"),
    "data generate": CONF,
    "export": (PLAYED, "--out", "exported"),
    "judge learn": CONF,
    "model fetch": ("no-such-model",),
    "run": (*CONF, "--set", "rollout.temprature=1"),
    "stop": ("nothing-of-this-name",),
    "trace import": ("absent.jsonl", "--out", "tasks.jsonl"),
    "warm-start": (*CONF, "--out", "warm"),
}
"""What takes longer, or needs more, and says why it does not begin."""


@pytest.fixture(scope="module")
def home(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a project, a run that it has played, and labelled answers."""
    home = tmp_path_factory.mktemp("home")
    write_project(home / "project", "openai", "code")
    (home / "judged.jsonl").write_text("\n".join(map(json.dumps, JUDGED)))
    played = cli("run", *CONF, "--json", cwd=home)
    assert played.returncode == 0, played.stderr
    (home / "played.ndjson").write_text(played.stdout)
    # Most commands need a model that is there, or its tokenizer.
    write_tokenizer(home / "project" / "model")
    return home


def name_of(path: tuple[str, ...]) -> str:
    return " ".join(path[1:])


def takes_json(command: click.Command) -> bool:
    return any("--json" in parameter.opts for parameter in command.params)


def list_wrong(value: Any, key: str = "") -> Iterator[str]:
    """Yield what a document should not have: numbers that are none of JSON, and paths that are not absolute."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from list_wrong(one, name)
    elif isinstance(value, list):
        for one in value:
            yield from list_wrong(one, key)
    elif isinstance(value, float):
        yield from [] if math.isfinite(value) else [f"{key}: {value}"]
    elif isinstance(value, str) and key in PATHS and not Path(value).is_absolute() and not value.startswith("--set "):
        yield f"{key}: {value}"


def test_every_command_is_one_of_these() -> None:
    # `setup` comes with the backbone trinity, whose environment tests it.
    assert {name_of(path) for path in COMMANDS} | {"setup"} == {*NOTHING_TO_READ, *RUNS, *REFUSED}


@pytest.mark.parametrize("path", COMMANDS, ids=name_of)
def test_what_prints_something_to_read_has_json(path: tuple[str, ...]) -> None:
    assert takes_json(COMMANDS[path]) or name_of(path) in NOTHING_TO_READ, "add `as_json` of astuner.cli.output"


@pytest.mark.parametrize("name", [name for name in map(name_of, COMMANDS) if name in RUNS])
def test_stdout_is_one_document(name: str, home: Path, cli: Cli) -> None:
    found = cli(*name.split(), *RUNS[name], "--json", cwd=home)
    document = json.loads(found.stdout)
    assert "error" not in document, found.stderr
    assert list(list_wrong(document)) == []
    assert found.returncode in ((0, 1) if name == "doctor" else (0,))


@pytest.mark.parametrize("name", REFUSED)
def test_an_error_is_a_document_too(name: str, home: Path, cli: Cli) -> None:
    found = cli(*name.split(), *REFUSED[name], "--json", cwd=home)
    (line,) = found.stdout.splitlines()
    document = json.loads(line)
    assert {*document} == {"error", "exit_code", "problems"}
    assert document["exit_code"] == found.returncode == 2
    assert list(list_wrong(document)) == []


def test_a_run_is_a_line_for_each_event(home: Path) -> None:
    *_, metrics, finished = events = [json.loads(line) for line in (home / "played.ndjson").read_text().splitlines()]
    assert {event["event"] for event in events} == {"notice", "metrics", "finished"}
    assert (metrics["event"], metrics["step"], metrics["metrics"]["reward/mean"]) == ("metrics", 1, 0.5)
    assert finished["directory"] == str(home.resolve() / "launcher_record" / PLAYED)
    assert finished["validations"] == {"before": None, "after": None}


def test_a_run_that_fails_ends_with_the_error(home: Path, cli: Cli, tmp_path: Path) -> None:
    shutil.copytree(home / "project", tmp_path / "project", ignore=shutil.ignore_patterns("model"))
    (tmp_path / "project" / "agent.py").write_text(
        "class PriceAgent:\n    async def execute(self, *_):\n        raise KeyError(1)\n"
    )
    found = cli("run", *CONF, "--json", cwd=tmp_path)
    *events, failed = [json.loads(line) for line in found.stdout.splitlines()]
    assert all("event" in event for event in events)
    assert {*failed} == {"error", "exit_code", "problems"}
    assert failed["exit_code"] == found.returncode != 0


def test_the_cost_of_a_run_is_a_document(home: Path, cli: Cli) -> None:
    document = json.loads(cli("run", *CONF, "--set", "rollout.name=scripted", "--dry-run", "--json", cwd=home).stdout)
    assert any(line.startswith("judges") for line in document["estimate"])
