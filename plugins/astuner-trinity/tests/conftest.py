from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.settings.config.loading import load_config
from astuner.settings.config.native import Native, align
from astuner_trinity.alignment import ALIGNMENT

HEAD = "astuner:\n  backbone: trinity\n  model: {path: org/model}\n  rollout: {user_workflow: 'agent:Agent'}\n"


@pytest.fixture
def native(tmp_path: Path) -> Callable[..., Native]:
    """Return a function from overrides (and text of a YAML) to the native configuration."""

    def aligned(*overrides: str, text: str = "") -> Native:
        (tmp_path / "run.yaml").write_text(HEAD + text)
        return align(ALIGNMENT, load_config(tmp_path / "run.yaml", overrides))

    return aligned


@pytest.fixture
def tree(native: Callable[..., Native]) -> Callable[..., dict[str, Any]]:
    """Return a function to the native configuration alone, in which nothing may be wrong."""

    def of(*overrides: str, text: str = "") -> dict[str, Any]:
        found = native(*overrides, text=text)
        assert found.problems == ()
        return dict(found.tree)

    return of
