"""A run with a secret in its YAML, its `.env` and its command line leaves none of them on disk, and says none."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import PluginError
from astuner.runs.store.store_lines import read_records

SECRETS = ("in-the-yaml-1", "in-dotenv-2", "in-command-3")
JUDGE = """\
from attrs import frozen

class Mine:
    @frozen(kw_only=True)
    class Options:
        api_key: str
        token: str
        fails: bool = False
        secret: str

    def __init__(self, options):
        if options.fails:
            raise ValueError(f"the server refused {options.api_key}, {options.token} and {options.secret}")

    def compute_reward(self, task, output):
        return 1.0
"""


@pytest.fixture
def play(run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Play a run whose judge is given three secrets, in three ways."""

    def started(**options: object) -> Any:
        (tmp_path / "judge.py").write_text(JUDGE)
        (tmp_path / ".env").write_text(f"TOKEN_OF_TODAY={SECRETS[1]}\n")
        monkeypatch.setenv("TOKEN_OF_TODAY", "to be removed after the test")
        monkeypatch.delenv("TOKEN_OF_TODAY")
        override = f"task_judge.judges=[{{judge: ./judge.py:Mine, options: {{secret: {SECRETS[2]}, api_key: {SECRETS[0]}, "
        override += f"token: '${{oc.env:TOKEN_OF_TODAY}}', fails: {json.dumps(bool(options))}}}}}]"
        monkeypatch.setattr(sys, "argv", ["astuner", "run", "--set", override, f"--set=verl.api_key={SECRETS[2]}"])
        settings = {"task_judge": {"judges": [{"judge": "./judge.py:Mine", "options": {"api_key": SECRETS[0]}}]}}
        return run(settings=settings, overrides=[override])

    return started


def leaked(directory: Path) -> list[tuple[str, str]]:
    texts = [(path.name, path.read_text(errors="replace")) for path in directory.rglob("*") if path.is_file()]
    # Calls are compressed.
    texts += [(file.name, str(record)) for file in directory.glob("episodes/*.jsonl") for _, record in read_records(file)]
    return [(name, secret) for name, text in texts for secret in SECRETS if secret in text]


def test_only_the_user_may_read_what_the_run_has_written(play: Callable[..., Any]) -> None:
    before = os.umask(0)
    try:
        directory = play().directory
    finally:
        os.umask(before)
    written = [directory, *directory.rglob("*")]
    assert {path.name for path in written} >= {"config.yaml", "run.json", "state.json", "metrics.jsonl", "train.jsonl", "logs"}
    assert [str(path) for path in written if path.stat().st_mode & 0o077] == []


def test_nothing_in_the_run_directory_has_a_secret(play: Callable[..., Any]) -> None:
    directory = play().directory
    assert json.loads((directory / "run.json").read_text())["command"][:3] == ["astuner", "run", "--set"]
    assert leaked(directory) == []


def test_the_record_of_a_run_has_nothing_of_its_tasks_and_code(play: Callable[..., Any]) -> None:
    directory = play().directory
    text = (directory / "run.json").read_text()
    assert "judge.py" in text
    assert "def compute_reward" not in text
    assert "What is 2 + 2?" in (directory / "episodes" / "train.jsonl").read_text()
    assert "What is 2 + 2?" not in text


def test_a_trace_of_the_hooks_has_no_secret(
    play: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASTUNER_TRACE_HOOKS", "1")
    play()
    said = capsys.readouterr().err
    assert "astuner_make_judge(" in said
    assert [secret for secret in SECRETS if secret in said] == []


def test_a_judge_that_tells_its_options_is_not_repeated(
    play: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PluginError) as caught:
        play(fails=True)
    said = capsys.readouterr()
    assert "the server refused <redacted>, ${oc.env:TOKEN_OF_TODAY} and <redacted>" in str(caught.value)
    assert [secret for secret in SECRETS if secret in str(caught.value) + said.out + said.err] == []
    [state] = tmp_path.rglob("state.json")
    assert leaked(state.parent) == []
