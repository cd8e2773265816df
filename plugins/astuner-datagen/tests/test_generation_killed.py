"""A generation that is killed in the middle goes on from there: no answer that had come is asked for again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from astuner_devkit.scripted_api import ScriptedApi


def test_kill_9_loses_nothing_that_was_answered(
    llm: ScriptedApi, small: Any, like_samples: Any, tmp_path: Path, author: Callable[..., str]
) -> None:
    section = {"document_reader": small, "query_reader": like_samples, "task_num": 12, "num_workers": 1}
    reader = {"type": "data_generation", "data_generation": section}
    conf = tmp_path / "tune.yaml"
    run = {"model": {"path": "no/model"}, "rollout": {"user_workflow": "astuner_devkit.workflows:OneTurn"}}
    conf.write_text(yaml.safe_dump({"astuner": {**run, "task_reader": reader}}))
    command = [sys.executable, "-m", "astuner", "data", "generate", "--conf", str(conf), "--json"]
    reached, release = threading.Event(), threading.Event()

    def stops_at_the_seventh(body: Mapping[str, Any], number: int) -> str:
        if number == 6:
            reached.set()
            release.wait(30)
        return author(body, number)

    llm.script = stops_at_the_seventh
    first = subprocess.Popen(command, cwd=tmp_path, env=os.environ, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        assert reached.wait(60)
        os.kill(first.pid, signal.SIGKILL)
        assert first.wait(30) == -signal.SIGKILL
    finally:
        release.set()
    answered = [json.dumps(body["messages"]) for body in llm.bodies[:6]]

    second = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=120, check=False)
    assert second.returncode == 0, second.stderr
    asked = [json.dumps(body["messages"]) for body in llm.bodies[6:]]
    assert not set(answered) & set(asked)
    # The one that was under way has been sent again, and no other.
    assert len(asked) - len(set(asked)) == 1

    third = subprocess.run(command, cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=120, check=False)
    assert json.loads(third.stdout) == json.loads(second.stdout)
    assert len(llm.bodies) == 6 + len(asked)
    assert not list(tmp_path.rglob("*.part"))
