"""What holds for every test of the repository."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("hypothesis") is not None:
    from hypothesis import HealthCheck, settings

    # How long an example takes says something of the machine and its other work, and nothing of the code.
    settings.register_profile("astuner", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("astuner")

# Taken away, so that no pytest that a test starts counts too.
COUNTS = os.environ.pop("ASTUNER_CI_COUNTS", None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Let `.ci/run` know how many tests have passed in an environment of tox."""
    if COUNTS:
        with Path(COUNTS).open("a", encoding="utf-8") as file:
            file.write(f"tests of {os.environ['TOX_ENV_NAME']}: {len(terminalreporter.getreports('passed'))}\n")
