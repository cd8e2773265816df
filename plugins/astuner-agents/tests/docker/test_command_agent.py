"""Runs whose agent is a program in a container, over a real gateway, with a scripted engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from machine_image import IMAGE

from astuner.contract.errors import ConfigError, PluginError
from astuner_devkit.run_in_process import PlayedRun

CALLER = Path(__file__).with_name("model_caller.py")
Play = Callable[..., PlayedRun]
pytestmark = pytest.mark.usefixtures("any_daemon")


@pytest.fixture
def play(run: Callable[..., PlayedRun]) -> Play:
    """Plays one episode of a program, in a container with the options."""

    def start(command: str, agent: Mapping[str, Any] | None = None, **options: Any) -> PlayedRun:
        section = {"command": ["sh", "-c", command, "sh", "{query}"], "copy": {"model_caller.py": str(CALLER)}, **(agent or {})}
        settings = {
            "agent": section,
            "rollout": {"failure_budget": 1.0, "max_retries": 0},
            "sandbox": {"type": "docker", "docker": {"image": IMAGE, "warm": 0, **options}},
            "task_judge": {"judge_protocol": "astuner_devkit.judges:ExactAnswer"},
        }
        return run(workflow="astuner_agents:Command", replies=("4",), settings=settings)

    return start


def fail(played: PlayedRun) -> tuple[str, str]:
    [episode] = played.episodes
    assert episode.output is None
    return episode.failures[-1].reason, episode.failures[-1].detail


def test_a_program_is_played_judged_and_its_tokens_are_trained(play: Play) -> None:
    played = play('python3 model_caller.py "$1" | tee answer.txt', {"collect": ["*.txt"]})
    assert played.rewards == [1.0]
    [episode] = played.episodes
    assert episode.output is not None
    assert episode.output.metadata["files"] == {"answer.txt": "4\n"}
    [sample] = episode.samples
    assert sum(sample.mask) == len(episode.calls[0].output_ids)


@pytest.mark.parametrize(
    ("command", "agent", "options", "reason", "words"),
    [
        ("sleep 1000", {"timeout_s": 2.0}, {}, "timeout", "took longer than agent.timeout_s = 2 s"),
        ("while :; do echo flood; done", {"max_output_bytes": 9999}, {}, "workflow_error", "agent.max_output_bytes = 9999 bytes"),
        ("while :; do sleep 1000 & done", {}, {"max_processes": 20}, "workflow_error", "sandbox allows (max_processes)"),
        ("while :; do cat /usr/bin/* >> big; done", {}, {"max_disk_bytes": 10**7}, "workflow_error", "allows (max_disk_bytes)"),
        ("exit 3", {"nonzero_exit": "fail"}, {}, "workflow_error", "ended with exit code 3"),
        ("true", {"command": ["./none"]}, {}, "workflow_error", "cannot be started: No such file or directory: ./none"),
        ("true", {}, {"image": None}, "service_unavailable", "names no image (docker_image of its metadata)"),
    ],
)
def test_what_goes_wrong_fails_that_episode_with_the_reason(
    play: Play, command: str, agent: Any, options: Any, reason: str, words: str
) -> None:
    found, detail = fail(play(command, agent, **options))
    assert (found, words in detail) == (reason, True), detail


def test_an_exit_code_is_judged(play: Play) -> None:
    [episode] = play("echo no way out >&2; exit 3").episodes
    assert episode.output is not None
    assert (episode.output.metadata["exit_code"], episode.output.metadata["stderr"]) == (3, "no way out\n")


def test_a_program_that_is_not_there_stops_the_run_before_it_begins(play: Play) -> None:
    with pytest.raises(
        ConfigError, match=f"no program 'no-such-agent' on the PATH of the sandboxes; install it in the image {IMAGE}"
    ):
        play("", {"command": ["no-such-agent"]})


def test_an_image_that_is_not_there_stops_the_run_before_it_begins(play: Play) -> None:
    with pytest.raises(
        PluginError, match="the sandbox 'docker' cannot be used: the Docker daemon has no image none:1: docker pull"
    ):
        play("true", image="none:1", pull="never")


def test_a_neighbour_cannot_be_read(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("sesame")
    monkeypatch.setenv("SECRET", "sesame")
    [episode] = play(f"cat {tmp_path}/secret; cat /proc/*/environ; ls /work /home; touch /usr/x /etc/x").episodes
    assert episode.output is not None
    found = episode.output.metadata
    assert "sesame" not in found["final_answer"]
    assert os.path.basename(tmp_path) not in found["final_answer"]
