"""The suite `gsm8k`: a file as GSM8K has them, judged by its final number."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from astuner_devkit.run_in_process import PlayedRun
from astuner_judges.gsm8k import choose_suite

ROWS = (
    {"question": "48 clips in April and half as many in May?", "answer": "48/2 = <<48/2=24>>24\n48+24 = 72\n#### 72"},
    {"question": "Two plus two?", "answer": "easy\n#### 4"},
)


def test_the_final_number_of_an_answer_is_compared(run: Callable[..., PlayedRun], tmp_path: Path) -> None:
    file = tmp_path / "test.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    chosen: dict[str, Any] = {**choose_suite(str(file)), "task_judge.judge_protocol": None}
    overrides = [f"{key}={json.dumps(value)}" for key, value in chosen.items()]
    played = run(replies=["In all that is 72."], overrides=[*overrides, "debug.debug_first_n_tasks=2"])
    assert {episode.task.main_query: episode.reward for episode in played.episodes} == {
        ROWS[0]["question"]: 1.0,
        ROWS[1]["question"]: 0.0,
    }
