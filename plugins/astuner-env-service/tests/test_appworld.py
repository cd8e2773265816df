"""The service `appworld`."""

from __future__ import annotations

from pathlib import Path

import pytest

from astuner.contract.errors import UsageError
from astuner.settings.config.components import TaskReader
from astuner.settings.config.model import Config
from astuner_devkit import run_info
from astuner_env_service.appworld import appworld


def test_appworld_is_started_where_and_as_the_shell_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("APPWORLD_PATH", str(tmp_path))
    monkeypatch.setenv("APPWORLD_SCRIPT", "bash env/appworld.sh")
    service = appworld(run_info(tmp_path)).service
    assert service is not None
    assert (service.command, service.cwd) == (("bash", "-c", "bash env/appworld.sh"), str(tmp_path))
    # Its sign comes only unbuffered.
    assert (service.ready.log, service.env["PYTHONUNBUFFERED"]) == ("Starting server on", "1")


@pytest.mark.parametrize(
    ("given", "looked_at"),
    [("http://127.0.0.1:8080/", "http://127.0.0.1:8080/healthz"), ("http://envs.acme.org:8080", None)],
)
def test_appworld_is_looked_for_where_the_tasks_are_read_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, looked_at: str | None
) -> None:
    monkeypatch.setenv("APPWORLD_PATH", str(tmp_path))
    monkeypatch.setenv("APPWORLD_SCRIPT", "x")
    reader = TaskReader(type="env_service", sections={"env_service": {"env_url": given}})
    service = appworld(run_info(tmp_path, config=Config(task_reader=reader))).service
    assert service is not None
    assert service.ready.url == looked_at


@pytest.mark.parametrize("missing", [("APPWORLD_PATH",), ("APPWORLD_SCRIPT",), ("APPWORLD_PATH", "APPWORLD_SCRIPT")])
def test_appworld_names_what_the_shell_does_not_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: tuple[str, ...]
) -> None:
    monkeypatch.setenv("APPWORLD_PATH", str(tmp_path))
    monkeypatch.setenv("APPWORLD_SCRIPT", "x")
    for name in missing:
        monkeypatch.delenv(name)
    with pytest.raises(UsageError, match=f"{' and '.join(missing)} not set"):
        appworld(run_info(tmp_path))
