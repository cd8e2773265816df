"""Environments of one's own, served by path with tasks from a file, and what happens to those that misbehave."""

from __future__ import annotations

import json
import shutil
import signal
import time
from pathlib import Path

import pytest

from astuner.testing.command_line import run_command
from astuner.testing.waiting import until

ROWS = {
    "train.jsonl": [
        {"task_id": "a", "main_query": "play"},
        {"task_id": "b", "main_query": "broken"},
        {"task_id": "c", "main_query": "slow"},
    ],
    "held.jsonl": [{"id": 7, "question": "hold"}],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    shutil.copy(Path(__file__).with_name("odd_worlds.py"), home)
    for name, rows in ROWS.items():
        (home / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return home


@pytest.fixture(scope="module")
def odd(serve, home):
    limits = ("--step-timeout-s", "3", "--memory-mb", "512")
    return serve("--env", "./odd_worlds.py:Odd", "--tasks", "train=train.jsonl", "--tasks", "dev=held.jsonl", *limits, cwd=home)


@pytest.fixture
def instance_id(odd):
    begun = odd.data("create", task_id="a")
    yield begun["info"]["instance_id"]
    odd.post("release", instance_id=begun["info"]["instance_id"])
    assert odd.processes() == []


def step(server, instance_id, content):
    return server.post("step", instance_id=instance_id, messages={"role": "assistant", "content": content})


def test_tasks_come_from_files_under_the_names_of_their_splits(odd):
    assert odd.data("get_env_profile", params={"split": "train"}) == ["a", "b", "c"]
    assert odd.data("get_env_profile", params={"split": "dev"}) == ["7"]
    assert odd.post("get_env_profile", params={"split": "test"}).json()["detail"].endswith("there are train, dev")
    assert odd.post("create", task_id="d").json()["detail"].endswith("has no task 'd' in its files")
    begun = odd.data("create", task_id="7")
    assert begun["state"] == [{"role": "user", "content": "hold"}]
    odd.post("release", instance_id=begun["info"]["instance_id"])


def test_each_instance_is_a_process(odd):
    ids = [odd.data("create", task_id="a")["info"]["instance_id"] for _ in range(2)]
    pids = {step(odd, one, "who").json()["data"]["state"][0]["content"] for one in ids}
    assert pids == {str(process.pid) for process in odd.processes()}
    assert len(pids) == 2
    for one in ids:
        odd.post("release", instance_id=one)


def test_an_environment_that_raises_is_answered_500_in_one_line_and_goes_on(odd, instance_id):
    answer = step(odd, instance_id, "raise")
    assert answer.status_code == 500
    assert "step raised ValueError: the world broke (odd_worlds.py:" in answer.json()["detail"]
    assert "Traceback" not in answer.text
    assert "ValueError: the world broke" in odd.said
    assert step(odd, instance_id, "on").json()["data"]["info"] == {"said": "on"}


@pytest.mark.parametrize("content", ["nan", "odd info"])
def test_what_is_no_json_is_the_environments_failure(odd, instance_id, content):
    assert step(odd, instance_id, content).status_code == 500
    assert step(odd, instance_id, "on").status_code == 200


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("sleep", "step took longer than 3 s, so its process was ended"),
        ("exit", "its process has ended (exit status 3)"),
    ],
)
def test_an_instance_that_is_lost_says_why_then_and_later(odd, instance_id, content, said):
    answer = step(odd, instance_id, content)
    assert (answer.status_code, said in answer.json()["detail"]) == (500, True), answer.text
    later = step(odd, instance_id, "on")
    assert (later.status_code, said in later.json()["detail"]) == (400, True), later.text


def test_processor_time_is_limited(serve, home):
    server = serve("--env", "./odd_worlds.py:Odd", "--tasks", "train=train.jsonl", "--cpu-s", "1", cwd=home)
    answer = step(server, server.data("create", task_id="a")["info"]["instance_id"], "spin")
    assert (answer.status_code, "used up its 1 s of processor time" in answer.json()["detail"]) == (500, True), answer.text
    assert server.processes() == []


