"""The YAML of the README turns the extension on, and it posts and prints what the README says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return text


@pytest.fixture
def settings() -> dict[str, Any]:
    return {**yaml.safe_load(block("yaml"))["astuner"], "experiment_name": "my_experiment"}


def test_a_run_posts_what_the_readme_shows(run: Any, settings: Any, webhook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    server = webhook()
    monkeypatch.setenv("STEP_NOTIFIER_URL", server.url)
    run(settings=settings)
    assert server.bodies == [json.loads(line) for line in block("json").splitlines()]


def test_nothing_that_a_run_writes_holds_the_url(
    run: Any, settings: Any, webhook: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STEP_NOTIFIER_URL", webhook().url)
    monkeypatch.setenv("ASTUNER_TRACE_HOOKS", "1")
    played = run(settings=settings)
    written = [path for path in played.directory.rglob("*") if path.is_file()]
    assert len(written) > 3
    assert [path for path in written if b"very-secret" in path.read_bytes()] == []
    assert "very-secret" not in "".join(capfd.readouterr())


def test_a_webhook_that_is_down_is_told_as_the_readme_shows(
    run: Any, settings: Any, down: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STEP_NOTIFIER_URL", down)
    run(settings=settings)
    told = capfd.readouterr().err
    assert all(line in told for line in block("text").splitlines())
