"""Each feature of AgentScope in the table of docs/coming_from/agentscope_tune.md plays as the table says."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.protocols import EpisodeIdentity
from astuner.contract.schema import Call
from astuner.episodes.builtin.trackers.timeline import TimelineTracker

PAGE = Path(__file__).parents[2] / "docs/coming_from/agentscope_tune.md"
PAUSE_S = 0.05
"""Between the tokens of an answer that is interrupted."""
IDENTITY = EpisodeIdentity(episode_id="e", task_id="t", repeat=0)


def read_table() -> dict[str, tuple[str, str]]:
    """Return the cells of each feature, for AgentScope 2 and 1."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Features, played\n")[2].partition("\n## ")[0]
    _, *rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", section, re.MULTILINE)
    return {name: (second, first) for name, second, first in rows}


def describe(calls: Sequence[Call]) -> str:
    """Return how often the model was called, in how many rows, and what is not trained."""
    tracked = TimelineTracker().samples(calls, IDENTITY)
    sampled = sum(len(call.output_ids) for call in calls)
    trained = sum(int(sample.mask.sum()) for sample in tracked.samples)
    assert trained + sum(tracked.untrained.values()) == sampled
    rows = len(tracked.samples)
    without = ", ".join(sorted(tracked.untrained))
    counts = f"{len(calls)} call{'s' * (len(calls) > 1)}, {rows} row{'s' * (rows > 1)}"
    return f"{counts}, all trained" if not without else f"{counts}, the rest {without}"


def list_features() -> list[Any]:
    """Return what the installed version has; each version is tested in an environment of its own."""
    try:
        number = version("agentscope")[0]
    except PackageNotFoundError:
        return []
    marks = [pytest.mark.agentscope1] if number == "1" else []
    module = importlib.import_module(f"agentscope_{number}_features")
    return [pytest.param(name, int(number), *module.FEATURES[name], id=name, marks=marks) for name in module.FEATURES]


FEATURES = list_features()


@pytest.mark.parametrize(("name", "number", "replies", "play"), FEATURES)
@pytest.mark.asyncio
async def test_a_feature_plays_as_its_row_says(
    playing: Callable[..., Any], tmp_path: Path, name: str, number: int, replies: tuple[str, ...], play: Any
):
    async with playing(replies, delay_s=PAUSE_S if "interrupted" in name else 0.0) as stage:
        text = await play(stage.recorder.tuner, tmp_path)
        calls = stage.recorder.calls
    assert text
    assert describe(calls) == read_table()[name][0 if number == 2 else 1]


@pytest.mark.parametrize(("place", "number"), [(0, 2), pytest.param(1, 1, marks=pytest.mark.agentscope1)])
def test_the_table_has_each_feature_and_no_other(place: int, number: int):
    named = {name for name, cells in read_table().items() if cells[place] != "–"}
    assert named == {param.id for param in FEATURES}
