from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def verl_yaml() -> Mapping[str, Any]:
    """verl 0.9.1's own configuration, as `python plugins/astuner-verl/tests/write_verl_yaml.py` wrote it."""
    found: Mapping[str, Any] = json.loads((HERE / "ppo_trainer.json").read_text())
    return found


@pytest.fixture
def native(verl_yaml: Mapping[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function from overrides (and text of a YAML) to the native configuration, without verl being installed."""
    from astuner.settings.config.loading import load_config
    from astuner.settings.config.native import Native, align
    from astuner_verl import alignment

    monkeypatch.setattr(alignment, "verl_defaults", lambda: copy.deepcopy(dict(verl_yaml)))

    def aligned(*overrides: str, text: str = "") -> Native:
        head = "astuner:\n  backbone: verl\n  model: {path: org/model}\n  rollout: {user_workflow: 'agent:Agent'}\n"
        (tmp_path / "run.yaml").write_text(head + text)
        return align(alignment.ALIGNMENT, load_config(tmp_path / "run.yaml", overrides))

    return aligned
