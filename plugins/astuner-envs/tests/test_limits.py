"""Environments of one's own, served by path with tasks from a file, and what happens to those that misbehave."""

from __future__ import annotations

import json
import re
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

import httpx
import psutil
import pytest

from astuner_devkit.command_line import run_command
from astuner_devkit.waiting import is_alive, until

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
    limits = ("--step-timeout-s", "6", "--memory-mb", "512")
    return serve("--env", "./odd_worlds.py:Odd", "--tasks", "train=train.jsonl", "--tasks", "dev=held.jsonl", *limits, cwd=home)


@pytest.fixture
def instance_id(odd):
    begun = odd.data("create", task_id="a")
    yield begun["info"]["instance_id"]
    odd.post("release", instance_id=begun["info"]["instance_id"])
    until(lambda: odd.processes() == [])


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


def test_half_a_character_of_an_environment_is_mended(odd, instance_id):
    answer = step(odd, instance_id, "half").json()["data"]
    assert answer["state"] == [{"role": "user", "content": "a \ufffd b \U0001f600"}]
    assert answer["info"] == {"\ufffd": "\ufffd"}
    failed = step(odd, instance_id, "raise half")
    assert (failed.status_code, "the world broke at \ufffd" in failed.json()["detail"]) == (500, True)


@pytest.mark.parametrize(
    "raw", [b'{"task_id": "\\ud800"}', b'{"messages": {"content": ["a\\udfff"]}}', b'{"params": {"\\ud83d": 1}}']
)
def test_half_a_character_of_a_client_is_refused(odd, raw):
    answer = httpx.post(f"{odd.url}/create", content=raw, headers=odd.headers)
    assert (answer.status_code, "half a surrogate pair" in answer.json()["detail"]) == (422, True)


def test_a_foreign_name_is_refused(odd):
    answer = httpx.post(f"{odd.url}/create", json={"task_id": "a"}, headers={**odd.headers, "host": "evil.example"})
    assert answer.status_code == 403


def test_a_reward_that_is_not_a_number_is_the_environments_failure(odd, instance_id):
    assert step(odd, instance_id, "nan").status_code == 500
    assert step(odd, instance_id, "on").status_code == 200


def test_an_info_that_json_does_not_have_becomes_text(odd, instance_id):
    answer = step(odd, instance_id, "odd info")
    assert answer.status_code == 200
    assert answer.json()["data"]["info"] == {"number": "inf"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("sleep", "step took longer than 6 s, so its process was ended"),
        ("exit", "its process has ended (exit status 3)"),
    ],
)
def test_an_instance_that_is_lost_says_why_then_and_later(odd, instance_id, content, said):
    answer = step(odd, instance_id, content)
    assert (answer.status_code, said in answer.json()["detail"]) == (500, True), answer.text
    later = step(odd, instance_id, "on")
    assert (later.status_code, said in later.json()["detail"]) == (400, True), later.text


@pytest.mark.parametrize("content", ["start and sleep", "start and exit"])
def test_what_an_instance_started_ends_with_it_also_where_that_is_lost(odd, instance_id, content):
    assert step(odd, instance_id, content).status_code == 500
    pid = int(re.findall(r"^started (\d+)$", odd.said, re.MULTILINE)[-1])
    until(lambda: not is_alive(pid))


@pytest.mark.parametrize("content", ["start", "start away"])
def test_what_an_instance_started_lives_with_it_and_ends_when_it_is_released(odd, content):
    instance_id = odd.data("create", task_id="a")["info"]["instance_id"]
    pid = int(step(odd, instance_id, content).json()["data"]["state"][0]["content"])
    # Others end meanwhile.
    odd.post("release", instance_id=odd.data("create", task_id="a")["info"]["instance_id"])
    with pytest.raises(psutil.TimeoutExpired):
        psutil.Process(pid).wait(1.5)
    odd.post("release", instance_id=instance_id)
    until(lambda: not is_alive(pid))


def test_what_was_started_for_all_instances_lives_as_long_as_the_server(serve, home):
    server = serve("--env", "./odd_worlds.py:Helped", "--tasks", "train=train.jsonl", cwd=home)
    first, second = (server.data("create", task_id="a")["info"]["instance_id"] for _ in range(2))
    helper = int(step(server, first, "on").json()["data"]["state"][0]["content"])
    server.post("release", instance_id=first)
    with pytest.raises(psutil.TimeoutExpired):
        psutil.Process(helper).wait(2.5)
    assert step(server, second, "on").status_code == 200
    server.process.terminate()
    until(lambda: not is_alive(helper))


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_what_an_instance_started_ends_with_the_server(serve, home, end):
    server = serve("--env", "./odd_worlds.py:Odd", "--tasks", "train=train.jsonl", cwd=home)
    instance_id = server.data("create", task_id="a")["info"]["instance_id"]
    pids = [int(step(server, instance_id, one).json()["data"]["state"][0]["content"]) for one in ("start", "start away")]
    server.process.send_signal(end)
    until(lambda: not any(map(is_alive, pids)))


