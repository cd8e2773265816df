"""Runs the tests of a task where its agent has worked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import evolve, frozen

from astuner.contract.protocols import CommandResult, SandboxSession
from astuner.contract.schema import WorkflowOutput
from astuner_agents.task_folders.folder import TaskFolder
from astuner_agents.task_folders.playing.errors import VerificationFailed
from astuner_agents.task_folders.playing.needs import Play, resolve_variables
from astuner_agents.task_folders.playing.places import STAGE, Places
from astuner_agents.task_folders.playing.reward_files import choose_reward, read_rewards
from astuner_agents.task_folders.playing.verifier_output import parse_output

TESTS, LOGS = "/tests", "/logs/verifier"
REWARD_FILES = ("reward.json", "reward.txt")
"""The first that exists counts."""
PLAIN_S = 60.0
"""Longest time of the commands that are not the task's own."""
SAID_CHARS = 2000
EMPTY = (
    'tests="$1" logs="$2" stage="$3"; for one in "$tests" "$logs" "${logs%/*}" "$stage"; do [ -L "$one" ] && rm -f "$one"; done; '
    '[ "${tests#"$stage"}" = "$tests" ] && rm -rf "$stage"; '
    'rm -rf "$logs" "$tests"/* "$tests"/.[!.]* "$tests"/..?*; mkdir -p "$tests" "$logs" "${logs%/*}/artifacts"'
)
"""Removes what an agent has put where the tests and their reward belong."""
RUN = 'chmod +x "$1" 2>/dev/null; cd "${2:-.}" && "$1" 2>&1'
SHOW = 'cd "$1" && for one in "$2" "$3"; do if [ -f "$one" ]; then echo "$one"; head -c 65536 "$one"; exit 0; fi; done'


@frozen(kw_only=True)
class TaskVerdict:
    """What the tests say."""

    reward: float | None
    """None if they give several and none of them is the reward."""
    parts: Mapping[str, float]
    """Each number by its name."""
    output: str
    """The end of what they printed."""
    exit_code: int
    duration_s: float

    def add_to(self, output: WorkflowOutput) -> WorkflowOutput:
        """Return the output of an episode with the reward."""
        own = {"rewards": dict(self.parts), "tests_output": self.output, "tests_exit_code": self.exit_code}
        named = {f"reward/{name}": value for name, value in self.parts.items()}
        return evolve(
            output,
            reward=self.reward,
            is_success=None if self.reward is None else self.reward >= 1,
            metadata={**output.metadata, **own},
            log_metrics={**output.log_metrics, **named, "tests_s": self.duration_s},
        )


async def verify(play: Play, places: Places, session: SandboxSession) -> TaskVerdict:
    """Put the tests into the sandbox and run them; raises `VerificationFailed` if they give no reward."""
    folder = play.folder
    tests, logs = places.find(TESTS), places.find(LOGS)
    emptied = await session.run(["/bin/sh", "-c", EMPTY, "sh", tests, logs, f"{session.home}/{STAGE}"], timeout_s=PLAIN_S)
    if emptied.exit_code:
        raise VerificationFailed(f"{TESTS} and {LOGS} cannot be made empty{_quote(emptied)}")
    await places.put(session, list_tests(folder))
    result = await _run_tests(play, places, session)
    end = result.stdout[-SAID_CHARS:]
    if folder.format == "terminal-bench":
        passed = parse_output(folder.parser, result.stdout)
        parts = {"passed_tests": sum(passed.values()) / len(passed)}
        reward: float | None = float(all(passed.values()))
    else:
        parts = dict(await _read_rewards(session, logs, result))
        reward = choose_reward(parts)
    return TaskVerdict(reward=reward, parts=parts, output=end, exit_code=result.exit_code, duration_s=result.duration_s)


def list_tests(folder: TaskFolder) -> Mapping[str, Path]:
    """Return the files of the tests by their absolute path in a task's container."""
    root = Path(folder.directory)
    files = list_files(root / folder.tests, TESTS) if folder.tests else {}
    if folder.format == "terminal-bench":
        files[f"{TESTS}/{folder.test_script}"] = root / folder.test_script
    return files


def list_files(directory: Path, target: str) -> dict[str, Path]:
    """Return the files below a directory, by their path below `target`."""
    return {f"{target}/{path.relative_to(directory).as_posix()}": path for path in sorted(directory.rglob("*")) if path.is_file()}


async def _run_tests(play: Play, places: Places, session: SandboxSession) -> CommandResult:
    folder = play.folder
    script = places.find(f"{TESTS}/{Path(folder.test_script).name}")
    env = {**play.env, **resolve_variables(folder.verifier_environment)}
    if folder.format == "terminal-bench":
        env["TEST_DIR"] = places.find(TESTS)
    words = ["/bin/sh", "-c", RUN, "sh", script, places.find(play.workdir or "")]
    result = await session.run(words, env=env, timeout_s=folder.verifier_timeout_s)
    if result.timed_out:
        limit = "verifier.timeout_sec" if folder.format == "harbor" else "max_test_timeout_sec"
        raise VerificationFailed(f"the tests took longer than {limit} = {folder.verifier_timeout_s:g} s{_quote(result)}")
    if result.killed_by is not None:
        raise VerificationFailed(f"the tests were ended by a limit of the sandbox ({result.killed_by}){_quote(result)}")
    return result


async def _read_rewards(session: SandboxSession, logs: str, result: CommandResult) -> Mapping[str, float]:
    shown = await session.run(["/bin/sh", "-c", SHOW, "sh", logs, *REWARD_FILES], timeout_s=PLAIN_S)
    name, _, text = shown.stdout.partition("\n")
    if name not in REWARD_FILES:
        missing = f"wrote no {' or '.join(REWARD_FILES)} into {LOGS}"
        raise VerificationFailed(f"the tests ended with exit code {result.exit_code} and {missing}{_quote(result)}")
    return read_rewards(name, text)


def _quote(result: CommandResult) -> str:
    said = (result.stdout.strip() or result.stderr.strip())[-SAID_CHARS:]
    return f"; the end of their output: {said}" if said else ""
