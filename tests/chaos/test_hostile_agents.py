"""Whatever an agent or a judge does costs its own episode, and the run ends in order."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
from harness import SMALL
from python_server import PythonServer
from runs_on_disk import metric_rows
from supervised_run import Ended, Supervisor

from astuner.contract.schema import Episode, Unjudged
from astuner.runs.store.episode_store import read_episodes

HERE = Path(__file__).parent
SETTINGS = (
    *SMALL,
    "--set=trainer_common.total_training_steps=1",
    "--set=data.train_batch_size=2",
    "--set=rollout.max_env_worker=4",
)
EPISODES = 8
HOSTILE = 2

TIMEOUT_S = {"async": 3, "thread": 3, "process": 120}
"""Of an episode; the first in a process waits for its start."""

FAILS = "workflow_error"
AGENTS: Mapping[str, str] = {
    "raises_value_error": FAILS,
    "raises_base_exception": FAILS,
    "leaks_a_cancellation": FAILS,
    "exits": FAILS,
    "exits_as_argparse_does": FAILS,
    "raises_generator_exit": FAILS,
    "raises_keyboard_interrupt": FAILS,
    "raises_stop_iteration": FAILS,
    "recurses": FAILS,
    "cancels_itself": FAILS,
    "returns_nothing": FAILS,
    "returns_a_mapping": FAILS,
    "returns_half_an_emoji": "",
    "returns_numpy": "",
    "returns_objects": "",
    "returns_itself": "",
    "returns_a_deep_list": "",
    "returns_metrics_that_are_none": "",
    "returns_a_huge_reward": FAILS,
    "returns_a_reward_that_is_not_a_number": FAILS,
    "returns_twenty_megabytes": "",
    "sleeps_for_ever": "timeout",
    "swallows_cancellation": "timeout",
    "leaves_threads": "",
    "leaves_a_child": "",
    "leaves_a_daemon": "",
    "leaves_a_task": "",
    "closes_stdout": "",
    "changes_directory": "",
    "clears_the_environment": "",
    "ignores_signals": "",
    "turns_gradients_off": "",
    "seeds_everything": "",
    "prints_a_lot": "",
}
"""The reason for the failure of the hostile episodes; "" if they count as any other."""

IN_A_THREAD = ("leaks_a_cancellation", "exits", "raises_keyboard_interrupt", "swallows_cancellation", "leaves_threads")
IN_A_PROCESS = (
    "leaks_a_cancellation",
    "exits",
    "raises_keyboard_interrupt",
    "leaves_threads",
    "ends_the_process",
    "closes_stderr",
    "leaves_a_child",
)

IN_A_PROCESS_ALONE = {"ends_the_process": FAILS, "closes_stderr": ""}

QUIET_AGENTS = [deed for deed in AGENTS if deed.startswith("returns_") and deed != "returns_twenty_megabytes"]
QUIET_AGENTS += ["raises_value_error", "raises_generator_exit", "raises_stop_iteration"]
"""Those that leave nothing behind and share one run, as siblings."""

CASES = [
    *(("async", deed) for deed in AGENTS if deed not in QUIET_AGENTS),
    *(("thread", deed) for deed in IN_A_THREAD),
    *(("process", deed) for deed in IN_A_PROCESS),
]

JUDGES: Mapping[str, str] = {
    "raises": "judge_error",
    "exits": "judge_error",
    "leaks_a_cancellation": "judge_error",
    "raises_base_exception": "judge_error",
    "not_a_number": "bad_verdict",
    "infinite": "bad_verdict",
    "huge": "bad_verdict",
    "text": "bad_verdict",
    "nothing": "abstained",
    "three": "bad_verdict",
    "numpy": "",
    "half_an_emoji": "",
}
"""The reason why the hostile episodes have no verdict; "" if they have one."""
QUIET_JUDGES = [deed for deed in JUDGES if deed not in ("exits", "leaks_a_cancellation", "raises_base_exception")]

Play = Callable[[str, Sequence[str]], Sequence[Episode]]
AGENT = "--set=rollout.user_workflow=./hostile_agent.py:HostileAgent"
JUDGE = "--set=task_judge.judge_protocol=./hostile_judge.py:HostileJudge"


@pytest.fixture
def supervisor(project: Path, python_server: PythonServer) -> Supervisor:
    return supervise(project, python_server)


def supervise(project: Path, python_server: PythonServer) -> Supervisor:
    for name in ("hostile_agent.py", "hostile_judge.py"):
        shutil.copy(HERE / name, project)
    return Supervisor(python_server, project)


@pytest.fixture(scope="module")
def play_siblings(quickstart: Path, python_server: PythonServer, tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Play deeds as siblings of one group, once: `play_siblings(AGENT, deeds)`."""

    @cache
    def play(who: str, deeds: tuple[str, ...]) -> Sequence[Episode]:
        home = tmp_path_factory.mktemp("siblings") / "project"
        shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("model", "launcher_record"))
        (home / "model").symlink_to(quickstart / "model")
        supervisor = supervise(home, python_server)
        siblings = (f"--set=rollout.num_repeat={len(deeds) + 1}", "--set=rollout.failure_budget=0.9")
        check_end(supervisor.run(*SETTINGS, who, *siblings, env={"HOSTILE": ",".join(deeds)}))
        assert len(metric_rows(supervisor.directory)) == 1
        return list(read_episodes(supervisor.directory / "episodes", "train"))

    return lambda who, deeds: play(who, tuple(deeds))


