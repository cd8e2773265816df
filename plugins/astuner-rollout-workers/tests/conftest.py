from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit import PlayedRun

WORLD = Path(__file__).with_name("seeded_world.py")
TASKS = [
    {"task_id": f"t{number}", "main_query": f"Say {number}.", "what": {1: "raises", 2: "retried"}.get(number)}
    for number in range(6)
]


@pytest.fixture
def world(run: Any, tmp_path: Path) -> Callable[..., PlayedRun]:
    """Play six tasks of three siblings with a number of workers, in a world of its own next to the YAML."""
    shutil.copy(WORLD, tmp_path / "world.py")

    def play(
        workers: int | str,
        workflow: str = "TwoTurns",
        engine: str = "SeededEngine",
        backbone: str = "debug",
        more: Any = None,
        **rollout: Any,
    ) -> PlayedRun:
        settings: dict[str, Any] = {
            "task_judge": {"judge_protocol": rollout.pop("judge", "./world.py:LastDigit")},
            "rollout": {"name": f"./world.py:{engine}", "num_repeat": 3, "players": workers, **rollout},
            "debug": {"debug_max_parallel": 4},
            "data": {"train_batch_size": 6},
            **(more or {}),
        }
        played: PlayedRun = run(tasks=TASKS, workflow=f"./world.py:{workflow}", settings=settings, backbone=backbone)
        return played

    return play
