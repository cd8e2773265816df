"""Runs whose agent is a program, over a real gateway, with a scripted engine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from astuner.contract.errors import ConfigError, PluginError
from astuner_agents.sandboxes.bubblewrap import BubblewrapSandboxes
from astuner_devkit.run_in_process import PlayedRun

CALLER = Path(__file__).with_name("caller.py")
COMMAND = "astuner_agents:Command"
Play = Callable[..., PlayedRun]


def can_use_bubblewrap() -> bool:
    try:
        BubblewrapSandboxes(BubblewrapSandboxes.Options()).check()
    except PluginError:
        return False
    return True


@pytest.fixture(params=["local", "bubblewrap"])
def sandbox(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap" and not can_use_bubblewrap():
        pytest.skip("bubblewrap cannot be used here")
    return str(request.param)


@pytest.fixture
def play(run: Callable[..., PlayedRun]) -> Play:
    """Plays one episode of `caller.py`; `agent` and `sandbox` are the sections of the YAML."""

    def start(
        reply: str = "4",
        agent: Mapping[str, Any] | None = None,
        sandbox: Mapping[str, Any] | None = None,
        *,
        rollout: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> PlayedRun:
        section = {"command": ["python3", "caller.py"], "copy": {"caller.py": str(CALLER)}, **(agent or {})}
        settings = {
            "agent": section,
            "rollout": {"failure_budget": 1.0, **(rollout or {})},
            "sandbox": sandbox or {"type": "local"},
            "task_judge": {"judge_protocol": "astuner_devkit.judges:ExactAnswer"},
        }
        return run(workflow=COMMAND, replies=(reply,), settings=settings, **given)

    return start


def metadata(played: PlayedRun) -> Mapping[str, Any]:
    [episode] = played.episodes
    assert episode.output is not None, episode.failures
    return episode.output.metadata


def failure(played: PlayedRun) -> tuple[str, str]:
    [episode] = played.episodes
    assert episode.output is None
    return episode.failures[-1].reason, episode.failures[-1].detail


def test_a_program_is_played_judged_and_its_tokens_are_trained(play: Play, sandbox: str) -> None:
    played = play("4", {"collect": ["*.txt"]}, {"type": sandbox})
    assert played.rewards == [1.0]
    assert metadata(played) == {"final_answer": "4", "exit_code": 0, "stderr": "", "files": {"answer.txt": "4"}}
    [sample] = played.episodes[0].samples
    assert sum(sample.mask) == len(played.episodes[0].calls[0].output_ids)


@pytest.mark.parametrize("prompt", ["argument", "stdin", "file"])
def test_the_task_reaches_the_program(play: Play, prompt: str) -> None:
    command = ["python3", "caller.py"] if prompt != "file" else ["sh", "-c", 'python3 caller.py "$(cat {prompt_file})"']
    played = play("4", {"command": command, "prompt": prompt})
    assert played.episodes[0].calls[0].messages[-1]["content"] == "What is 2 + 2?"


def test_values_are_quoted_in_a_command_line_for_the_shell(play: Play) -> None:
    query = 'it\'s; $(touch broken) `x` "y"\n{model}'
    played = play("4", {"command": "echo {query} && ls"}, tasks=[{"main_query": query, "answer": "4"}])
    assert metadata(played)["final_answer"] == f"{query}\ncaller.py"


def test_files_and_variables_hold_the_values_of_the_episode(play: Play) -> None:
    agent = {
        "command": ["sh", "-c", "cat ~/.conf; echo; echo $OWN; echo {task.level} {task.no}"],
        "prompt": "file",
        "files": {"~/.conf": '{"key": "{api_key}", "{other}": 1}'},
        "env": {"OWN": "{model} {home}"},
    }
    played = play("4", agent, tasks=[{"main_query": "q", "answer": "4", "level": 3}])
    conf, own, words = metadata(played)["final_answer"].splitlines()
    assert (conf[:9], conf[-16:]) == ('{"key": "', '", "{other}": 1}')
    assert "api_key" not in conf
    assert own.split()[1].endswith("/home")
    assert words == "3 {task.no}"


def test_an_exit_code_is_recorded_and_judged(play: Play, sandbox: str) -> None:
    played = play("exit", {}, {"type": sandbox})
    assert (metadata(played)["exit_code"], metadata(played)["stderr"]) == (3, "no way out\n")
    assert played.rewards == [0.0]


def test_an_exit_code_fails_the_episode_if_the_yaml_says_so(play: Play) -> None:
    reason, detail = failure(play("exit", {"nonzero_exit": "fail"}))
    assert reason == "workflow_error"
    assert detail.startswith("CommandFailed: the program ended with exit code 3; the end of its output: no way out")


def test_a_program_that_hangs_is_a_timeout(play: Play, sandbox: str) -> None:
    reason, detail = failure(play("hang", {"timeout_s": 5.0}, {"type": sandbox}))
    assert (reason, "the program took longer than agent.timeout_s = 5 s" in detail) == ("timeout", True)


@pytest.mark.parametrize(
    ("reply", "agent", "options", "words"),
    [
        ("flood", {"max_output_bytes": 100_000}, {}, "wrote more than agent.max_output_bytes = 100000 bytes"),
        ("fork", {}, {"max_processes": 10}, "started more processes than its sandbox allows (max_processes)"),
        ("fill", {}, {"max_disk_bytes": 10_000_000}, "took more room on disk than its sandbox allows (max_disk_bytes)"),
    ],
)
def test_a_limit_ends_the_episode_with_the_reason(
    play: Play, sandbox: str, reply: str, agent: Any, options: Any, words: str
) -> None:
    # `caller.py` catches nothing, so Python's own message about a full disk is an exit code without this.
    if reply == "fill":
        agent = {
            "command": ["sh", "-c", "python3 caller.py q & for i in 1 2 3 4 5; do head -c 4000000 /dev/zero > $i; done; wait"]
        }
        reply = "hang"
    reason, detail = failure(play(reply, agent, {"type": sandbox, sandbox: options}))
    assert (reason, words in detail) == ("workflow_error", True), detail


def test_a_program_that_is_not_there_stops_the_run_before_it_begins(play: Play, sandbox: str) -> None:
    with pytest.raises(ConfigError, match=r"astuner\.agent\.command: there is no program 'no-such-agent' on the PATH of the"):
        play("4", {"command": ["no-such-agent"]}, {"type": sandbox})


def test_a_file_that_is_not_there_fails_the_episode(play: Play, sandbox: str) -> None:
    reason, detail = failure(play("4", {"command": ["./no-such-agent"]}, {"type": sandbox}))
    assert (reason, "cannot be started: No such file or directory: ./no-such-agent" in detail) == ("workflow_error", True), detail


def test_a_program_that_is_not_shown_is_named_with_the_option(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_use_bubblewrap():
        pytest.skip("bubblewrap cannot be used here")
    (tmp_path / "own-agent").write_text("#!/bin/sh\n")
    (tmp_path / "own-agent").chmod(0o755)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{tmp_path}")
    with pytest.raises(
        ConfigError, match=r"own-agent is not shown in the sandbox 'bubblewrap': .* in astuner\.sandbox\.bubblewrap\."
    ):
        play("4", {"command": ["own-agent"]}, {"type": "bubblewrap"})


def test_a_preset_names_the_command_that_installs_it(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    if shutil.which("claude") is not None:
        pytest.skip("it is installed")
    with pytest.raises(ConfigError, match=r"no program 'claude' .*install it: npm install -g @anthropic-ai/claude-code"):
        play("4", {"command": [], "preset": "claude_code"})


@pytest.mark.parametrize(("targets", "untrained"), [(None, None), (["agent"], "frozen_agent"), (["agent", "side"], None)])
def test_the_calls_of_other_targets_can_be_left_out(play: Play, targets: list[str] | None, untrained: str | None) -> None:
    played = play("4", {"env": {"OPENAI_MODEL": "{model}@side"}, "trainable_targets": targets})
    [call] = played.episodes[0].calls
    assert (call.target_tag, call.untrained) == ("side", untrained)
    assert bool(played.episodes[0].samples) == (untrained is None)


def test_a_sandbox_that_cannot_start_is_the_reason(play: Play, sandbox: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reason, detail = failure(play("4", {}, {"type": sandbox, sandbox: {"directory": str(tmp_path / "file")}}))
    assert (reason, "no directory for a sandbox can be made" in detail) == ("service_unavailable", True)


def test_a_program_whose_last_call_failed_has_the_reason_of_the_call(play: Play) -> None:
    limit = {"command": "python3 caller.py {query}; python3 caller.py {query} || true"}
    reason, _ = failure(play("4", limit, rollout={"multi_turn": {"max_steps": 1}}))
    assert reason == "max_steps"


def test_nothing_is_left_of_a_run(play: Play, sandbox: str, tmp_path: Path) -> None:
    (tmp_path / "boxes").mkdir()
    options = {"directory": str(tmp_path / "boxes")}
    played = play("4", {"command": "(setsid sleep 1000 &) ; sleep 1000 & echo 4 #"}, {"type": sandbox, sandbox: options})
    assert played.rewards == [1.0]
    assert list((tmp_path / "boxes").iterdir()) == []
    assert [one for one in psutil.Process().children(recursive=True) if "sleep" in one.name()] == []


def test_a_neighbour_cannot_be_read(play: Play, tmp_path: Path) -> None:
    if not can_use_bubblewrap():
        pytest.skip("bubblewrap cannot be used here")
    (tmp_path / "secret").write_text("sesame")
    command = f"cat {tmp_path}/secret; cat /proc/1/environ; ls /root; id -u; touch /usr/x /etc/x #"
    found = metadata(play("4", {"command": command}, {"type": "bubblewrap"}))
    uid = "65534" if os.geteuid() == 0 else str(os.getuid())
    assert found["final_answer"].split()[-1] == uid
    assert "sesame" not in found["final_answer"]
    assert found["exit_code"] != 0