def check_end(ended: Ended, code: int = 0) -> None:
    assert ended.code == code, ended.said[-4000:]
    assert not re.search("^Traceback", ended.said, re.MULTILINE), ended.said[-4000:]
    assert ended.left == []


@pytest.mark.parametrize(("isolation", "deed"), CASES)
def test_what_an_agent_does_costs_its_own_episode(supervisor: Supervisor, isolation: str, deed: str) -> None:
    where = (f"--set=rollout.isolation={isolation}", f"--set=rollout.episode_timeout_s={TIMEOUT_S[isolation]}")
    ended = supervisor.run(*SETTINGS, AGENT, *where, env={"HOSTILE": deed})
    check_end(ended)
    episodes = list(read_episodes(supervisor.directory / "episodes", "train"))
    assert len(episodes) == EPISODES
    reason = AGENTS.get(deed, IN_A_PROCESS_ALONE.get(deed, FAILS))
    failed = {episode.repeat: episode.failures[-1].reason for episode in episodes if not episode.completed}
    assert failed == ({0: reason} if reason else {}), [episode.failures for episode in episodes]
    assert len(metric_rows(supervisor.directory)) == 1


@pytest.mark.parametrize("deed", QUIET_AGENTS)
def test_what_an_agent_returns_or_raises_costs_its_own_episode(play_siblings: Play, deed: str) -> None:
    episodes = play_siblings(AGENT, QUIET_AGENTS)
    assert len(episodes) == HOSTILE * (len(QUIET_AGENTS) + 1)
    failed = [episode.failures[-1].reason for episode in find_siblings(episodes, QUIET_AGENTS, deed) if not episode.completed]
    assert failed == ([AGENTS[deed]] * HOSTILE if AGENTS[deed] else [])
    assert all(episode.completed for episode in episodes if episode.repeat == len(QUIET_AGENTS))


@pytest.mark.parametrize("deed", QUIET_JUDGES)
def test_what_a_judge_answers_or_raises_costs_its_own_episode(play_siblings: Play, deed: str) -> None:
    episodes = play_siblings(JUDGE, QUIET_JUDGES)
    verdicts = [episode.verdict for episode in find_siblings(episodes, QUIET_JUDGES, deed)]
    unjudged = [verdict.reason for verdict in verdicts if isinstance(verdict, Unjudged)]
    assert unjudged == ([JUDGES[deed]] * HOSTILE if JUDGES[deed] else [])
    assert not any(isinstance(episode.verdict, Unjudged) for episode in episodes if episode.repeat == len(QUIET_JUDGES))


def find_siblings(episodes: Sequence[Episode], deeds: Sequence[str], deed: str) -> Sequence[Episode]:
    return [episode for episode in episodes if episode.repeat == deeds.index(deed)]


@pytest.mark.parametrize("deed", [deed for deed in JUDGES if deed not in QUIET_JUDGES])
def test_what_a_judge_does_costs_its_own_episode(supervisor: Supervisor, deed: str) -> None:
    check_end(supervisor.run(*SETTINGS, JUDGE, env={"HOSTILE": deed}))
    episodes = list(read_episodes(supervisor.directory / "episodes", "train"))
    unjudged = {e.repeat: e.verdict.reason for e in episodes if isinstance(e.verdict, Unjudged)}
    assert unjudged == ({0: JUDGES[deed]} if JUDGES[deed] else {})


@pytest.mark.parametrize(
    ("judge", "unjudged", "says"),
    [
        ("HostileJudge", {0}, "gave no verdict within 3 s; it was at hostile_judge.py:"),
        ("HostileComparison", {0, 1, 2, 3}, "judge HostileComparison: no answer within 3 s; it was at hostile_judge.py:"),
    ],
)
def test_a_judge_that_hangs_is_named_after_its_time_and_counted(
    supervisor: Supervisor, judge: str, unjudged: set[int], says: str
) -> None:
    settings = (f"--set=task_judge.judge_protocol=./hostile_judge.py:{judge}", "--set=task_judge.timeout_s=3")
    check_end(supervisor.run(*SETTINGS, *settings, env={"HOSTILE": "hangs"}))
    episodes = read_episodes(supervisor.directory / "episodes", "train")
    found = {e.repeat: e.verdict for e in episodes if isinstance(e.verdict, Unjudged)}
    assert {verdict.reason for verdict in found.values()} == {"judge_timeout"}
    assert found.keys() == unjudged
    assert all(says in verdict.detail for verdict in found.values())
    (row,) = metric_rows(supervisor.directory)
    assert row["signal/lost/judge_timeout"] == (HOSTILE if judge == "HostileJudge" else EPISODES // HOSTILE)


def test_a_judge_that_crashes_its_process_is_named_and_the_next_attempt_says_that_it_happened(supervisor: Supervisor) -> None:
    ended = supervisor.run(*SETTINGS, JUDGE, env={"HOSTILE": "crashes"})
    assert ended.code == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in ended.said
    assert "hostile_judge.py" in ended.said
    assert ended.left == []
    resumed = supervisor.run(*SETTINGS, JUDGE, "--resume", env={"HOSTILE": "nothing_odd"})
    check_end(resumed)
    assert "the last attempt was killed" in resumed.said


def test_an_agent_that_ends_the_process_does_not_look_like_success(supervisor: Supervisor) -> None:
    ended = supervisor.run(*SETTINGS, AGENT, env={"HOSTILE": "ends_the_process"})
    assert (ended.code != 0) or any(not e.completed for e in read_episodes(supervisor.directory / "episodes", "train"))
    assert ended.left == []