def test_memory_is_limited_and_the_server_lives_on(odd, instance_id):
    answer = step(odd, instance_id, "eat")
    assert (answer.status_code, "MemoryError" in answer.json()["detail"]) == (500, True)
    assert step(odd, instance_id, "on").status_code == 200


def test_what_an_environment_prints_is_no_answer(odd, instance_id):
    assert step(odd, instance_id, "print").status_code == 200
    until(lambda: "hello from the world" in odd.said)


def test_an_environment_has_one_score_where_it_tells_no_sparse_one_apart(odd, instance_id):
    scores = [odd.data("evaluate", instance_id=instance_id, params={"sparse": sparse}) for sparse in (True, False)]
    assert scores == [0.5, 0.5]


def test_an_instance_that_cannot_begin_leaves_nothing(odd):
    before = odd.accounts()
    assert "reset raised RuntimeError: it cannot begin" in odd.post("create", task_id="b").json()["detail"]
    assert "begin took longer than 3 s" in odd.post("create", task_id="c").json()["detail"]
    assert odd.accounts()["refused"] == before.get("refused", 0) + 2
    assert odd.processes() == []


def test_an_environment_is_closed_when_it_is_released(odd):
    before = odd.said.count("closed a")
    odd.post("release", instance_id=odd.data("create", task_id="a")["info"]["instance_id"])
    until(lambda: odd.said.count("closed a") == before + 1)


def test_a_busy_instance_is_released_at_once(odd):
    import threading

    instance_id = odd.data("create", task_id="a")["info"]["instance_id"]
    answers = []
    stepping = threading.Thread(target=lambda: answers.append(step(odd, instance_id, "sleep")))
    stepping.start()
    time.sleep(0.2)
    assert odd.post("release", instance_id=instance_id).json()["success"]
    stepping.join()
    assert (answers[0].status_code, "it was released" in answers[0].json()["detail"]) == (500, True)
    assert odd.processes() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--env", "nope"], "no environment 'nope'; installed: "),
        (["--env", "countdown", "--env", "countdown"], "names one environment twice"),
        (["--env", "countdown", "--set", "attempt=3"], "Did you mean 'attempts'?"),
        (["--env", "countdown", "--set", "attempts=many"], "attempts"),
        (["--env", "countdown", "--set", "other.attempts=3"], "write [NAME.]KEY=VALUE, with NAME one of countdown"),
        (["--env", "countdown", "--tasks", "train=nowhere.jsonl"], "there is no file nowhere.jsonl"),
        (["--env", "./odd_worlds.py:Odd"], "lists no tasks (it has no `list_tasks`): give them by --tasks"),
        (["--env", "./odd_worlds.py:Even"], "Even"),
        (["--env", "countdown", "--host", "203.0.113.1"], "cannot listen on 203.0.113.1"),
    ],
)
def test_what_cannot_be_served_is_refused_with_exit_code_2_or_1(home, arguments, said):
    result = run_command("env", "serve", "--port", "0", *arguments, cwd=home)
    assert result.code in (1, 2)
    assert said in result.err, result.err
    assert "Traceback" not in result.err


def test_a_port_that_is_taken_is_said(odd, home):
    port = odd.url.rpartition(":")[2]
    result = run_command("env", "serve", "--env", "countdown", "--port", port, cwd=home)
    assert (result.code, f"cannot listen on 127.0.0.1:{port}" in result.err) == (2, True)


def test_options_of_an_environment_are_set(serve, home):
    server = serve(
        "--env",
        "countdown",
        "--env",
        "calculator",
        "--set",
        "countdown.training_tasks=3",
        "--set",
        "calculator.calls=1",
        cwd=home,
    )
    assert server.data("get_env_profile", env_type="countdown") == ["train-0", "train-1", "train-2"]
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(20) == 0


def test_the_installed_environments_are_listed(home):
    result = run_command("env", "list", cwd=home)
    assert result.code == 0
    assert "countdown" in result.out
    rows = json.loads(run_command("env", "list", "--json", cwd=home).out)
    assert {"calculator", "countdown", "frozen_lake", "reasoning_gym"} <= {row["name"] for row in rows}
