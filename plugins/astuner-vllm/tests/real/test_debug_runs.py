"""Debug runs with a real server: it stays, is found again, and ends when it is told to."""

from __future__ import annotations

from typing import Any

from astuner.shared.processes import free_port, list_programs

WARM = "uses the vLLM server that was kept"


def test_the_next_debug_run_finds_the_server_of_the_last_one(project: Any) -> None:
    settings = [f"--set=debug.debug_vllm_port={free_port()}", "--set=debug.debug_first_n_tasks=1", "--set=rollout.num_repeat=2"]

    def debug(*more: str) -> str:
        done = project.cli("run", "--conf", "tune.yaml", "--backbone=debug", "--set=rollout.name=vllm", *settings, *more)
        assert done.returncode == 0, done.stderr
        return str(done.stdout + done.stderr)

    try:
        assert WARM not in debug()
        [kept] = list_programs()
        assert WARM in debug()
        assert [record.program for record in list_programs()] == [kept.program]
        assert project.cli("stop", kept.name).returncode == 0
        assert list_programs() == []
    finally:
        project.cli("stop", "--all")
