"""The step that asks for advisories says so where it cannot."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "audit_pins.py"


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs the script with a service, and the status that pip-audit would end with."""
    monkeypatch.setattr(sys, "argv", ["audit_pins.py"])

    def run(service: str | None, status: int = 0) -> tuple[int, list[list[str]]]:
        asked: list[list[str]] = []

        def pip_audit(command: list[str], **_: Any) -> SimpleNamespace:
            asked.append(Path(command[-1]).read_text(encoding="utf-8").split())
            return SimpleNamespace(returncode=status)

        monkeypatch.setattr(subprocess, "run", pip_audit)
        script = runpy.run_path(str(SCRIPT))
        script["main"].__globals__["find_service"] = lambda: service
        return script["main"](), asked

    return run


def test_without_an_index_nothing_is_said_to_be_clean(audit: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(None) == (0, [])
    assert "NOT AUDITED" in capsys.readouterr().out


@pytest.mark.parametrize("status", [0, 1])
def test_every_pin_is_asked_about_and_an_advisory_fails(audit: Any, status: int) -> None:
    found, asked = audit("osv", status)
    assert found == status
    # Those of the tests, and Trinity's lock.
    assert len(asked) >= 9
    assert min(map(len, asked)) >= 1
    assert all("==" in pin and "--hash" not in pin for pins in asked for pin in pins)
