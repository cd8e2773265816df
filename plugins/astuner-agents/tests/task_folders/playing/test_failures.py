"""A task that cannot be played, or whose tests give no reward, fails its episode with the reason."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from astuner.contract.errors import DataError
from astuner_devkit.run_in_process import PlayedRun

PlayFolders = Callable[..., PlayedRun]
REWARD = "/logs/verifier/reward"


def fail(play_folders: PlayFolders, tasks: Path, name: str = "hello-file", **given: object) -> tuple[str, str]:
    [episode] = play_folders(tasks, name, **given).episodes
    assert (episode.output, episode.reward) == (None, None)
    return episode.failures[-1].reason, episode.failures[-1].detail


NO_REWARD = {
    "exits": ("echo broken; exit 7", "the tests ended with exit code 7 and wrote no reward.json or reward.txt"),
    "silent": ("echo broken", "into /logs/verifier; the end of their output: broken"),
    "nan": (f"echo nan > {REWARD}.txt", "the tests wrote nan into reward.txt, which must be a finite number"),
    "words": (f"echo well done > {REWARD}.txt", "the tests wrote 'well done' into reward.txt, which must be a number"),
    "empty": (f": > {REWARD}.txt", "the tests wrote an empty reward.txt"),
    "json-nan": (
        f"echo '{{\"a\": NaN}}' > {REWARD}.json",
        "the tests wrote nan as 'a' into reward.json; it must be a finite number",
    ),
    "json-list": (f"echo '[1]' > {REWARD}.json", "into reward.json, which must be numbers by name"),
    "json-broken": (f"echo '{{' > {REWARD}.json", "the tests wrote a reward.json that is not valid JSON"),
    "pipe": (f"mkfifo {REWARD}.json", "wrote no reward.json or reward.txt"),
    "folder": (f"mkdir {REWARD}.txt", "wrote no reward.json or reward.txt"),
    "flood": ("yes", "the tests were ended by a limit of the sandbox (output)"),
}


def test_tests_without_a_reward_are_not_a_reward_of_zero(play_folders: PlayFolders, tasks: Path, kind: str) -> None:
    for name, (script, _) in NO_REWARD.items():
        shutil.copytree(tasks / "hello-file", tasks / "bad" / name)
        (tasks / "bad" / name / "tests" / "test.sh").write_text(f"{script}\n")
    episodes = {episode.task.task_id: episode for episode in play_folders(tasks / "bad", kind=kind).episodes}
    for name, (_, words) in NO_REWARD.items():
        [failure] = episodes[name].failures
        assert (episodes[name].reward, failure.reason) == (None, "workflow_error")
        assert failure.detail.startswith("VerificationFailed: the tests ")
        assert words in failure.detail
        assert "Traceback" not in failure.detail


def test_tests_that_hang_name_the_limit(play_folders: PlayFolders, tasks: Path, kind: str) -> None:
    (tasks / "hello-file" / "tests" / "test.sh").write_text(f"echo 1 > {REWARD}.txt; echo begun; sleep 1000\n")
    toml = tasks / "hello-file" / "task.toml"
    toml.write_text(toml.read_text().replace("timeout_sec = 60.0", "timeout_sec = 1.0"))
    reason, detail = fail(play_folders, tasks, kind=kind)
    assert reason == "workflow_error"
    assert "the tests took longer than verifier.timeout_sec = 1 s; the end of their output: begun" in detail


@pytest.mark.parametrize("script", ["echo passed", "echo '=== short test summary info ==='; echo nothing"])
def test_output_without_a_summary_is_not_a_reward(play_folders: PlayFolders, tasks: Path, script: str) -> None:
    (tasks / "old-hello" / "run-tests.sh").write_text(f"{script}\n")
    assert "VerificationFailed: the " in fail(play_folders, tasks, "old-hello")[1]


NEEDS_IMAGE = {
    "RUN apt-get update": "it needs its image (environment/Dockerfile, line 5: RUN apt-get update): choose docker in",
    "COPY --from=build /a /a": "line 5: COPY --from=build /a /a",
    "COPY nothing .": "line 5: COPY nothing .",
    "ADD https://example.com/a .": "line 5: ADD https://example.com/a .",
    "WORKDIR /": "its commands start in /, which only a container has: choose docker in",
}


def refuse(play_folders: PlayFolders, path: Path, **given: object) -> str:
    with pytest.raises(DataError, match=r"^tasks cannot be played:\n") as caught:
        play_folders(path, **given)
    return str(caught.value)


def test_all_tasks_that_need_their_image_are_refused_before_the_run(play_folders: PlayFolders, tasks: Path, kind: str) -> None:
    for number, line in enumerate(NEEDS_IMAGE):
        file = Path(shutil.copytree(tasks / "hello-file", tasks / "bad" / str(number))) / "environment" / "Dockerfile"
        file.write_text(f"{file.read_text()}\n{line}\n")
    _, *lines = refuse(play_folders, tasks, kind=kind).splitlines()
    assert len(lines) == len(NEEDS_IMAGE)
    for number, (words, line) in enumerate(zip(NEEDS_IMAGE.values(), lines, strict=True)):
        assert line.startswith(f"{tasks}/bad/{number}: ")
        assert words in line
        assert line.endswith("astuner.sandbox.type; or leave the task out with `exclude`")


def test_a_long_list_is_cut(play_folders: PlayFolders, tasks: Path) -> None:
    (tasks / "hello-file" / "environment" / "Dockerfile").write_text("FROM a\nRUN b\n")
    for number in range(14):
        shutil.copytree(tasks / "hello-file", tasks / "bad" / str(number))
    assert refuse(play_folders, tasks / "bad", workflow="astuner_agents.harbor:Oracle").endswith("`exclude`\nand 4 more")


def test_a_split_that_is_left_out_is_not_checked(play_folders: PlayFolders, tasks: Path) -> None:
    (tasks / "fix-mean" / "environment" / "Dockerfile").write_text("FROM a\nRUN b\n")
    assert len(play_folders(tasks, "hello-file").episodes) == 1


def test_several_containers_are_refused(play_folders: PlayFolders, tasks: Path) -> None:
    (tasks / "hello-file" / "environment" / "docker-compose.yaml").write_text("services: {main: {}, database: {}}\n")
    assert "it needs several containers: main, database; or leave the task out" in refuse(play_folders, tasks)


def test_tests_in_a_separate_container_are_refused(play_folders: PlayFolders, tasks: Path) -> None:
    toml = tasks / "hello-file" / "task.toml"
    toml.write_text(toml.read_text().replace("[verifier]", "[verifier]\nenvironment_mode = 'separate'"))
    assert "its tests run in a separate container, which is not supported" in refuse(play_folders, tasks)


def test_a_variable_that_this_machine_lacks_is_named(play_folders: PlayFolders, tasks: Path) -> None:
    toml = tasks / "hello-file" / "task.toml"
    toml.write_text(f"{toml.read_text()}env = {{ KEY = '${{NO_SUCH_VARIABLE_HERE}}' }}\n")
    words = "hello-file: it needs the environment variable NO_SUCH_VARIABLE_HERE (as KEY): set it; or leave the task out"
    assert words in refuse(play_folders, tasks)


def test_files_that_belong_outside_of_what_bubblewrap_owns_are_refused(play_folders: PlayFolders, tasks: Path) -> None:
    file = tasks / "hello-file" / "environment" / "Dockerfile"
    file.write_text(f"{file.read_text()}COPY motd /etc/motd\n")
    (file.parent / "motd").write_text("hello\n")
    detail = fail(play_folders, tasks, kind="bubblewrap")[1]
    assert "the sandbox 'bubblewrap' cannot show a separate directory at /etc" in detail


def test_tasks_of_another_reader_are_refused(tmp_path: Path) -> None:
    from astuner.contract.schema import Task
    from astuner_agents.sandboxes.local import LocalSandboxes
    from astuner_agents.task_folders.playing.errors import TaskNotPlayable
    from astuner_agents.task_folders.playing.workflow import plan_task

    sandboxes = LocalSandboxes(LocalSandboxes.Options())
    with pytest.raises(TaskNotPlayable, match=r"read the tasks with task_reader\.type: harbor"):
        plan_task(Task(task_id="a", main_query="b"), sandboxes)
    gone = Task(task_id="a", metadata={"harbor": {"directory": str(tmp_path / "gone")}})
    with pytest.raises(TaskNotPlayable, match="is not a task folder"):
        plan_task(gone, sandboxes)
