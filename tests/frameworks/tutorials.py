"""The agents of the tutorial, one folder per framework, and what a recorded conversation of theirs has to be."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.schema import Call
from astuner.contract.token_streams import stream_length

AGENTS = Path(__file__).parents[2] / "tutorial" / "agents"

OF_AGENTSCOPE_1 = "agentscope1"
"""AgentScope 1 and 2 are one distribution, so an environment has one of them: this is also the name of a pytest marker."""

NAMES = sorted(path.parent.name for path in AGENTS.glob("*/tune.yaml"))

FRAMEWORKS = [pytest.param(name, marks=[pytest.mark.agentscope1] if name == OF_AGENTSCOPE_1 else []) for name in NAMES]


def load_tutorial(name: str) -> Any:
    """Return the module `agent.py` of a framework."""
    spec = importlib.util.spec_from_file_location(f"tutorial_{name}", AGENTS / name / "agent.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Frameworks look annotations of tools up in the module that defines them.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def kept_whole(calls: Sequence[Call]) -> list[bool]:
    """Return of each call but the first whether it continues the one before, with every id of it."""
    return [(after.parent, after.kept) == (before.index, stream_length(before)) for before, after in pairwise(calls)]