def until_free(pid, count):
    """Return the limit of descriptors that leaves a process so many."""
    used = {int(place.name) for place in Path(f"/proc/{pid}/fd").iterdir()}
    return [number for number in range(1 << 16) if number not in used][count]


@pytest.mark.skipif(sys.platform != "linux", reason="sets limits of other processes")
@pytest.mark.parametrize("where", ["server", "forking process"])
def test_without_free_descriptors_the_answer_is_full_and_the_others_play_on(serve, home, where):
    server = serve("--env", "./odd_worlds.py:Odd", "--tasks", "train=train.jsonl", cwd=home)
    instance_id = server.data("create", task_id="a")["info"]["instance_id"]
    main = psutil.Process(server.process.pid)
    limited = main if where == "server" else main.children()[0]
    before = resource.prlimit(limited.pid, resource.RLIMIT_NOFILE)
    # A connection takes one descriptor; the two ends of a socket, or the one that is passed on, take more. Connections of earlier
    # requests may end meanwhile and leave room, so it is tried again.
    for attempt in range(20):
        time.sleep(0.1)
        few = until_free(limited.pid, 2 if where == "server" else 0)
        resource.prlimit(limited.pid, resource.RLIMIT_NOFILE, (few, before[1]))
        refused = server.post("create", task_id="a", instance_id=f"refused-{attempt}")
        resource.prlimit(limited.pid, resource.RLIMIT_NOFILE, before)
        if refused.status_code != 200:
            break
        server.post("release", instance_id=f"refused-{attempt}")
    assert (refused.status_code, "no process can be started now" in refused.json()["detail"]) == (503, True), refused.text
    assert step(server, instance_id, "on").status_code == 200
    assert server.data("create", task_id="a", instance_id="b")["state"][0]["content"] == "play"
    for one in (instance_id, "b"):
        assert server.post("release", instance_id=one).json()["success"]
    # Those that came too early were made, and released.
    assert server.accounts() == {"created": 3 + attempt, "released": 2 + attempt, "refused": 1, "most": 256}


def test_a_process_that_the_system_refuses_is_answered_full_and_the_others_play_on(serve, home):
    server = serve("--env", "./odd_worlds.py:Crowded", "--tasks", "train=train.jsonl", cwd=home)
    instance_id = server.data("create", task_id="a")["info"]["instance_id"]
    (home / "crowded").touch()
    refused = server.post("create", task_id="a", instance_id="b")
    (home / "crowded").unlink()
    assert (refused.status_code, "Resource temporarily unavailable" in refused.json()["detail"]) == (503, True), refused.text
    assert step(server, instance_id, "on").status_code == 200
    assert server.data("create", task_id="a", instance_id="b")["state"][0]["content"] == "play"


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
    assert "begin took longer than 6 s" in odd.post("create", task_id="c").json()["detail"]
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
    before = odd.said.count("going to sleep")
    stepping = threading.Thread(target=lambda: answers.append(step(odd, instance_id, "sleep")))
    stepping.start()
    until(lambda: odd.said.count("going to sleep") == before + 1)
    assert odd.post("release", instance_id=instance_id).json()["success"]
    stepping.join()
    assert (answers[0].status_code, "it was released" in answers[0].json()["detail"]) == (500, True)
    assert odd.processes() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--env", "nope"], "no environment 'nope'; installed: "),
        (["--env", "countdown", "--env", "countdown"], "gives one name twice"),
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


@pytest.mark.parametrize(("env", "called"), [("./odd_worlds.py:Odd", "odd"), ("strange=./odd_worlds.py:Odd", "strange")])
def test_an_environment_in_a_file_has_a_name_that_is_printed(serve, home, env, called):
    server = serve("--env", env, "--tasks", "train=train.jsonl", cwd=home)
    assert f"{called} (./odd_worlds.py:Odd); in the YAML of a run:" in server.said
    for name in (called, "./odd_worlds.py:Odd"):
        assert server.data("get_env_profile", env_type=name, params={"split": "train"})
